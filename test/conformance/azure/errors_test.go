package azure

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/azure"
	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/stores"
	"druid.internal/druid/test/stores/azworm"
)

// accountSAS is signed with the account's key and reaches every container.
func accountSAS(t *testing.T, expiry time.Time, p sas.AccountPermissions) string {
	t.Helper()
	cred, err := azureKey()
	if err != nil {
		t.Fatal(err)
	}
	signed, err := sas.AccountSignatureValues{
		ExpiryTime: expiry.UTC(), Permissions: p.String(), ResourceTypes: (&sas.AccountResourceTypes{Container: true, Object: true}).String(),
	}.SignWithSharedKey(cred)
	if err != nil {
		t.Fatal(err)
	}
	return signed.Encode()
}

// containerSAS reaches the blobs of one container and not the container itself.
func containerSAS(t *testing.T, name string, expiry time.Time, p sas.ContainerPermissions) string {
	t.Helper()
	cred, err := azureKey()
	if err != nil {
		t.Fatal(err)
	}
	signed, err := sas.BlobSignatureValues{ContainerName: name, ExpiryTime: expiry.UTC(), Permissions: p.String()}.SignWithSharedKey(cred)
	if err != nil {
		t.Fatal(err)
	}
	return signed.Encode()
}

func withSAS(token string) func(*azure.Options) {
	return func(o *azure.Options) {
		o.Keys = func() (azure.Keys, error) { return azure.Keys{SAS: "?" + token}, nil }
	}
}

var everything = sas.AccountPermissions{Read: true, Write: true, Delete: true, DeletePreviousVersion: true, List: true, Add: true, Create: true, Tag: true}

func TestEachMistakeOfAnOperatorIsNamedWithItsRemedy(t *testing.T) {
	bucket := locking().create(t)
	later := worm.Shim.Now().Add(time.Hour)
	const secret = "c2VjcmV0LWtleQ=="
	key := func(k string) func(*azure.Options) {
		return func(o *azure.Options) { o.Keys = func() (azure.Keys, error) { return azure.Keys{AccountKey: k}, nil } }
	}
	cases := map[string]struct {
		change func(*azure.Options)
		skew   time.Duration
		want   error
		says   string
	}{
		"a wrong key":                  {key(secret), 0, store.ErrCredentials, "storageKey"},
		"a key that is none":           {key("not base64!"), 0, store.ErrCredentials, "storageKey"},
		"an expired SAS":               {withSAS(accountSAS(t, worm.Shim.Now().Add(-time.Hour), everything)), 0, store.ErrCredentials, "expired"},
		"a mutilated SAS":              {withSAS(strings.Replace(accountSAS(t, later, everything), "sig=", "sig=x", 1)), 0, store.ErrCredentials, "sasToken"},
		"a SAS that may not list":      {withSAS(accountSAS(t, later, sas.AccountPermissions{Read: true})), 0, nil, ""},
		"a clock that is wrong":        {nil, 3 * time.Hour, store.ErrCredentials, "clock"},
		"a token of somebody else":     {func(o *azure.Options) { o.Keys, o.Identity = nil, azworm.Token("other") }, 0, store.ErrCredentials, "InvalidAuthenticationInfo"},
		"no such container":            {func(o *azure.Options) { o.Container = "nobody-made-this" }, 0, store.ErrNoBucket, "nobody-made-this"},
		"no CA":                        {func(o *azure.Options) { o.TrustedCAs = nil }, 0, store.ErrUnreachable, "trustedCaCert"},
		"nobody is there":              {func(o *azure.Options) { o.Endpoint = "https://127.0.0.1:1" }, 0, store.ErrUnreachable, "https://127.0.0.1:1"},
		"plain http to a TLS server":   {func(o *azure.Options) { o.Endpoint = strings.Replace(o.Endpoint, "https", "http", 1) }, 0, nil, ""},
		"a token over plain http":      {func(o *azure.Options) { o.Endpoint, o.Keys, o.Identity = "http://127.0.0.1:1", nil, azworm.Token("t") }, 0, store.ErrCredentials, "https"},
		"a container that cannot be":   {func(o *azure.Options) { o.Container = "Backups_" }, 0, nil, "--store-container"},
		"an account that cannot be":    {func(o *azure.Options) { o.Account = "Mine" }, 0, nil, "storageAccount"},
		"a SAS among the endpoint":     {func(o *azure.Options) { o.Endpoint += "?sv=1&sig=" + secret }, 0, nil, "sasToken"},
		"a management API without all": {func(o *azure.Options) { o.Management = &azure.Management{Subscription: "s"} }, 0, nil, "resourceGroup"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := locking().options(bucket)
			o.Attempts = 1
			if c.change != nil {
				c.change(&o)
			}
			worm.Shim.SetClockError(c.skew)
			s, err := azure.New(t.Context(), o)
			worm.Shim.SetClockError(0)
			switch {
			case c.says == "" && c.want == nil && err == nil:
				err = s.List(t.Context(), "", func(store.Object) error { return nil })
				if !errors.Is(err, store.ErrForbidden) || !strings.Contains(err.Error(), "permissions.md") {
					t.Errorf("List = %v, want %v with the page that helps", err, store.ErrForbidden)
				}
			case err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says):
				t.Errorf("%v, want kind %v and %q", err, c.want, c.says)
			}
			if err != nil && (strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "sig=")) {
				t.Errorf("%q is more than a line, or shows a secret", err)
			}
		})
	}
}

