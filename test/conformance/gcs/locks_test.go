package gcs_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/engine/prober"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/gcs"
	"druid.internal/druid/test/stores"
)

// protected is an object under one kind of lock, and what the provider must say of it.
type protected struct {
	bucket stores.GCSBucket
	opts   store.PutOptions
	hold   string // a hold that somebody places: a field of the JSON API
	want   immutability.Retention
	// hides: a foreign deletion or overwrite makes it noncurrent, as nothing keeps it from that.
	hides bool
}

func kindsOfLocks() map[string]protected {
	const period = 24 * time.Hour
	until := server.Shim.Now().Add(period).Truncate(time.Second)
	ask := func(m immutability.Mode) store.PutOptions {
		return store.PutOptions{Retention: &immutability.Retention{Mode: m, Until: until}}
	}
	policy := stores.GCSBucket{Policy: period}
	locked := stores.GCSBucket{Policy: period, Locked: true}
	return map[string]protected{
		"a policy that can be removed": {bucket: policy, want: immutability.Retention{Mode: immutability.ModeGovernance, Until: until}},
		"a locked policy":              {bucket: locked, want: immutability.Retention{Mode: immutability.ModeCompliance, Until: until}},
		"a locked policy, versioned": {bucket: stores.GCSBucket{Policy: period, Locked: true, Versioned: true},
			want: immutability.Retention{Mode: immutability.ModeCompliance, Until: until}},
		"its own, locked": {bucket: stores.GCSBucket{ObjectLock: true}, opts: ask(immutability.ModeCompliance),
			want: immutability.Retention{Mode: immutability.ModeCompliance, Until: until}},
		"its own, not locked": {bucket: stores.GCSBucket{ObjectLock: true}, opts: ask(immutability.ModeGovernance),
			want: immutability.Retention{Mode: immutability.ModeGovernance, Until: until}},
		"its own, versioned": {bucket: stores.GCSBucket{ObjectLock: true, Versioned: true}, opts: ask(immutability.ModeCompliance),
			want: immutability.Retention{Mode: immutability.ModeCompliance, Until: until}, hides: true},
		"its own, longer than the policy": {bucket: stores.GCSBucket{ObjectLock: true, Policy: time.Hour}, opts: ask(immutability.ModeCompliance),
			want: immutability.Retention{Mode: immutability.ModeCompliance, Until: until}},
		"its own, shorter than the locked policy": {bucket: stores.GCSBucket{ObjectLock: true, Policy: period, Locked: true},
			opts: store.PutOptions{Retention: &immutability.Retention{Mode: immutability.ModeGovernance, Until: until.Add(-time.Hour)}},
			want: immutability.Retention{Mode: immutability.ModeCompliance, Until: until}},
		"an event-based hold":    {hold: "eventBasedHold", want: immutability.Retention{Mode: immutability.ModeNone, Hold: true}},
		"a temporary hold":       {hold: "temporaryHold", want: immutability.Retention{Mode: immutability.ModeNone, Hold: true}},
		"the bucket's own hold":  {bucket: stores.GCSBucket{DefaultHold: true}, want: immutability.Retention{Mode: immutability.ModeNone, Hold: true}},
		"a hold over the policy": {bucket: locked, hold: "eventBasedHold", want: immutability.Retention{Mode: immutability.ModeNone, Hold: true}},
		"a temporary hold over the policy": {bucket: locked, hold: "temporaryHold",
			want: immutability.Retention{Mode: immutability.ModeCompliance, Until: until, Hold: true}},
	}
}

