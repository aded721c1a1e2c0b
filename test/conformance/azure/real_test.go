package azure

import (
	"bytes"
	"crypto/rand"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/azure"
	storeopen "druid.internal/druid/internal/store/open"
	"druid.internal/druid/test/stores/azworm"
)

// real asks for the probes to be made in a container of Azure as well, with
//
//	DRUID_TEST_AZURE_CONTAINER        its name; what is written below druid-conformance/ stays as long as it is locked
//	AZURE_APPLICATION_CREDENTIALS     who asks, as etcdbrctl takes it; with subscriptionID and resourceGroup more is compared
//
// Without them it fails, for who asks for a proof must not get none in silence.
var real = flag.Bool("real", false, "make the probes in the container DRUID_TEST_AZURE_CONTAINER of Azure, too")

const realContainer = "DRUID_TEST_AZURE_CONTAINER"

// The shim encodes what Microsoft documents. These probes ask the shim and, on request, Azure
// the same questions: where the answers differ, the shim is wrong.
func TestTheProbesAreAnsweredAlike(t *testing.T) {
	for name, p := range map[string]azworm.Protection{
		"the shim, plain":                             {},
		"the shim, with a policy":                     {Days: 1},
		"the shim, with a locked policy":              {Days: 1, Locked: true},
		"the shim, with versions":                     {VersionLevel: true},
		"the shim, with versions and a default":       {VersionLevel: true, Days: 1},
		"the shim, with versions, the default locked": {VersionLevel: true, Days: 1, Locked: true},
	} {
		t.Run(name, func(t *testing.T) { probes(t, open(t, locking().options(protected(t, p))), worm.Shim.Now) })
	}
	if !*real {
		return
	}
	t.Run("Azure", func(t *testing.T) {
		name := os.Getenv(realContainer)
		if name == "" {
			t.Fatalf("-real needs %s, and credentials in AZURE_APPLICATION_CREDENTIALS", realContainer)
		}
		s, err := storeopen.Open(t.Context(), storeopen.Config{
			Provider: "ABS", Container: name, Environment: storeopen.FromEnvironment(os.Getenv, ""), Proxy: http.ProxyFromEnvironment,
		})
		if err != nil {
			t.Fatal(err)
		}
		probes(t, s.(*azure.Store), time.Now)
	})
}

// probes write below a prefix of their own, clean up what can be, and derive what to expect
// from what the container says of itself.
func probes(t *testing.T, s *azure.Store, now func() time.Time) {
	prefix := "druid-conformance/" + strings.ToLower(rand.Text())
	caps := s.Capabilities()
	b, err := s.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.List(t.Context(), prefix, func(o store.Object) error { _ = s.Delete(t.Context(), o.Version); return nil })
	})
	write := func(name string, body io.Reader, opts store.PutOptions) store.Object {
		t.Helper()
		o, err := s.Put(t.Context(), prefix+"/"+name, body, opts)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	small := write("small", strings.NewReader("small"), store.PutOptions{})
	want := make([]byte, 3*block+5)
	_, _ = rand.Read(want)
	large := write("large", bytes.NewReader(want), store.PutOptions{Tags: map[string]string{"probe": "a b/c"}})
	if got := content(t, s, large.Version); !bytes.Equal(got, want) {
		t.Error("what was written block by block is read back differently")
	}
	for _, body := range [][]byte{[]byte("other"), want} {
		if _, err := s.Put(t.Context(), small.Key, bytes.NewReader(body), store.PutOptions{}); !errors.Is(err, store.ErrExists) {
			t.Errorf("a second Put of %d bytes = %v, want %v", len(body), err, store.ErrExists)
		}
	}
	if (small.ID != "") != caps.Versions {
		t.Errorf("the version's ID is %q where versions are %v", small.ID, caps.Versions)
	}

	st, err := s.Stat(t.Context(), large.Version)
	if err != nil {
		t.Fatal(err)
	}
	if skew := st.ServerTime.Sub(now()).Abs(); st.ServerTime.IsZero() || skew > 2*time.Minute || st.Tags["probe"] != "a b/c" || !st.Latest {
		t.Errorf("Stat = %+v", st)
	}
	all := 0
	if err := s.List(t.Context(), prefix, func(o store.Object) error {
		if all++; o.Key == large.Key && (o.Version != large.Version || o.Size != large.Size || caps.InlineTags && o.Tags["probe"] != "a b/c") {
			t.Errorf("the listing has %+v", o)
		}
		return nil
	}); err != nil || all != 2 {
		t.Errorf("%d objects are listed, %v", all, err)
	}
	if b.Default.Locks() {
		if r := st.Retention; r == nil || r.Mode != b.Default || r.Until.Sub(now().Add(b.Period)).Abs() > 10*time.Minute {
			t.Errorf("the lock is %+v, want %s for %s", r, b.Default, b.Period)
		}
	}
	locked := st.Retention != nil && st.Retention.Until.After(now())
	if err := s.SetTag(t.Context(), large.Version, "x-etcd-snapshot-exclude", "true"); err != nil {
		t.Errorf("SetTag, locked: %v: %v", locked, err)
	}
	copied, err := s.Copy(t.Context(), s, large.Version, prefix+"/copy", store.PutOptions{})
	if err != nil || !bytes.Equal(content(t, s, copied.Version), want) {
		t.Errorf("Copy = %+v, %v", copied, err)
	}
	if _, err := s.Copy(t.Context(), s, small.Version, prefix+"/copy", store.PutOptions{}); !errors.Is(err, store.ErrExists) {
		t.Errorf("a second Copy = %v, want %v", err, store.ErrExists)
	}
	extended, err := s.Extend(t.Context(), small.Version, now().Add(b.Period+2*time.Hour))
	switch {
	case caps.ObjectLock && locked && (err != nil || !extended.Until.After(st.Retention.Until)):
		t.Errorf("Extend = %+v, %v", extended, err)
	case !(caps.ObjectLock && locked) && !errors.Is(err, store.ErrUnsupported):
		t.Errorf("Extend = %v, want %v", err, store.ErrUnsupported)
	}
	err = s.Delete(t.Context(), large.Version)
	var refused *store.ImmutableError
	switch {
	case locked && (!errors.As(err, &refused) || !refused.Until.Equal(st.Retention.Until)):
		t.Errorf("Delete = %v, want a refusal until %s", err, st.Retention.Until)
	case !locked && err != nil:
		t.Errorf("Delete = %v", err)
	}
	if after, err := s.Stat(t.Context(), large.Version); locked && (err != nil || !after.Latest) {
		t.Errorf("after the refusal Stat = %+v, %v: the current version is hidden", after, err)
	}
}
