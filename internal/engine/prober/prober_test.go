package prober_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/engine/prober"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// profile is a memory store with a clock that stands still and a default lock of a day.
func profile(p storetest.Profile, mode immutability.Mode) storetest.Profile {
	p.Now = storetest.NewClock(start).Now
	if mode != "" {
		p.Default, p.Period = mode, 24*time.Hour
	}
	return p
}

func mute(p storetest.Profile) storetest.Profile {
	p.MuteRetention = true
	return p
}

// deleterFunc is a store's answer to a deletion.
type deleterFunc func(ctx context.Context, v store.Version) error

func (f deleterFunc) Delete(ctx context.Context, v store.Version) error { return f(ctx, v) }

func TestOnlyARefusalOfWhatIsKnownToBeLockedIsProof(t *testing.T) {
	denied := fmt.Errorf("access denied: %w", store.ErrForbidden)
	cases := map[string]struct {
		profile  storetest.Profile
		opts     prober.Options
		answer   error // to a deletion, in the store's place; nil: the store's own
		want     immutability.Mode
		deletion prober.Outcome
		over     prober.Outcome
		says     string
		remains  int
	}{
		"a compliance default": {
			profile: profile(storetest.S3Like(), immutability.ModeCompliance),
			want:    immutability.ModeCompliance, deletion: prober.Refused, over: prober.Refused, says: "nobody can lift it", remains: 1,
		},
		"a governance default": {
			profile: profile(storetest.S3Like(), immutability.ModeGovernance),
			want:    immutability.ModeGovernance, deletion: prober.Refused, over: prober.Refused, says: "privileged identities can lift it", remains: 1,
		},
		"object lock without a default": {
			profile: profile(storetest.S3Like(), ""),
			want:    immutability.ModeNone, deletion: prober.Allowed, over: prober.Refused, says: "not protected",
		},
		"object lock without a default, but the writer locks": {
			profile: profile(storetest.S3Like(), ""), opts: prober.Options{Lock: immutability.ModeCompliance, Period: time.Hour},
			want: immutability.ModeCompliance, deletion: prober.Refused, over: prober.Refused, says: "2026-01-02T04:04:05Z", remains: 1,
		},
		"a store that makes a further version": {
			profile: profile(storetest.CephLike(), immutability.ModeCompliance),
			want:    immutability.ModeCompliance, deletion: prober.Refused, over: prober.FurtherVersion, says: "manifest's digest", remains: 2,
		},
		"a store that makes a further version and locks nothing": {
			profile: profile(storetest.CephLike(), ""),
			want:    immutability.ModeNone, deletion: prober.Allowed, over: prober.FurtherVersion, says: "manifest's digest",
		},
		"a store without anything": {
			profile: profile(storetest.Bare(), ""),
			want:    immutability.ModeNone, deletion: prober.Allowed, over: prober.Destroyed, says: "destroys what was there",
		},
		"locks without versions": {
			profile: profile(storetest.GCSLike(), immutability.ModeCompliance),
			want:    immutability.ModeCompliance, deletion: prober.Refused, over: prober.Refused, says: "a writer that does not ask", remains: 1,
		},
		"a lock that may not be read": {
			profile: mute(profile(storetest.S3Like(), immutability.ModeCompliance)),
			want:    immutability.ModeUnknown, deletion: prober.NotProven, over: prober.Refused, says: "no lock could be read back", remains: 1,
		},
		"no permission to delete": {
			profile: profile(storetest.S3Like(), immutability.ModeCompliance), answer: denied,
			want: immutability.ModeUnknown, deletion: prober.NotProven, over: prober.Refused, says: "says nothing about others", remains: 1,
		},
		"no permission to delete, and no lock": {
			profile: profile(storetest.S3Like(), ""), answer: denied,
			want: immutability.ModeUnknown, deletion: prober.NotProven, over: prober.Refused, says: "says nothing about others", remains: 1,
		},
		"access denied, which may be the lock": {
			profile: profile(storetest.S3Like(), immutability.ModeCompliance), answer: &store.ImmutableError{Until: start.Add(time.Hour), Err: denied},
			want: immutability.ModeUnknown, deletion: prober.NotProven, over: prober.Refused, says: "is open", remains: 1,
		},
		"a refusal although nothing is locked": {
			profile: profile(storetest.S3Like(), ""), answer: &store.ImmutableError{},
			want: immutability.ModeUnknown, deletion: prober.NotProven, over: prober.Refused, says: "no lock could be read back", remains: 1,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := storetest.NewMemory(c.profile)
			var d store.Deleter = m
			if c.answer != nil {
				d = deleterFunc(func(context.Context, store.Version) error { return c.answer })
			}
			r := probe(t, m, d, c.opts)
			if r.Protection != c.want || r.Deletion.Outcome != c.deletion || r.Overwrite.Outcome != c.over {
				t.Errorf("protection %s, deletion %s, overwrite %s; want %s, %s, %s", r.Protection, r.Deletion.Outcome, r.Overwrite.Outcome, c.want, c.deletion, c.over)
			}
			text := strings.Join(r.Conclusions, "\n")
			if !strings.Contains(text, c.says) {
				t.Errorf("the report says\n%s\nwant it to contain %q", text, c.says)
			}
			if c.want == immutability.ModeUnknown && !strings.Contains(text, "not proven") {
				t.Errorf("the report says\n%s\nwant \"not proven\"", text)
			}
			if len(r.Remains) != c.remains {
				t.Errorf("%v remain, want %d", r.Remains, c.remains)
			}
			if got := len(m.Versions(r.Version.Key)); got != c.remains {
				t.Errorf("%d versions are in the bucket, the report says %d", got, c.remains)
			}
		})
	}
}

