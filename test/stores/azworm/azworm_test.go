package azworm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/storage/armstorage"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"druid.internal/druid/test/stores/azworm"
)

var server *azworm.Server

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	var err error
	if server, err = azworm.Start(context.Background(), azworm.ServerOptions{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	return m.Run()
}

var containers atomic.Int64

// bucket is a container of its own, seen by the SDK with the account's key.
type bucket struct {
	*container.Client
	t    *testing.T
	name string
	arm  *armstorage.BlobContainersClient
}

func create(t *testing.T, p azworm.Protection) bucket {
	t.Helper()
	b := bucket{t: t, name: fmt.Sprintf("container-%d", containers.Add(1))}
	if err := server.Create(t.Context(), b.name, p); err != nil {
		t.Fatal(err)
	}
	b.Client = client(t, b.name, server.Key)
	var err error
	if b.arm, err = server.Containers(); err != nil {
		t.Fatal(err)
	}
	return b
}

func options() *container.ClientOptions {
	return &container.ClientOptions{ClientOptions: policy.ClientOptions{
		Transport: &http.Client{Transport: &http.Transport{TLSClientConfig: server.CA.ClientTLS(), DisableKeepAlives: true}},
		Retry:     policy.RetryOptions{MaxRetries: -1},
	}}
}

func client(t *testing.T, name, key string) *container.Client {
	t.Helper()
	cred, err := container.NewSharedKeyCredential(server.Account, key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := container.NewClientWithSharedKeyCredential(server.Endpoint+"/"+name, cred, options())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// code is the service's answer: OK or its error code.
func code(err error) string {
	var answer *azcore.ResponseError
	switch {
	case err == nil:
		return "OK"
	case errors.As(err, &answer):
		return answer.ErrorCode
	}
	return err.Error()
}

func want(t *testing.T, what string, err error, wantCode string) {
	t.Helper()
	if got := code(err); got != wantCode {
		t.Errorf("%s: %s, want %s", what, got, wantCode)
	}
}

func (b bucket) put(name, body string, o *blockblob.UploadOptions) (version string, err error) {
	resp, err := b.NewBlockBlobClient(name).Upload(b.t.Context(), streaming.NopCloser(strings.NewReader(body)), o)
	if resp.VersionID != nil {
		version = *resp.VersionID
	}
	return version, err
}

// deletion tries to delete a blob by its name, or a version by its ID.
func (b bucket) deletion(name, version string) error {
	c := b.NewBlobClient(name)
	if version != "" {
		var err error
		if c, err = c.WithVersionID(version); err != nil {
			b.t.Fatal(err)
		}
	}
	_, err := c.Delete(b.t.Context(), nil)
	return err
}

func (b bucket) content(name, version string) string {
	b.t.Helper()
	c := b.NewBlobClient(name)
	if version != "" {
		c, _ = c.WithVersionID(version)
	}
	resp, err := c.DownloadStream(b.t.Context(), nil)
	if err != nil {
		return code(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(body)
}

func (b bucket) policy(days int32) error {
	_, err := b.arm.CreateOrUpdateImmutabilityPolicy(b.t.Context(), azworm.ResourceGroup, server.Account, b.name,
		&armstorage.BlobContainersClientCreateOrUpdateImmutabilityPolicyOptions{Parameters: period(days)})
	return err
}

func period(days int32) *armstorage.ImmutabilityPolicy {
	return &armstorage.ImmutabilityPolicy{Properties: &armstorage.ImmutabilityPolicyProperty{ImmutabilityPeriodSinceCreationInDays: &days}}
}

func (b bucket) etag() string {
	b.t.Helper()
	got, err := b.arm.GetImmutabilityPolicy(b.t.Context(), azworm.ResourceGroup, server.Account, b.name, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return *got.ETag
}

func (b bucket) extend(etag string, days int32) error {
	_, err := b.arm.ExtendImmutabilityPolicy(b.t.Context(), azworm.ResourceGroup, server.Account, b.name, etag,
		&armstorage.BlobContainersClientExtendImmutabilityPolicyOptions{Parameters: period(days)})
	return err
}

const day = 24 * time.Hour

func TestAPolicyOfTheContainerLocksWhatIsThereAlready(t *testing.T) {
	b := create(t, azworm.Protection{})
	_, err := b.put("a", "body", nil)
	want(t, "put", err, "OK")
	want(t, "a policy", b.policy(4), "OK")
	want(t, "deletion", b.deletion("a", ""), "BlobImmutableDueToPolicy")
	_, err = b.put("a", "other", nil)
	want(t, "overwrite", err, "BlobImmutableDueToPolicy")
	_, err = b.NewBlobClient("a").SetMetadata(t.Context(), map[string]*string{"k": to.Ptr("v")}, nil)
	want(t, "metadata", err, "BlobImmutableDueToPolicy")
	_, err = b.NewBlobClient("a").SetTags(t.Context(), map[string]string{"k": "v"}, nil)
	want(t, "tags", err, "OK")
	_, err = b.put("b", "body", nil)
	want(t, "a new name", err, "OK")
	props, err := b.GetProperties(t.Context(), nil)
	if err != nil || !*props.HasImmutabilityPolicy || *props.IsImmutableStorageWithVersioningEnabled {
		t.Errorf("the container says %+v, %v", props, err)
	}
	got, err := b.NewBlobClient("a").GetProperties(t.Context(), nil)
	if err != nil || got.ImmutabilityPolicyExpiresOn == nil || got.ImmutabilityPolicyExpiresOn.Sub(server.Shim.Now()).Round(time.Hour) != 4*day || *got.TagCount != 1 {
		t.Errorf("the blob says %+v, %v", got, err)
	}

	server.Shim.Advance(5 * day)
	_, err = b.put("a", "other", nil)
	want(t, "overwrite after the period", err, "BlobImmutableDueToPolicy")
	want(t, "deletion after the period", b.deletion("a", ""), "OK")
	if got.Date == nil || server.Shim.Now().Sub(*got.Date) < 4*day {
		t.Errorf("the date of an answer was %s, now it is %s: it does not move", got.Date, server.Shim.Now())
	}
}

func TestALockedPolicyCanOnlyBeExtendedAndThatFiveTimes(t *testing.T) {
	b := create(t, azworm.Protection{Days: 3})
	want(t, "shortening while unlocked", b.policy(2), "OK")
	_, err := b.arm.LockImmutabilityPolicy(t.Context(), azworm.ResourceGroup, server.Account, b.name, `"stale"`, nil)
	want(t, "locking with another ETag", err, "UpdateImmutabilityPolicyFailed")
	_, err = b.arm.LockImmutabilityPolicy(t.Context(), azworm.ResourceGroup, server.Account, b.name, b.etag(), nil)
	want(t, "locking", err, "OK")
	want(t, "changing", b.policy(1), "ContainerImmutabilityPolicyFailure")
	want(t, "shortening", b.extend(b.etag(), 1), "ContainerImmutabilityPolicyFailure")
	_, err = b.arm.DeleteImmutabilityPolicy(t.Context(), azworm.ResourceGroup, server.Account, b.name, b.etag(), nil)
	want(t, "removing", err, "ContainerImmutabilityPolicyFailure")
	want(t, "extending with another ETag", b.extend(`"stale"`, 9), "UpdateImmutabilityPolicyFailed")
	for i := range int32(5) {
		want(t, fmt.Sprintf("extension %d", i+1), b.extend(b.etag(), 3+i), "OK")
	}
	want(t, "a sixth extension", b.extend(b.etag(), 100), "ContainerImmutabilityPolicyFailure")
	got, err := b.arm.Get(t.Context(), azworm.ResourceGroup, server.Account, b.name, nil)
	if err != nil || len(got.ContainerProperties.ImmutabilityPolicy.UpdateHistory) != 8 {
		t.Errorf("the history is %+v, %v; want two puts, a lock and five extensions", got.ContainerProperties, err)
	}
	_, err = b.Client.Delete(t.Context(), nil)
	if code(err) == "OK" {
		t.Error("the container was deleted")
	}
}

func TestAnUnlockedPolicyCanBeRemoved(t *testing.T) {
	b := create(t, azworm.Protection{Days: 3})
	_, err := b.put("a", "body", nil)
	want(t, "put", err, "OK")
	_, err = b.arm.DeleteImmutabilityPolicy(t.Context(), azworm.ResourceGroup, server.Account, b.name, b.etag(), nil)
	want(t, "removing", err, "OK")
	want(t, "deletion", b.deletion("a", ""), "OK")
	want(t, "a policy of no days", b.policy(0), "InvalidRequestPropertyValue")
	want(t, "a policy of too many", b.policy(146_001), "InvalidRequestPropertyValue")
}

func TestALegalHoldOfTheContainerHoldsEverything(t *testing.T) {
	b := create(t, azworm.Protection{})
	_, err := b.put("a", "body", nil)
	want(t, "put", err, "OK")
	hold := armstorage.LegalHold{Tags: to.SliceOfPtrs("audit1")}
	_, err = b.arm.SetLegalHold(t.Context(), azworm.ResourceGroup, server.Account, b.name, hold, nil)
	want(t, "hold", err, "OK")
	want(t, "deletion", b.deletion("a", ""), "BlobImmutableDueToLegalHold")
	_, err = b.arm.ClearLegalHold(t.Context(), azworm.ResourceGroup, server.Account, b.name, hold, nil)
	want(t, "clearing", err, "OK")
	want(t, "deletion", b.deletion("a", ""), "OK")
	_, err = b.arm.SetLegalHold(t.Context(), azworm.ResourceGroup, server.Account, b.name, armstorage.LegalHold{Tags: to.SliceOfPtrs("ab")}, nil)
	want(t, "a tag that is too short", err, "InvalidRequestPropertyValue")
}

func TestVersionsAreKeptAndAreDeletedOneByOne(t *testing.T) {
	b := create(t, azworm.Protection{VersionLevel: true})
	one, err := b.put("a", "one", nil)
	want(t, "put", err, "OK")
	two, err := b.put("a", "two", nil)
	want(t, "overwrite", err, "OK")
	if one == "" || two <= one {
		t.Fatalf("the versions are %q and %q, want later ones to be greater", one, two)
	}
	if b.content("a", one) != "one" || b.content("a", "") != "two" || b.content("a", two) != "two" {
		t.Errorf("the contents are %q, %q and %q", b.content("a", one), b.content("a", ""), b.content("a", two))
	}
	want(t, "deleting the current version by its ID", b.deletion("a", two), "OperationNotAllowedOnRootBlob")
	want(t, "deleting by name", b.deletion("a", ""), "OK")
	want(t, "reading by name", errors.New(b.content("a", "")), "BlobNotFound")
	if b.content("a", two) != "two" {
		t.Errorf("the previous version holds %q", b.content("a", two))
	}
	var listed []string
	for pager := b.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{MaxResults: to.Ptr[int32](1), Include: container.ListBlobsInclude{Versions: true}}); pager.More(); {
		page, err := pager.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Segment.BlobItems {
			listed = append(listed, *item.VersionID)
			if item.IsCurrentVersion != nil {
				t.Errorf("%s is listed as current", *item.VersionID)
			}
		}
	}
	if fmt.Sprint(listed) != fmt.Sprint([]string{one, two}) {
		t.Errorf("listed are %q, want the oldest first", listed)
	}
	want(t, "deleting the first", b.deletion("a", one), "OK")
	want(t, "deleting it again", b.deletion("a", one), "BlobNotFound")
	want(t, "deleting what cannot be an ID", b.deletion("a", "none"), "InvalidQueryParameterValue")
}

func TestAVersionsPolicyRefusesDeletionUntilItsDate(t *testing.T) {
	b := create(t, azworm.Protection{VersionLevel: true})
	until := server.Shim.Now().Add(day).Truncate(time.Second)
	one, err := b.put("a", "one", &blockblob.UploadOptions{ImmutabilityPolicyMode: to.Ptr(blob.ImmutabilityPolicySettingUnlocked), ImmutabilityPolicyExpiryTime: &until})
	want(t, "put", err, "OK")
	want(t, "deleting by name", b.deletion("a", ""), "BlobImmutableDueToPolicy")
	_, err = b.NewBlobClient("a").SetMetadata(t.Context(), map[string]*string{"k": to.Ptr("v")}, nil)
	want(t, "metadata", err, "BlobImmutableDueToPolicy")
	_, err = b.put("a", "two", nil)
	want(t, "overwrite", err, "OK")
	want(t, "deleting the previous version", b.deletion("a", one), "BlobImmutableDueToPolicy")
	v, err := b.NewBlobClient("a").WithVersionID(one)
	if err != nil {
		t.Fatal(err)
	}
	set := func(what string, d time.Duration, mode blob.ImmutabilityPolicySetting, wantCode string) {
		t.Helper()
		_, err := v.SetImmutabilityPolicy(t.Context(), until.Add(d), &blob.SetImmutabilityPolicyOptions{Mode: &mode})
		want(t, what, err, wantCode)
	}
	set("shortening while unlocked", -time.Hour, blob.ImmutabilityPolicySettingUnlocked, "OK")
	set("locking", day, blob.ImmutabilityPolicySettingLocked, "OK")
	set("shortening", 0, blob.ImmutabilityPolicySettingLocked, "BlobImmutableDueToPolicy")
	set("unlocking", 2*day, blob.ImmutabilityPolicySettingUnlocked, "BlobImmutableDueToPolicy")
	_, err = v.DeleteImmutabilityPolicy(t.Context(), nil)
	want(t, "removing", err, "ImmutabilityPolicyDeleteOnLockedPolicy")
	_, err = v.SetLegalHold(t.Context(), true, nil)
	want(t, "hold", err, "OK")
	server.Shim.Advance(3 * day)
	want(t, "deletion under a hold", b.deletion("a", one), "BlobImmutableDueToLegalHold")
	_, err = v.SetLegalHold(t.Context(), false, nil)
	want(t, "release", err, "OK")
	want(t, "deletion", b.deletion("a", one), "OK")
	past := server.Shim.Now().Add(-time.Hour)
	_, err = b.put("b", "x", &blockblob.UploadOptions{ImmutabilityPolicyMode: to.Ptr(blob.ImmutabilityPolicySettingLocked), ImmutabilityPolicyExpiryTime: &past})
	want(t, "a date in the past", err, "InvalidHeaderValue")
}

func TestADefaultIsStampedOnNewVersionsOnlyAndKeepsItsDate(t *testing.T) {
	b := create(t, azworm.Protection{VersionLevel: true, Days: 1})
	_, err := b.put("a", "one", nil)
	want(t, "put", err, "OK")
	want(t, "a longer default", b.policy(9), "OK")
	got, err := b.NewBlobClient("a").GetProperties(t.Context(), nil)
	if err != nil || got.ImmutabilityPolicyExpiresOn.Sub(server.Shim.Now()).Round(time.Hour) != day || *got.ImmutabilityPolicyMode != "unlocked" {
		t.Errorf("the version says %+v, %v", got, err)
	}
	want(t, "deletion", b.deletion("a", ""), "BlobImmutableDueToPolicy")
}

func TestWhoIsNotLetInIsToldWhy(t *testing.T) {
	b := create(t, azworm.Protection{})
	_, err := client(t, b.name, "d3Jvbmc=").GetProperties(t.Context(), nil)
	want(t, "another key", err, "AuthenticationFailed")

	server.Shim.SetClockError(20 * time.Minute)
	_, err = b.GetProperties(t.Context(), nil)
	server.Shim.SetClockError(0)
	want(t, "another time", err, "AuthenticationFailed")

	signed := func(expiry time.Time, p sas.ContainerPermissions) *container.Client {
		t.Helper()
		link, err := b.GetSASURL(p, expiry, nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := container.NewClientWithNoCredential(link, options())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := func(c *container.Client) error {
		_, err := c.NewListBlobsFlatPager(nil).NextPage(t.Context())
		return err
	}
	later := server.Shim.Now().Add(time.Hour)
	want(t, "a SAS", first(signed(later, sas.ContainerPermissions{List: true})), "OK")
	want(t, "one that has expired", first(signed(server.Shim.Now().Add(-time.Minute), sas.ContainerPermissions{List: true})), "AuthenticationFailed")
	want(t, "one for something else", first(signed(later, sas.ContainerPermissions{Read: true})), "AuthorizationPermissionMismatch")
	_, err = signed(later, sas.ContainerPermissions{Read: true, List: true}).GetProperties(t.Context(), nil)
	want(t, "the container itself by one of its own", err, "AuthorizationResourceTypeMismatch")
	anybody, err := container.NewClientWithNoCredential(server.Endpoint+"/"+b.name, options())
	if err != nil {
		t.Fatal(err)
	}
	want(t, "nobody", first(anybody), "NoAuthenticationInformation")
	token, err := container.NewClient(server.Endpoint+"/"+b.name, azworm.Token(server.Token), options())
	if err != nil {
		t.Fatal(err)
	}
	want(t, "a token", first(token), "OK")
}

// TestARoleMayDoWhatItsLettersAndActionsSay by SAS of the account and by identities: what each operation takes.
func TestARoleMayDoWhatItsLettersAndActionsSay(t *testing.T) {
	b := create(t, azworm.Protection{VersionLevel: true})
	one, err := b.put("a", "one", nil)
	want(t, "put", err, "OK")
	_, err = b.put("a", "two", nil)
	want(t, "put again", err, "OK")
	later := server.Shim.Now().Add(time.Hour)
	operations := []struct {
		name    string
		letters string
		actions []string
		do      func(c *container.Client) error
	}{
		{"read", "r", []string{"blobs/read"}, func(c *container.Client) error {
			_, err := c.NewBlobClient("a").GetProperties(t.Context(), nil)
			return err
		}},
		{"list", "l", []string{"blobs/read"}, func(c *container.Client) error {
			_, err := c.NewListBlobsFlatPager(nil).NextPage(t.Context())
			return err
		}},
		{"list tags", "lt", []string{"blobs/read", "blobs/tags/read"}, func(c *container.Client) error {
			_, err := c.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Include: container.ListBlobsInclude{Tags: true}}).NextPage(t.Context())
			return err
		}},
		{"write", "w", []string{"blobs/write"}, func(c *container.Client) error {
			_, err := c.NewBlockBlobClient("new").Upload(t.Context(), streaming.NopCloser(strings.NewReader("x")), nil)
			return err
		}},
		{"write with a lock", "wi", []string{"blobs/write", "blobs/immutableStorage/runAsSuperUser/action"}, func(c *container.Client) error {
			_, err := c.NewBlockBlobClient("locked").Upload(t.Context(), streaming.NopCloser(strings.NewReader("x")),
				&blockblob.UploadOptions{ImmutabilityPolicyMode: to.Ptr(blob.ImmutabilityPolicySettingUnlocked), ImmutabilityPolicyExpiryTime: &later})
			return err
		}},
		{"read tags", "t", []string{"blobs/tags/read"}, func(c *container.Client) error {
			_, err := c.NewBlobClient("a").GetTags(t.Context(), nil)
			return err
		}},
		{"set tags", "t", []string{"blobs/tags/write"}, func(c *container.Client) error {
			_, err := c.NewBlobClient("a").SetTags(t.Context(), map[string]string{"k": "v"}, nil)
			return err
		}},
		{"lock", "i", []string{"blobs/immutableStorage/runAsSuperUser/action"}, func(c *container.Client) error {
			_, err := c.NewBlobClient("a").SetImmutabilityPolicy(t.Context(), later, nil)
			return err
		}},
		{"delete a version", "x", []string{"blobs/deleteBlobVersion/action"}, func(c *container.Client) error {
			v, err := c.NewBlobClient("a").WithVersionID(one)
			if err == nil {
				_, err = v.Delete(t.Context(), nil)
			}
			return err
		}},
		{"delete by name", "d", []string{"blobs/delete"}, func(c *container.Client) error {
			_, err := c.NewBlobClient("new").Delete(t.Context(), nil)
			return err
		}},
		{"properties of the container", "r", []string{"read"}, func(c *container.Client) error {
			_, err := c.GetProperties(t.Context(), nil)
			return err
		}},
	}
	const letters = "rwdxlti"
	actions := []string{"read", "write", "delete", "blobs/read", "blobs/write", "blobs/tags/read", "blobs/tags/write",
		"blobs/delete", "blobs/deleteBlobVersion/action", "blobs/immutableStorage/runAsSuperUser/action"}
	bySAS := func(letters, types string) *container.Client {
		t.Helper()
		cred, err := blob.NewSharedKeyCredential(server.Account, server.Key)
		if err != nil {
			t.Fatal(err)
		}
		q, err := sas.AccountSignatureValues{ExpiryTime: time.Now().Add(30 * 24 * time.Hour), Permissions: letters, ResourceTypes: types}.SignWithSharedKey(cred)
		if err != nil {
			t.Fatal(err)
		}
		c, err := container.NewClientWithNoCredential(server.Endpoint+"/"+b.name+"?"+q.Encode(), options())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	byName := func(actions []string) *container.Client {
		t.Helper()
		server.Shim.Identify("somebody", actions...)
		c, err := container.NewClient(server.Endpoint+"/"+b.name, azworm.TokenOf("somebody"), options())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, o := range operations {
		for _, letter := range o.letters {
			want(t, o.name+" by a SAS without "+string(letter), o.do(bySAS(strings.ReplaceAll(letters, string(letter), ""), "co")), "AuthorizationPermissionMismatch")
		}
		for _, action := range o.actions {
			others := slices.DeleteFunc(slices.Clone(actions), func(a string) bool { return a == action })
			want(t, o.name+" without "+action, o.do(byName(others)), "AuthorizationPermissionMismatch")
		}
		want(t, o.name+" by identity", o.do(byName(o.actions)), "OK")
		if o.name == "delete by name" || o.name == "delete a version" {
			continue // it is gone
		}
		want(t, o.name+" by a SAS", o.do(bySAS(o.letters, "co")), "OK")
	}
	want(t, "the container by a SAS for blobs alone", operations[len(operations)-1].do(bySAS(letters, "o")), "AuthorizationResourceTypeMismatch")
	want(t, "a blob by a SAS for containers alone", operations[0].do(bySAS(letters, "c")), "AuthorizationResourceTypeMismatch")
}

// TestWhoMayDeleteBlobsByASASOfTheAccountMayDeleteTheContainer, which is why nothing should be without a policy.
func TestWhoMayDeleteBlobsByASASOfTheAccountMayDeleteTheContainer(t *testing.T) {
	for phrase, c := range map[string]struct {
		protection azworm.Protection
		letters    string
		want       string
	}{
		"with d":                        {azworm.Protection{}, "rldx", "OK"},
		"without":                       {azworm.Protection{}, "rwcl", "AuthorizationPermissionMismatch"},
		"with d, and a policy":          {azworm.Protection{Days: 1}, "rldx", "ContainerImmutabilityPolicyInEffect"},
		"with d, and level of versions": {azworm.Protection{VersionLevel: true}, "rldx", "ContainerImmutableStorageWithVersioningEnabled"},
	} {
		t.Run(phrase, func(t *testing.T) {
			b := create(t, c.protection)
			cred, err := blob.NewSharedKeyCredential(server.Account, server.Key)
			if err != nil {
				t.Fatal(err)
			}
			q, err := sas.AccountSignatureValues{ExpiryTime: time.Now().Add(30 * 24 * time.Hour), Permissions: c.letters, ResourceTypes: "co"}.SignWithSharedKey(cred)
			if err != nil {
				t.Fatal(err)
			}
			client, err := container.NewClientWithNoCredential(server.Endpoint+"/"+b.name+"?"+q.Encode(), options())
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Delete(t.Context(), nil)
			want(t, "deleting it", err, c.want)
		})
	}
}
