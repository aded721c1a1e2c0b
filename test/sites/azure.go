package sites

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
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

// azure is reached by the key of the account, which is its owner's, and by SAS of the account for everybody else.
type azure struct {
	server *azworm.Server

	mu    sync.Mutex
	kinds map[string]Kind // by container
}

func startAzure(ctx context.Context, f *Fleet) (Site, error) {
	server, err := azworm.Start(ctx, azworm.ServerOptions{Host: f.Host})
	if err != nil {
		return nil, err
	}
	a := &azure{server: server, kinds: map[string]Kind{}}
	for _, who := range []Who{Writer, Reader, Collector, Excluder, Stranger} {
		server.Shim.Identify(identity(who, Kind{}), AzureActions(who, Kind{})...)
	}
	for _, k := range []Kind{Container, Level} {
		server.Shim.Identify(identity(Extender, k), AzureActions(Extender, k)...)
	}
	return a, nil
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
	a.mu.Lock()
	a.kinds[name] = k
	a.mu.Unlock()
	return a.server.Create(ctx, name, p)
}

func (a *azure) kind(container string) Kind {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.kinds[container]
}

// AzureLetters are what the documentation recommends for the SAS of a role. That of an extender depends on how the container locks.
func AzureLetters(who Who, k Kind) string {
	switch who {
	case Writer:
		return "rwcl"
	case Reader:
		return "rl"
	case Collector:
		return "rldx"
	case Excluder:
		return "rlt"
	case Extender:
		if k.Versions {
			return "rli"
		}
		return "rwcl"
	}
	return "p" // messages of queues
}

// AzureActions are the same for an identity.
func AzureActions(who Who, k Kind) []string {
	reader := []string{"read", "blobs/read", "blobs/tags/read"}
	writer := []string{"read", "blobs/read", "blobs/write", "blobs/add/action", "blobs/tags/read"}
	switch who {
	case Writer:
		return writer
	case Reader:
		return reader
	case Collector:
		return append(reader, "blobs/delete", "blobs/deleteBlobVersion/action")
	case Excluder:
		return append(reader, "blobs/tags/write")
	case Extender:
		if k.Versions {
			return append(reader, "blobs/immutableStorage/runAsSuperUser/action")
		}
		return writer
	}
	return nil
}

// credentials are a key or a SAS.
func (a *azure) credentials(bucket string, who Who) (key, signature string, err error) {
	switch who {
	case Owner:
		return a.server.Key, "", nil
	case Impostor:
		return "bm90LXRoZS1rZXktb2YtdGhpcy1hY2NvdW50", "", nil
	case Nobody:
		return "", "sv=2021-12-02&ss=b&srt=sco&sp=rwl&se=2100-01-01T00%3A00%3A00Z&sig=bm9ib2R5", nil
	}
	cred, err := blob.NewSharedKeyCredential(a.server.Account, a.server.Key)
	if err != nil {
		return "", "", err
	}
	q, err := sas.AccountSignatureValues{
		ExpiryTime: time.Now().Add(30 * 24 * time.Hour), Permissions: AzureLetters(who, a.kind(bucket)),
		ResourceTypes: (&sas.AccountResourceTypes{Container: true, Object: true}).String(),
	}.SignWithSharedKey(cred)
	if err != nil {
		return "", "", fmt.Errorf("sign: %w", err)
	}
	return "", q.Encode(), nil
}

func (a *azure) Way(_ context.Context, bucket, endpoint string, who Who) (Way, error) {
	key, signature, err := a.credentials(bucket, who)
	files := map[string]string{"storageAccount": a.server.Account, CAFile: string(a.server.CA.PEM)}
	if key != "" {
		files["storageKey"] = key
	} else {
		files["sasToken"] = signature
	}
	return Way{Provider: "ABS", Container: bucket, Endpoint: endpoint + "/" + a.server.Account, Variable: "AZURE_APPLICATION_CREDENTIALS", Files: files}, err
}

// byIdentity is the same server, reached by those who have a part of the rights as identities with roles instead of by SAS.
type byIdentity struct{ *azure }

// ByIdentity is the same site for those whose rights are given to them by name; ok: there is another way besides.
func ByIdentity(s Site) (named Site, ok bool) {
	a, ok := s.(*azure)
	return byIdentity{a}, ok
}

// identity is its name, which its assertion says.
func identity(who Who, k Kind) string {
	if who == Extender && k.Versions {
		return "role-of-extender-of-versions"
	}
	return fmt.Sprintf("role%d", who)
}

func (b byIdentity) Way(ctx context.Context, bucket, endpoint string, who Who) (Way, error) {
	w, err := b.azure.Way(ctx, bucket, endpoint, who)
	if who == Owner || who == Impostor || who == Nobody || err != nil {
		return w, err
	}
	delete(w.Files, "sasToken")
	b.federate(&w, endpoint, identity(who, b.kind(bucket)))
	return w, nil
}

func (b byIdentity) Raw(ctx context.Context, bucket string, who Who) (stores.Raw, error) {
	if who == Owner || who == Impostor || who == Nobody {
		return b.azure.Raw(ctx, bucket, who)
	}
	return stores.AzureContainer{Endpoint: b.server.Endpoint, CA: b.server.CA, Identity: azworm.TokenOf(identity(who, b.kind(bucket))), Name: bucket}.Raw()
}

// federate makes a way one with the assertion of a workload.
func (a *azure) federate(w *Way, endpoint, assertion string) {
	w.Files["assertion"] = assertion
	w.More = map[string]string{"AZURE_AUTHORITY_HOST": endpoint, "AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_ID": "client", "AZURE_FEDERATED_TOKEN_FILE": "$DIR/assertion"}
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
	a.federate(&w, endpoint, said)
	return w, nil
}

func (a *azure) Raw(_ context.Context, bucket string, who Who) (stores.Raw, error) {
	key, signature, err := a.credentials(bucket, who)
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
