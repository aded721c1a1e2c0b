package sites

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"druid.internal/druid/test/stores"
	"druid.internal/druid/test/stores/azworm"
)

// The kinds of container of Azure.
var (
	// Container is one with a policy of its own that is locked.
	Container = Kind{Name: "container", Locks: true, Whole: true}
	// Level is version-level immutability without a default.
	Level = Kind{Name: "level", Versions: true}
	// LevelLocked is version-level immutability with a default policy for every version, which is not locked.
	LevelLocked = Kind{Name: "level-locked", Versions: true, Locks: true, Loose: true}
	// LevelFinal is one with a default policy that is locked.
	LevelFinal = Kind{Name: "level-final", Versions: true, Locks: true}
	// LooseContainer is one with a policy of its own that is not locked.
	LooseContainer = Kind{Name: "loose-container", Locks: true, Whole: true, Loose: true}
)

type azure struct{ server *azworm.Server }

func startAzure(ctx context.Context, f *Fleet) (Site, error) {
	server, err := azworm.Start(ctx, azworm.ServerOptions{Host: f.Host})
	if err != nil {
		return nil, err
	}
	return &azure{server}, nil
}

func (a *azure) Name() string { return "Azure" }

func (a *azure) Kinds() []Kind {
	return []Kind{Plain, Level, LevelLocked, LevelFinal, LooseContainer, Container}
}

func (a *azure) Reach() (string, *stores.CA) { return a.server.Reach() }

func (a *azure) Create(ctx context.Context, name string, k Kind) error {
	p := azworm.Protection{VersionLevel: k.Versions, Locked: !k.Loose}
	if k.Locks {
		p.Days = 1
	}
	return a.server.Create(ctx, name, p)
}

// credentials are a key or a SAS.
func (a *azure) credentials(who Who) (key, signature string, err error) {
	p := sas.AccountPermissions{Read: true, List: true, Tag: true}
	switch who {
	case Stranger:
		p = sas.AccountPermissions{Tag: true}
	case Owner:
		return a.server.Key, "", nil
	case Impostor:
		return "bm90LXRoZS1rZXktb2YtdGhpcy1hY2NvdW50", "", nil
	case Nobody:
		return "", "sv=2021-12-02&ss=b&srt=sco&sp=rwl&se=2100-01-01T00%3A00%3A00Z&sig=bm9ib2R5", nil
	case Writer:
		p.Write, p.Create = true, true
	case Collector:
		p.Delete, p.DeletePreviousVersion = true, true
	case Extender:
		p.SetImmutabilityPolicy = true
	}
	cred, err := blob.NewSharedKeyCredential(a.server.Account, a.server.Key)
	if err != nil {
		return "", "", err
	}
	q, err := sas.AccountSignatureValues{
		ExpiryTime: time.Now().Add(30 * 24 * time.Hour), Permissions: p.String(),
		ResourceTypes: (&sas.AccountResourceTypes{Service: true, Container: true, Object: true}).String(),
	}.SignWithSharedKey(cred)
	if err != nil {
		return "", "", fmt.Errorf("sign: %w", err)
	}
	return "", q.Encode(), nil
}

func (a *azure) Way(_ context.Context, bucket, endpoint string, who Who) (Way, error) {
	key, signature, err := a.credentials(who)
	files := map[string]string{"storageAccount": a.server.Account, CAFile: string(a.server.CA.PEM)}
	if key != "" {
		files["storageKey"] = key
	} else {
		files["sasToken"] = signature
	}
	return Way{Provider: "ABS", Container: bucket, Endpoint: endpoint + "/" + a.server.Account, Variable: "AZURE_APPLICATION_CREDENTIALS", Files: files}, err
}

// AdminWay is by the management API, which takes identities and no keys: here one with the assertion
// of a workload. The blobs are reached as by Way.
func (a *azure) AdminWay(ctx context.Context, bucket, endpoint string, who Who) (Way, error) {
	w, err := a.Way(ctx, bucket, endpoint, who)
	if err != nil {
		return w, err
	}
	assertion := map[Who]string{Owner: "owner", Impostor: "", Nobody: ""}
	said, known := assertion[who]
	if !known {
		said = "powerless"
	}
	w.Files["subscriptionID"], w.Files["resourceGroup"], w.Files["managementEndpoint"] = azworm.Subscription, azworm.ResourceGroup, endpoint
	w.Files["assertion"] = said
	w.More = map[string]string{"AZURE_AUTHORITY_HOST": endpoint, "AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_ID": "client", "AZURE_FEDERATED_TOKEN_FILE": "$DIR/assertion"}
	return w, nil
}

func (a *azure) Raw(_ context.Context, bucket string, who Who) (stores.Raw, error) {
	key, signature, err := a.credentials(who)
	if err != nil {
		return nil, err
	}
	return stores.AzureContainer{Endpoint: a.server.Endpoint, CA: a.server.CA, Key: key, SAS: signature, Name: bucket}.Raw()
}

// Request reads the operation from method and query.
func (a *azure) Request(r *http.Request) Request {
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"+a.server.Account+"/"), "/")
	comp := r.URL.Query().Get("comp")
	does := Other
	switch {
	case comp == "list":
		return Request{Does: List}
	case key == "":
		return Request{Does: Inspect}
	case r.Method == http.MethodPut && comp == "block":
		does = Part
	case r.Method == http.MethodPut && comp == "blocklist":
		does = Finish
	case r.Method == http.MethodPut && comp == "" && r.Header.Get("x-ms-copy-source") != "":
		does = Copy
	case r.Method == http.MethodPut && comp == "":
		does = Put
	case r.Method == http.MethodHead:
		does = Stat
	case r.Method == http.MethodGet && comp == "":
		does = Read
	case r.Method == http.MethodDelete:
		does = Delete
	}
	return Request{does, key}
}

// Lift removes the policy of the container and those of its versions.
func (a *azure) Lift(ctx context.Context, bucket string) error {
	if err := a.Unlock(ctx, bucket, Owner); err != nil {
		return err
	}
	hands := stores.AzureContainer{Endpoint: a.server.Endpoint, CA: a.server.CA, Key: a.server.Key, Name: bucket}
	client, err := hands.Client()
	if err != nil {
		return err
	}
	raw, err := hands.Raw()
	if err != nil {
		return err
	}
	versions, err := raw.Versions(ctx)
	if err != nil {
		return err
	}
	for _, v := range versions {
		if v.ID == "" {
			continue // it had none of its own
		}
		version, err := client.NewBlobClient(v.Key).WithVersionID(v.ID)
		if err != nil {
			return err
		}
		if _, err := version.DeleteImmutabilityPolicy(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

func (a *azure) stop() error { return a.server.Stop() }