func probe(t *testing.T, s store.Store, d store.Deleter, o prober.Options) prober.Report {
	t.Helper()
	p, err := prober.New(s, d, o)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := p.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Run(t.Context(), plan, start)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestThePlanSaysBeforehandWhatStays(t *testing.T) {
	cases := map[string]struct {
		store store.Store
		opts  prober.Options
		want  string
	}{
		"a locked bucket":     {storetest.NewMemory(profile(storetest.S3Like(), immutability.ModeCompliance)), prober.Options{}, "locked (compliance) and stay for 1 day"},
		"an explicit lock":    {storetest.NewMemory(profile(storetest.S3Like(), "")), prober.Options{Lock: immutability.ModeGovernance, Period: 48 * time.Hour}, "locked (governance) and stay for 2 days"},
		"no overwrite refuse": {storetest.NewMemory(profile(storetest.CephLike(), immutability.ModeCompliance)), prober.Options{}, "a second version may stay"},
		"an advisory store":   {advisory{storetest.NewMemory(profile(storetest.GCSLike(), ""))}, prober.Options{}, "cannot protect anything by itself"},
		"an unknown default":  {bare{storetest.NewMemory(profile(storetest.S3Like(), ""))}, prober.Options{}, "is not known to this identity"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.opts.Prefix = "ns--uid/etcd-main"
			p, err := prober.New(c.store, deleterFunc(nil), c.opts)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := p.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(plan.Notices, "\n")
			if !strings.Contains(text, c.want) || !strings.Contains(text, "one byte") {
				t.Errorf("the plan says\n%s\nwant it to contain %q", text, c.want)
			}
			if !strings.HasPrefix(plan.Key, "ns--uid/etcd-main/druid-probe/") {
				t.Errorf("the key is %s", plan.Key)
			}
			if err := c.store.List(t.Context(), "", func(o store.Object) error { return fmt.Errorf("planning wrote %s", o.Key) }); err != nil {
				t.Error(err)
			}
		})
	}
}

// advisory claims to be a store whose protection is only our own restraint.
type advisory struct{ *storetest.Memory }

func (a advisory) Capabilities() store.Capabilities {
	c := a.Memory.Capabilities()
	c.Advisory = true
	return c
}

func (a advisory) Unwrap() store.Reader { return a.Memory }

// bare has nothing but the methods of a store.
type bare struct{ store.Store }

func TestOurOwnRestraintIsNeverProof(t *testing.T) {
	m := advisory{storetest.NewMemory(profile(storetest.GCSLike(), immutability.ModeCompliance))}
	r := probe(t, m, m, prober.Options{})
	if r.Protection != immutability.ModeAdvisory || !strings.Contains(r.Conclusions[0], "not protected") {
		t.Errorf("protection %s: %v", r.Protection, r.Conclusions)
	}
}