func TestEachKindOfLockRefusesDeletionAndOverwriteAndIsReadBack(t *testing.T) {
	for name, c := range kindsOfLocks() {
		t.Run(name, func(t *testing.T) {
			s := open(t, options(newBucket(t, c.bucket)))
			o, err := s.Put(t.Context(), "a/key", strings.NewReader("precious"), c.opts)
			if err != nil {
				t.Fatal(err)
			}
			if c.hold != "" {
				patch(t, s, "a/key", map[string]any{c.hold: true})
			}
			st, err := s.Stat(t.Context(), o.Version)
			if err != nil {
				t.Fatal(err)
			}
			for what, r := range map[string]*immutability.Retention{"Stat": st.Retention, "List": listed(t, s)[0].Retention} {
				// A policy counts from the creation, a little later than the test began.
				if late := r.Until.Sub(c.want.Until); r.Mode != c.want.Mode || r.Hold != c.want.Hold || r.Until.IsZero() != c.want.Until.IsZero() || late < 0 || late > 10*time.Second && !r.Until.IsZero() {
					t.Errorf("%s tells %+v, want %+v", what, *r, c.want)
				}
			}
			err = s.Delete(t.Context(), o.Version)
			var refused *store.ImmutableError
			if !errors.As(err, &refused) || errors.Is(err, store.ErrForbidden) {
				t.Fatalf("Delete = %v, want the lock's refusal", err)
			}
			if refused.Hold != c.want.Hold || !refused.Hold && !refused.Until.Equal(st.Retention.Until) || refused.Version != o.Version {
				t.Errorf("Delete = %+v, want until %s or a hold", *refused, st.Retention.Until)
			}
			if _, err := s.Put(t.Context(), "a/key", strings.NewReader("second"), store.PutOptions{}); !errors.Is(err, store.ErrExists) {
				t.Errorf("a second Put = %v, want %v", err, store.ErrExists)
			}
			attack(t, s, "a/key", c.hides)
			if got := content(t, s, o.Version); string(got) != "precious" {
				t.Errorf("it holds %q", got)
			}
			// The exclude tag works on what is locked, and changes nothing else.
			if err := s.SetTag(t.Context(), o.Version, "x-etcd-snapshot-exclude", "true"); err != nil {
				t.Errorf("SetTag = %v", err)
			}
			if after, err := s.Stat(t.Context(), o.Version); err != nil || after.Tags["x-etcd-snapshot-exclude"] != "true" || !after.Retention.Until.Equal(st.Retention.Until) {
				t.Errorf("after tagging it is %+v, %v", after, err)
			}
		})
	}
}

// attack deletes and overwrites without manners. What is hidden by that stays, and is listed
// as not the latest; else the service refuses.
func attack(t *testing.T, s store.Reader, key string, hides bool) {
	t.Helper()
	name := "/upload/storage/v1/b/" + bucketOf(s) + "/o?uploadType=media&name=" + url.QueryEscape(key)
	for what, do := range map[string]func() ([]byte, error){
		"a deletion":   func() ([]byte, error) { return server.Do(t.Context(), http.MethodDelete, object(s, key), nil) },
		"an overwrite": func() ([]byte, error) { return server.Do(t.Context(), http.MethodPost, name, []byte("forged")) },
	} {
		answer, err := do()
		switch refused := err != nil; {
		case hides && refused && !strings.Contains(string(answer), "No such object"):
			t.Errorf("%s was refused: %s", what, answer)
		case !hides && !refused:
			t.Errorf("%s was not refused", what)
		case !hides && !strings.Contains(string(answer), "retentionPolicyNotMet") && !strings.Contains(string(answer), "objectUnderActiveHold"):
			t.Errorf("%s was refused with %s", what, answer)
		}
	}
	if !hides {
		return
	}
	all := listed(t, s)
	if oldest := all[len(all)-1]; oldest.Latest || oldest.Marker || len(all) < 1 {
		t.Errorf("what was hidden is listed as %+v", all)
	}
}

// patch changes an object's metadata as somebody else would.
func patch(t *testing.T, s store.Reader, key string, change map[string]any) {
	t.Helper()
	if _, err := server.Do(t.Context(), http.MethodPatch, object(s, key), change); err != nil {
		t.Fatal(err)
	}
}

