package azure

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/storage/armstorage"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/engine/prober"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/azure"
	"druid.internal/druid/test/stores/azworm"
)

var newKey = blob.NewSharedKeyCredential

// silently is a second server, whose blobs do not tell the date of their container's policy. It
// is started by the first test that needs it and lives as long as the last.
var silently struct {
	sync.Mutex
	server *azworm.Server
}

// silent is the account on it.
func silent(t *testing.T) account {
	t.Helper()
	silently.Lock()
	defer silently.Unlock()
	if silently.server == nil {
		var err error
		if silently.server, err = azworm.Start(t.Context(), azworm.ServerOptions{SilentPolicies: true}); err != nil {
			t.Fatal(err)
		}
	}
	return account{endpoint: silently.server.Endpoint, ca: silently.server.CA, managed: silently.server}
}

func bucketOn(t *testing.T, a account, p azworm.Protection) string {
	t.Helper()
	name := newName()
	if err := a.managed.Create(t.Context(), name, p); err != nil {
		t.Fatal(err)
	}
	return name
}

// Whether Azure tells the date of a container's policy with each blob is not documented, so
// both are tried, with and without the management API.
func TestAContainersPolicyIsReadByWhicheverWayThereIs(t *testing.T) {
	cases := map[string]struct {
		place   func(*testing.T) account
		managed bool
		want    immutability.Mode // empty: not told
	}{
		"told by blobs and managed":     {func(*testing.T) account { return locking() }, true, immutability.ModeCompliance},
		"told by blobs":                 {func(*testing.T) account { return locking() }, false, immutability.ModeCompliance},
		"not told by blobs but managed": {silent, true, immutability.ModeCompliance},
		"not told at all":               {silent, false, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := c.place(t)
			o := a.options(bucketOn(t, a, azworm.Protection{Days: 3, Locked: true}))
			if !c.managed {
				o.Management = nil
			}
			s := open(t, o)
			v := put(t, s, "a/key", "genuine")
			st, err := s.Stat(t.Context(), v)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range []*immutability.Retention{st.Retention, listed(t, s)[0].Retention} {
				switch {
				case c.want == "" && r == nil:
				case r == nil || r.Mode != c.want || r.Until.Sub(a.managed.Shim.Now()).Round(time.Hour) != 72*time.Hour:
					t.Errorf("the lock is %+v, want %q for 72h", r, c.want)
				}
			}
			var refused *store.ImmutableError
			if err := s.Delete(t.Context(), v); !errors.As(err, &refused) || refused.Hold || refused.Until.IsZero() != (c.want == "") || errors.Is(err, store.ErrForbidden) {
				t.Errorf("Delete = %v, want the lock's refusal", err)
			}
			if _, err := s.Put(t.Context(), v.Key, strings.NewReader("other"), store.PutOptions{}); !errors.Is(err, store.ErrExists) {
				t.Errorf("a second Put = %v, want %v", err, store.ErrExists)
			}
			if err := s.SetTag(t.Context(), v, "x-etcd-snapshot-exclude", "true"); err != nil {
				t.Errorf("SetTag of an immutable blob = %v", err)
			}
			if _, err := s.Extend(t.Context(), v, time.Now().Add(999*time.Hour)); !errors.Is(err, store.ErrUnsupported) {
				t.Errorf("Extend = %v, want %v", err, store.ErrUnsupported)
			}
			if st, err := s.Stat(t.Context(), v); err != nil || st.Tags["x-etcd-snapshot-exclude"] != "true" || string(content(t, s, v)) != "genuine" {
				t.Errorf("Stat = %+v, %v", st, err)
			}
			b, err := s.Inspect(t.Context())
			notes := strings.Join(b.Notes, "\n")
			switch {
			case err != nil:
				t.Error(err)
			case c.managed && (b.Default != immutability.ModeCompliance || b.Period != 72*time.Hour || !b.Locked || !strings.Contains(notes, "raised 5 more times")):
				t.Errorf("Inspect = %+v", b)
			case !c.managed && (b.Default != immutability.ModeUnknown || b.Period != 0 || b.Locked || !strings.Contains(notes, "management API")):
				t.Errorf("Inspect without the management API = %+v", b)
			}
			a.managed.Shim.Advance(73 * time.Hour)
			if err := s.Delete(t.Context(), v); err != nil {
				t.Errorf("Delete after the period = %v", err)
			}
		})
	}
}

func TestAnUnlockedPolicyIsGovernanceAndSaysThatItCanBeRemoved(t *testing.T) {
	s := open(t, locking().options(protected(t, azworm.Protection{Days: 3})))
	v := put(t, s, "a/key", "x")
	if st, err := s.Stat(t.Context(), v); err != nil || st.Retention == nil || st.Retention.Mode != immutability.ModeGovernance {
		t.Errorf("Stat = %+v, %v", st, err)
	}
	if b, err := s.Inspect(t.Context()); err != nil || b.Default != immutability.ModeGovernance || b.Locked || !strings.Contains(strings.Join(b.Notes, "\n"), "can shorten or remove it") {
		t.Errorf("Inspect = %+v, %v", b, err)
	}
}