func TestAnswersOfABusyServiceAreSaidToPass(t *testing.T) {
	cases := map[string]struct {
		status int
		code   string
		want   error
	}{
		"busy":                  {http.StatusServiceUnavailable, "ServerBusy", store.ErrThrottled},
		"too many requests":     {http.StatusTooManyRequests, "", store.ErrThrottled},
		"a timeout":             {http.StatusInternalServerError, "OperationTimedOut", store.ErrUnreachable},
		"an internal error":     {http.StatusInternalServerError, "InternalError", store.ErrUnreachable},
		"a gateway":             {http.StatusBadGateway, "", store.ErrUnreachable},
		"full":                  {http.StatusInsufficientStorage, "", store.ErrNoSpace},
		"network rules":         {http.StatusForbidden, "AuthorizationFailure", store.ErrForbidden},
		"a missing permission":  {http.StatusForbidden, "AuthorizationPermissionMismatch", store.ErrForbidden},
		"a container that goes": {http.StatusConflict, "ContainerBeingDeleted", store.ErrNoBucket},
		"a disabled account":    {http.StatusForbidden, "AccountIsDisabled", store.ErrForbidden},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, gate := plain().through(t, plain().create(t), nil)
			gate.Inject(faults.Fault{Status: c.status, Code: c.code})
			if _, err := s.Open(t.Context(), store.Version{Key: "a/key"}, 0, -1); !errors.Is(err, c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Open = %v, want one line of kind %v", err, c.want)
			}
		})
	}
}

// A container's own SAS does not show the container's properties: what is locked is unknown.
func TestWithASASOfTheContainerLocksAreUnknownAndNeverAbsent(t *testing.T) {
	bucket := protected(t, azworm.Protection{Days: 2, Locked: true})
	later := worm.Shim.Now().Add(time.Hour)
	o := silent(t).options(bucketOn(t, silent(t), azworm.Protection{Days: 2, Locked: true}))
	o.Management = nil
	withSAS(containerSAS(t, o.Container, later, sas.ContainerPermissions{Read: true, Write: true, Create: true, List: true, Tag: true}))(&o)
	s := open(t, o)
	v := put(t, s, "a/key", "x")
	st, err := s.Stat(t.Context(), v)
	if err != nil || st.Retention != nil {
		t.Errorf("Stat = %+v, %v; want no word about the lock", st, err)
	}
	if all := listed(t, s); len(all) != 1 || all[0].Retention != nil || all[0].Tags == nil {
		t.Errorf("the listing is %+v", all)
	}
	b, err := s.Inspect(t.Context())
	if err != nil || b.Default.Locks() || !strings.Contains(strings.Join(b.Notes, "\n"), "properties") {
		t.Errorf("Inspect = %+v, %v", b, err)
	}

	// Without the right to tags, listings do without.
	o = locking().options(bucket)
	withSAS(containerSAS(t, bucket, later, sas.ContainerPermissions{Read: true, Write: true, Create: true, List: true}))(&o)
	s = open(t, o)
	v = put(t, s, "a/key", "x")
	if st, err := s.Stat(t.Context(), v); err != nil || st.Tags != nil || s.Capabilities().InlineTags {
		t.Errorf("Stat = %+v, %v; want no word about tags", st, err)
	}
	var refused *store.ImmutableError
	if err := s.Delete(t.Context(), v); !errors.Is(err, store.ErrForbidden) || errors.As(err, &refused) {
		t.Errorf("Delete = %v, want %v and no claim about a lock", err, store.ErrForbidden)
	}
	if err := s.SetTag(t.Context(), v, "k", "v"); !errors.Is(err, store.ErrForbidden) {
		t.Errorf("SetTag = %v, want %v", err, store.ErrForbidden)
	}
}

// A pod's identity: the SDK finds it in the environment and gets a token for it.
func TestTheAmbientIdentityOfAPodWorksForBothServices(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("assertion"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"AZURE_AUTHORITY_HOST": worm.Management, "AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_ID": "client", "AZURE_FEDERATED_TOKEN_FILE": token,
	} {
		t.Setenv(name, value)
	}
	bucket := protected(t, azworm.Protection{Days: 2, Locked: true})
	o := locking().options(bucket)
	o.Keys, o.ManagementIdentity, o.Authority = nil, nil, worm.Management
	s := open(t, o)
	v := put(t, s, "a/key", "x")
	if copied, err := s.Copy(t.Context(), s, v, "b/key", store.PutOptions{}); err != nil || string(content(t, s, copied.Version)) != "x" {
		t.Errorf("Copy = %+v, %v", copied, err)
	}
	if b, err := s.Inspect(t.Context()); err != nil || b.Period != 48*time.Hour || !b.Locked {
		t.Errorf("Inspect = %+v, %v", b, err)
	}
}

func azureKey() (*sas.SharedKeyCredential, error) {
	return newKey(stores.AzuriteAccount, stores.AzuriteKey)
}