func TestAHoldThatIsReleasedStartsThePolicyAnew(t *testing.T) {
	s := open(t, options(newBucket(t, stores.GCSBucket{Policy: 24 * time.Hour, Locked: true})))
	o, err := s.Put(t.Context(), "a/key", strings.NewReader("x"), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetHold(t.Context(), o.Version, true); err != nil {
		t.Fatal(err)
	}
	server.Shim.Advance(100 * time.Hour)
	var refused *store.ImmutableError
	if err := s.Delete(t.Context(), o.Version); !errors.As(err, &refused) || !refused.Hold {
		t.Errorf("Delete under the hold = %v", err)
	}
	released := server.Shim.Now()
	if err := s.SetHold(t.Context(), o.Version, false); err != nil {
		t.Fatal(err)
	}
	st, err := s.Stat(t.Context(), o.Version)
	if err != nil {
		t.Fatal(err)
	}
	if left := st.Retention.Until.Sub(released); st.Retention.Mode != immutability.ModeCompliance || left < 24*time.Hour-time.Second || left > 24*time.Hour+time.Minute {
		t.Errorf("after the release it is %+v", *st.Retention)
	}
	if skew := st.ServerTime.Sub(server.Shim.Now()); skew < -5*time.Second || skew > 5*time.Second {
		t.Errorf("the store's clock shows %s", st.ServerTime)
	}
	if err := s.Delete(t.Context(), o.Version); !errors.As(err, &refused) || refused.Hold || !refused.Until.Equal(st.Retention.Until) {
		t.Errorf("Delete after the release = %v", err)
	}
	server.Shim.Advance(25 * time.Hour)
	if err := s.Delete(t.Context(), o.Version); err != nil {
		t.Errorf("Delete after the period = %v", err)
	}
}

func TestAHoldOnWhatHasARetentionOfItsOwnIsATemporaryOne(t *testing.T) {
	s := open(t, options(newBucket(t, stores.GCSBucket{ObjectLock: true})))
	until := server.Shim.Now().Add(time.Hour).Truncate(time.Second)
	o, err := s.Put(t.Context(), "a/key", strings.NewReader("x"), store.PutOptions{Retention: &immutability.Retention{Mode: immutability.ModeCompliance, Until: until, Hold: true}})
	if err != nil {
		t.Fatal(err)
	}
	for _, on := range []bool{true, true, false, false, true} {
		if err := s.SetHold(t.Context(), o.Version, on); err != nil {
			t.Fatal(err)
		}
		st, err := s.Stat(t.Context(), o.Version)
		if err != nil || st.Retention.Hold != on || !st.Retention.Until.Equal(until) {
			t.Errorf("Stat = %+v, %v, want hold %v until %s", st.Retention, err, on, until)
		}
	}
}

func TestWhatOnlyThePolicyProtectsIsExtendedByALockOfItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		bucket stores.GCSBucket
		want   immutability.Mode
	}{
		"a locked policy":              {stores.GCSBucket{ObjectLock: true, Policy: time.Hour, Locked: true}, immutability.ModeCompliance},
		"a policy that can be removed": {stores.GCSBucket{ObjectLock: true, Policy: time.Hour}, immutability.ModeGovernance},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, options(newBucket(t, c.bucket)))
			o, err := s.Put(t.Context(), "a/key", strings.NewReader("x"), store.PutOptions{})
			if err != nil {
				t.Fatal(err)
			}
			later := server.Shim.Now().Add(48 * time.Hour).Truncate(time.Second)
			r, err := s.Extend(t.Context(), o.Version, later)
			if err != nil || r.Mode != c.want || !r.Until.Equal(later) {
				t.Errorf("Extend = %+v, %v, want %s until %s", r, err, c.want, later)
			}
		})
	}
	// Where single objects cannot be locked there is the hold.
	s := open(t, options(newBucket(t, stores.GCSBucket{Policy: time.Hour})))
	o, err := s.Put(t.Context(), "a/key", strings.NewReader("x"), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Extend(t.Context(), o.Version, server.Shim.Now().Add(48*time.Hour)); !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), "hold") {
		t.Errorf("Extend = %v, want %v and the remedy", err, store.ErrUnsupported)
	}
}