func TestTheProbeDeletesNothingButWhatItWrote(t *testing.T) {
	for name, p := range map[string]storetest.Profile{"versions": profile(storetest.CephLike(), ""), "none": profile(storetest.Bare(), "")} {
		m := storetest.NewMemory(p)
		others := map[store.Version]bool{}
		for i := range 5 {
			o, err := m.Put(t.Context(), fmt.Sprintf("a/druid-probe/%d", i), strings.NewReader("precious"), store.PutOptions{})
			if err != nil {
				t.Fatal(err)
			}
			others[o.Version] = true
		}
		var deleted []store.Version
		r := probe(t, m, deleterFunc(func(ctx context.Context, v store.Version) error {
			deleted = append(deleted, v)
			return m.Delete(ctx, v)
		}), prober.Options{Prefix: "a"})
		if len(deleted) == 0 {
			t.Errorf("%s: nothing was tried", name)
		}
		for _, v := range deleted {
			if others[v] || v.Key != r.Version.Key {
				t.Errorf("%s: the probe deleted %s", name, v)
			}
		}
	}
}

func TestAStoreThatLiesAboutADeletionIsNotCalledUnprotectedNorProtected(t *testing.T) {
	m := storetest.NewMemory(profile(storetest.S3Like(), immutability.ModeCompliance))
	r := probe(t, m, deleterFunc(func(context.Context, store.Version) error { return nil }), prober.Options{})
	if r.Protection != immutability.ModeUnknown || r.Deletion.Outcome != prober.NotProven || len(r.Remains) != 1 {
		t.Errorf("report %+v", r)
	}
}

func TestAnOutageInTheMiddleIsAnErrorThatSaysWhatStays(t *testing.T) {
	m := storetest.NewMemory(profile(storetest.S3Like(), immutability.ModeCompliance))
	outage := fmt.Errorf("gone: %w", store.ErrUnreachable)
	p, err := prober.New(m, deleterFunc(func(context.Context, store.Version) error { return outage }), prober.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := p.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(t.Context(), plan, start); !errors.Is(err, store.ErrUnreachable) || !strings.Contains(err.Error(), plan.Key) {
		t.Errorf("Run = %v, want it to name what stays", err)
	}
}

func TestAStoreThatReturnsOtherBytesIsAnError(t *testing.T) {
	s := garbling{storetest.NewMemory(profile(storetest.S3Like(), ""))}
	p, err := prober.New(s, s, prober.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := p.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(t.Context(), plan, start); err == nil || !strings.Contains(err.Error(), "not what was written") {
		t.Errorf("Run = %v", err)
	}
}

type garbling struct{ *storetest.Memory }

func (garbling) Open(context.Context, store.Version, int64, int64) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("?")), nil
}

func TestImpossibleLocksAreRefused(t *testing.T) {
	m := storetest.NewMemory(profile(storetest.S3Like(), ""))
	for _, o := range []prober.Options{{Lock: immutability.ModeCompliance}, {Lock: immutability.ModeAdvisory, Period: time.Hour}} {
		if _, err := prober.New(m, m, o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

// taken is a store that is taken for one that refuses overwrites, or for one that does not.
type taken struct {
	*storetest.Memory
	refuses bool
}

func (t taken) Capabilities() store.Capabilities {
	c := t.Memory.Capabilities()
	c.ConditionalPut = t.refuses
	return c
}

func TestWhatAStoreIsTakenForIsHeldAgainstWhatItDoes(t *testing.T) {
	cases := map[string]struct {
		profile storetest.Profile
		refuses bool
		over    prober.Outcome
		says    string
		not     string
	}{
		"it refuses, and is not known to":               {storetest.S3Like(), false, prober.NotProven, "looked first", "set conditionalPut"},
		"it should refuse, and makes a further version": {storetest.CephLike(), true, prober.FurtherVersion, "set conditionalPut to false", "looked first"},
		"it should refuse, and destroys":                {storetest.Bare(), true, prober.Destroyed, "set conditionalPut to false", "looked first"},
		"it refuses, and is known to":                   {storetest.S3Like(), true, prober.Refused, "by this program is refused", "set conditionalPut"},
		"it does not refuse, and is known not to":       {storetest.CephLike(), false, prober.FurtherVersion, "does not refuse an overwrite", "set conditionalPut"},
	}
	for name, c := range cases {
		m := storetest.NewMemory(profile(c.profile, ""))
		r := probe(t, taken{m, c.refuses}, m, prober.Options{})
		text := strings.Join(r.Conclusions, "\n")
		if r.Overwrite.Outcome != c.over || !strings.Contains(text, c.says) || strings.Contains(text, c.not) {
			t.Errorf("%s: %s, and the report says\n%s\nwant %s, %q and not %q", name, r.Overwrite.Outcome, text, c.over, c.says, c.not)
		}
	}
}
