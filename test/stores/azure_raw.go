package stores

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azpolicy "github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

// AzureContainer is a container in the hands of whoever has the key of the account, a SAS or a token.
type AzureContainer struct {
	Endpoint string // of the account
	CA       *CA    // nil: the system's authorities
	Account  string // empty: AzuriteAccount
	Key      string // of the account; empty: SAS
	SAS      string // a query without its question mark
	Identity azcore.TokenCredential
	Name     string
}

// Client is the SDK's own. It never repeats.
func (a AzureContainer) Client() (*container.Client, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	if a.CA != nil {
		transport.TLSClientConfig = a.CA.ClientTLS()
	}
	options := &container.ClientOptions{ClientOptions: azpolicy.ClientOptions{
		Transport: &http.Client{Transport: transport},
		Retry:     azpolicy.RetryOptions{MaxRetries: -1},
	}}
	url := a.Endpoint + "/" + a.Name
	if a.Identity != nil {
		return container.NewClient(url, a.Identity, options)
	}
	if a.Key == "" {
		return container.NewClientWithNoCredential(url+"?"+a.SAS, options)
	}
	cred, err := container.NewSharedKeyCredential(cmp.Or(a.Account, AzuriteAccount), a.Key)
	if err != nil {
		return nil, err
	}
	return container.NewClientWithSharedKeyCredential(url, cred, options)
}

// Remove deletes the container with all that is in it.
func (a AzureContainer) Remove(ctx context.Context) error {
	c, err := a.Client()
	if err == nil {
		_, err = c.Delete(ctx, nil)
	}
	return err
}

// Raw is the container in these hands.
func (a AzureContainer) Raw() (Raw, error) {
	c, err := a.Client()
	if err != nil {
		return nil, err
	}
	return azureRaw{c}, nil
}

type azureRaw struct{ client *container.Client }

func (r azureRaw) Overwrite(ctx context.Context, key string, body []byte) error {
	_, err := r.client.NewBlockBlobClient(key).Upload(ctx, streaming.NopCloser(bytes.NewReader(body)), nil)
	return err
}

// Hide leaves the versions, where there are any, and makes none of them the current one.
func (r azureRaw) Hide(ctx context.Context, key string) error {
	_, err := r.client.NewBlobClient(key).Delete(ctx, nil)
	return err
}

// Delete removes a version. The current one must be made a previous one before.
func (r azureRaw) Delete(ctx context.Context, v RawVersion) error {
	if v.Current {
		if err := r.Hide(ctx, v.Key); err != nil || v.ID == "" {
			return err
		}
	}
	c, err := r.client.NewBlobClient(v.Key).WithVersionID(v.ID)
	if err != nil {
		return err
	}
	_, err = c.Delete(ctx, nil)
	return err
}

// Shorten asks for the weaker mode besides.
func (r azureRaw) Shorten(ctx context.Context, v RawVersion) error {
	return r.relock(ctx, v, time.Minute)
}

// Weaken locks for longer than any container of a day does.
func (r azureRaw) Weaken(ctx context.Context, v RawVersion) error {
	return r.relock(ctx, v, 48*time.Hour)
}

func (r azureRaw) relock(ctx context.Context, v RawVersion, d time.Duration) error {
	c := r.client.NewBlobClient(v.Key)
	if v.ID != "" {
		var err error
		if c, err = c.WithVersionID(v.ID); err != nil {
			return err
		}
	}
	mode := blob.ImmutabilityPolicySettingUnlocked
	_, err := c.SetImmutabilityPolicy(ctx, time.Now().Add(d), &blob.SetImmutabilityPolicyOptions{Mode: &mode})
	return err
}

func (r azureRaw) Read(ctx context.Context, v RawVersion) ([]byte, error) {
	c, err := r.client.NewBlobClient(v.Key).WithVersionID(v.ID)
	if err != nil {
		return nil, err
	}
	resp, err := c.DownloadStream(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

func (r azureRaw) Versions(ctx context.Context) ([]RawVersion, error) {
	var all []RawVersion
	pages := r.client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Include: container.ListBlobsInclude{Versions: true}})
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, b := range page.Segment.BlobItems {
			v := RawVersion{Key: *b.Name, Size: *b.Properties.ContentLength, Current: true}
			if b.VersionID != nil {
				v.ID, v.Current = *b.VersionID, b.IsCurrentVersion != nil && *b.IsCurrentVersion
			}
			all = append(all, v)
		}
	}
	return all, nil
}