func TestALegalHoldOfTheContainerIsSeenOnEveryBlob(t *testing.T) {
	bucket := protected(t, azworm.Protection{})
	s := open(t, locking().options(bucket))
	v := put(t, s, "a/key", "x")
	containers, err := worm.Containers()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := containers.SetLegalHold(t.Context(), azworm.ResourceGroup, worm.Account, bucket, armstorage.LegalHold{Tags: to.SliceOfPtrs("audit")}, nil); err != nil {
		t.Fatal(err)
	}
	if st, err := s.Stat(t.Context(), v); err != nil || st.Retention == nil || !st.Retention.Hold {
		t.Errorf("Stat = %+v, %v", st, err)
	}
	if all := listed(t, s); len(all) != 1 || all[0].Retention == nil || !all[0].Retention.Hold {
		t.Errorf("the listing is %+v", all)
	}
	var refused *store.ImmutableError
	if err := s.Delete(t.Context(), v); !errors.As(err, &refused) || !refused.Hold {
		t.Errorf("Delete = %v, want the hold's refusal", err)
	}
	if b, err := s.Inspect(t.Context()); err != nil || !strings.Contains(strings.Join(b.Notes, "\n"), "legal hold") {
		t.Errorf("Inspect = %+v, %v", b, err)
	}
}

func TestOverwritesAndDeletionsHideNothing(t *testing.T) {
	s := open(t, locking().options(protected(t, azworm.Protection{VersionLevel: true, Days: 1, Locked: true})))
	genuine := put(t, s, "a/key", "genuine")
	locking().overwrite(t, s, "a/key", []byte("hostile"))
	locking().hide(t, s, "a/key")
	all := listed(t, s)
	if len(all) != 2 || !all[0].Latest || all[1].Latest || all[1].Version != genuine || all[0].Retention == nil || all[1].Retention.Mode != immutability.ModeCompliance {
		t.Fatalf("the listing is %+v, want the hostile and the genuine version", all)
	}
	if got := content(t, s, genuine); string(got) != "genuine" {
		t.Errorf("the genuine version holds %q", got)
	}
	for _, v := range []store.Version{genuine, all[0].Version} {
		var refused *store.ImmutableError
		if err := s.Delete(t.Context(), v); !errors.As(err, &refused) || refused.Until.IsZero() {
			t.Errorf("Delete(%s) = %v, want the lock's refusal", v, err)
		}
	}
	if again := listed(t, s); len(again) != 2 || !again[0].Latest {
		t.Errorf("after refused deletions the listing is %+v: the current version is hidden", again)
	}
}

func TestTheProbeTellsWhatContainersReallyGive(t *testing.T) {
	cases := map[string]struct {
		open     func(t *testing.T) *azure.Store
		want     immutability.Mode
		deletion prober.Outcome
		plan     string
	}{
		"Azurite alone":              {func(t *testing.T) *azure.Store { return open(t, plain().options(plain().create(t))) }, immutability.ModeNone, prober.Allowed, "one byte"},
		"a locked policy":            {opened(azworm.Protection{Days: 1, Locked: true}), immutability.ModeCompliance, prober.Refused, "stay for 1 day"},
		"an unlocked policy":         {opened(azworm.Protection{Days: 1}), immutability.ModeGovernance, prober.Refused, "stay for 1 day"},
		"versions without a default": {opened(azworm.Protection{VersionLevel: true}), immutability.ModeNone, prober.Allowed, "one byte"},
		"versions, a locked default": {opened(azworm.Protection{VersionLevel: true, Days: 1, Locked: true}), immutability.ModeCompliance, prober.Refused, "stay for 1 day"},
		"versions, an unlocked one":  {opened(azworm.Protection{VersionLevel: true, Days: 1}), immutability.ModeGovernance, prober.Refused, "stay for 1 day"},
		"a policy that is not told":  {untold, immutability.ModeUnknown, prober.NotProven, "may stay"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := c.open(t)
			p, err := prober.New(s, s, prober.Options{Prefix: "a"})
			if err != nil {
				t.Fatal(err)
			}
			plan, err := p.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if text := strings.Join(plan.Notices, "\n"); !strings.Contains(text, c.plan) {
				t.Errorf("the plan says\n%s\nwant %q", text, c.plan)
			}
			r, err := p.Run(t.Context(), plan, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if r.Protection != c.want || r.Deletion.Outcome != c.deletion || r.Overwrite.Outcome != prober.Refused {
				t.Errorf("protection %s, deletion %+v, overwrite %+v; want %s and %s", r.Protection, r.Deletion, r.Overwrite, c.want, c.deletion)
			}
		})
	}
}

func opened(p azworm.Protection) func(t *testing.T) *azure.Store {
	return func(t *testing.T) *azure.Store { return open(t, locking().options(protected(t, p))) }
}

// untold is a locked container of which neither blobs nor the management API tell anything.
func untold(t *testing.T) *azure.Store {
	o := silent(t).options(bucketOn(t, silent(t), azworm.Protection{Days: 1, Locked: true}))
	o.Management = nil
	return open(t, o)
}