// Whoever may change buckets could keep versions for a while, overwrite, and keep none again.
func TestVersionsThatWereKeptOnceAreListed(t *testing.T) {
	bucket := newBucket(t, stores.GCSBucket{Versioned: true})
	versioned := open(t, options(bucket))
	genuine, err := versioned.Put(t.Context(), "a/key", strings.NewReader("genuine"), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	overwrite(t, versioned, "a/key", []byte("forged"))
	if _, err := server.Do(t.Context(), http.MethodPatch, "/storage/v1/b/"+bucket, map[string]any{"versioning": map[string]any{"enabled": false}}); err != nil {
		t.Fatal(err)
	}
	s := open(t, options(bucket))
	all := listed(t, s)
	if len(all) != 2 || all[0].ID != "" || !all[0].Latest || all[1].Version != genuine.Version || all[1].Latest {
		t.Fatalf("the listing is %+v", all)
	}
	if got := content(t, s, all[1].Version); string(got) != "genuine" {
		t.Errorf("the first generation holds %q", got)
	}
	if err := s.Delete(t.Context(), all[1].Version); err != nil {
		t.Fatal(err)
	}
	if all = listed(t, s); len(all) != 1 || string(content(t, s, all[0].Version)) != "forged" {
		t.Errorf("after deleting the first generation: %+v", all)
	}
}

// Between reading the lock and deleting, somebody may place a hold or a tag.
func TestADeletionIsDecidedAnewWhenTheMetadataChange(t *testing.T) {
	s, gate := gated(t, stores.GCSBucket{}, nil)
	o, err := s.Put(t.Context(), "a/key", strings.NewReader("x"), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	conditions := []string{}
	gate.Inject(faultOn(func(r *http.Request) bool {
		if r.Method != http.MethodDelete {
			return false
		}
		conditions = append(conditions, r.URL.Query().Get("generation")+" "+r.URL.Query().Get("ifMetagenerationMatch"))
		if n++; n == 1 {
			patch(t, s, "a/key", map[string]any{"metadata": map[string]any{"k": "v"}})
		}
		return false
	}))
	if err := s.Delete(t.Context(), o.Version); err != nil {
		t.Errorf("Delete = %v", err)
	}
	if len(conditions) != 2 || !strings.HasSuffix(conditions[0], " 1") || !strings.HasSuffix(conditions[1], " 2") || strings.HasPrefix(conditions[0], " ") {
		t.Errorf("it was deleted on the conditions %q, want a generation and the metagenerations 1 and 2", conditions)
	}
}

func TestTheBucketsProtectionIsDescribed(t *testing.T) {
	const week = 7 * 24 * time.Hour
	cases := map[string]struct {
		bucket stores.GCSBucket
		want   store.Bucket
		notes  []string
	}{
		"nothing":         {stores.GCSBucket{}, store.Bucket{Default: immutability.ModeNone}, []string{"neither a retention policy"}},
		"a policy":        {stores.GCSBucket{Policy: week}, store.Bucket{Default: immutability.ModeGovernance, Period: week}, []string{"is not locked", "storage.buckets.update"}},
		"a locked policy": {stores.GCSBucket{Policy: week, Locked: true}, store.Bucket{Default: immutability.ModeCompliance, Period: week, Locked: true}, []string{"is locked"}},
		"a short policy":  {stores.GCSBucket{Policy: time.Hour}, store.Bucket{Default: immutability.ModeGovernance, Period: time.Hour}, []string{"below one day"}},
		"all at once": {stores.GCSBucket{Policy: week, ObjectLock: true, Versioned: true, DefaultHold: true, SoftDelete: week},
			store.Bucket{Default: immutability.ModeGovernance, Period: week, Versioned: true}, []string{"longer than the policy", "event-based hold", "7 days more"}},
		"versions only": {stores.GCSBucket{Versioned: true}, store.Bucket{Default: immutability.ModeNone, Versioned: true}, []string{"noncurrent versions"}},
		"single locks":  {stores.GCSBucket{ObjectLock: true}, store.Bucket{Default: immutability.ModeNone}, []string{"explicit lock"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := open(t, options(newBucket(t, c.bucket))).Inspect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			notes := strings.Join(got.Notes, "\n")
			for _, want := range c.notes {
				if !strings.Contains(notes, want) {
					t.Errorf("the notes are\n%s\nwant %q", notes, want)
				}
			}
			got.Notes = nil
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) {
				t.Errorf("Inspect = %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestTheProbeTellsWhatBucketsReallyGive(t *testing.T) {
	cases := map[string]struct {
		bucket   stores.GCSBucket
		ask      immutability.Mode
		want     immutability.Mode
		deletion prober.Outcome
	}{
		"a locked policy":              {stores.GCSBucket{Policy: 24 * time.Hour, Locked: true}, "", immutability.ModeCompliance, prober.Refused},
		"a policy that can be removed": {stores.GCSBucket{Policy: 24 * time.Hour}, "", immutability.ModeGovernance, prober.Refused},
		"a lock asked for":             {stores.GCSBucket{ObjectLock: true}, immutability.ModeCompliance, immutability.ModeCompliance, prober.Refused},
		"a lock nobody asked for":      {stores.GCSBucket{ObjectLock: true}, "", immutability.ModeNone, prober.Allowed},
		"versions only":                {stores.GCSBucket{Versioned: true}, "", immutability.ModeNone, prober.Allowed},
		"nothing":                      {stores.GCSBucket{}, "", immutability.ModeNone, prober.Allowed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			probe(t, open(t, options(newBucket(t, c.bucket))), prober.Options{Prefix: "a", Lock: c.ask, Period: time.Hour}, server.Shim.Now(), c.want, c.deletion)
		})
	}
}

// probe expects an outcome and that an overwrite is refused.
func probe(t *testing.T, s *gcs.Store, o prober.Options, now time.Time, want immutability.Mode, deletion prober.Outcome) {
	t.Helper()
	p, err := prober.New(s, s, o)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := p.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Run(t.Context(), plan, now)
	if err != nil {
		t.Fatal(err)
	}
	if r.Protection != want || r.Deletion.Outcome != deletion || r.Overwrite.Outcome != prober.Refused {
		t.Errorf("protection %s, deletion %+v, overwrite %+v; want %s and %s", r.Protection, r.Deletion, r.Overwrite, want, deletion)
	}
	t.Log(strings.Join(r.Conclusions, "\n"))
}

func TestACopyBetweenBucketsTakesOverNoLock(t *testing.T) {
	from := open(t, options(newBucket(t, stores.GCSBucket{ObjectLock: true, Versioned: true})))
	until := server.Shim.Now().Add(time.Hour).Truncate(time.Second)
	want := bytes.Repeat([]byte("z"), 2*chunk)
	src, err := from.Put(t.Context(), "a/key", bytes.NewReader(want), store.PutOptions{
		Retention: &immutability.Retention{Mode: immutability.ModeCompliance, Until: until}, Tags: map[string]string{"k": "v"},
	})
	if err != nil {
		t.Fatal(err)
	}
	to := open(t, options(newBucket(t, stores.GCSBucket{})))
	o, err := to.Copy(t.Context(), store.ReadOnly(from), src.Version, "b/key", store.PutOptions{})
	if !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("Copy through a read-only view = %v, want %v", err, store.ErrUnsupported)
	}
	if o, err = to.Copy(t.Context(), from, src.Version, "b/key", store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	st, err := to.Stat(t.Context(), o.Version)
	if err != nil || st.Retention.Mode != immutability.ModeNone || len(st.Tags) != 0 {
		t.Errorf("the copy is %+v with %+v, %v", st, st.Retention, err)
	}
	if !bytes.Equal(content(t, to, o.Version), want) {
		t.Error("the copy differs")
	}
	if _, err := to.Copy(t.Context(), from, src.Version, "b/key", store.PutOptions{}); !errors.Is(err, store.ErrExists) {
		t.Errorf("a second Copy = %v, want %v", err, store.ErrExists)
	}
}
