package oss_test

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	osssdk "github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/engine/prober"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/oss"
	"druid.internal/druid/test/faults"
)

func put(t *testing.T, s store.Store, key, body string) store.Object {
	t.Helper()
	o, err := s.Put(t.Context(), key, strings.NewReader(body), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func inspected(t *testing.T, s *oss.Store) (store.Bucket, string) {
	t.Helper()
	b, err := s.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b, strings.Join(b.Notes, "\n")
}

func TestALockedPolicyProtectsUntilItsPeriodEnds(t *testing.T) {
	srv := newServer(t)
	for name, versions := range map[string]bool{"without versions": false, "with versions": true} {
		t.Run(name, func(t *testing.T) {
			bucket := srv.newBucket(t, kind{versions: versions, days: 3})
			s := open(t, srv.options(bucket))
			o := put(t, s, "a/k", "genuine")
			b, notes := inspected(t, s)
			if b.Default != immutability.ModeCompliance || b.Period != 3*day || !b.Locked || !strings.Contains(notes, "locked") {
				t.Errorf("Inspect = %+v", b)
			}
			until := listed(t, s)[0].Retention.Until
			if d := until.Sub(srv.fake.Now().Add(3 * day)).Abs(); d > time.Minute {
				t.Errorf("it is listed as locked until %s, which is %s off", until, d)
			}
			attack := srv.overwrite(t.Context(), bucket, "a/k", []byte("forged"))
			hidden := srv.hide(t.Context(), bucket, "a/k")
			if versions != (attack == nil) || versions != (hidden == nil) {
				t.Errorf("an overwrite is answered by %v, a delete by %v", attack, hidden)
			}
			if got := content(t, s, o.Version); string(got) != "genuine" {
				t.Errorf("it reads %q", got)
			}
			var locked *store.ImmutableError
			if err := s.Delete(t.Context(), o.Version); !errors.As(err, &locked) || !locked.Until.Equal(until) {
				t.Errorf("Delete = %v, want it refused until %s", err, until)
			}
			srv.fake.Advance(3*day - time.Minute)
			if err := s.Delete(t.Context(), o.Version); !errors.As(err, &locked) {
				t.Errorf("a minute before the end Delete = %v", err)
			}
			srv.fake.Advance(2 * time.Minute)
			if err := s.Delete(t.Context(), o.Version); err != nil {
				t.Errorf("after the end Delete = %v", err)
			}
		})
	}
}

// Whoever reads only "there is a policy of 30 days" believes in a protection of one day.
func TestAPolicyThatIsNotCompletedCountsForItsDayOnly(t *testing.T) {
	srv := newServer(t)
	bucket := srv.newBucket(t, kind{days: 30, begun: true})
	s := open(t, srv.options(bucket))
	o := put(t, s, "a/k", "x")
	b, notes := inspected(t, s)
	if b.Default != immutability.ModeGovernance || b.Period != day || b.Locked || !strings.Contains(notes, "CompleteBucketWorm") {
		t.Errorf("Inspect = %+v", b)
	}
	st, err := s.Stat(t.Context(), o.Version)
	if err != nil || st.Retention == nil || st.Retention.Mode != immutability.ModeGovernance {
		t.Fatalf("Stat = %+v, %v", st, err)
	}
	if d := st.Retention.Until.Sub(srv.fake.Now()); d > day || d < day-time.Minute {
		t.Errorf("it counts as locked for %s", d)
	}
	var locked *store.ImmutableError
	if err := s.Delete(t.Context(), o.Version); !errors.As(err, &locked) {
		t.Errorf("on the first day Delete = %v", err)
	}
	srv.fake.Advance(day)
	if st, err = s.Stat(t.Context(), o.Version); err != nil || st.Retention.Protected(immutability.Clock{Server: srv.fake.Now(), Local: srv.fake.Now()}.ForDeletion(), 0).Protected {
		t.Errorf("after a day Stat = %+v, %v", st.Retention, err)
	}
	if err := s.Delete(t.Context(), o.Version); err != nil {
		t.Errorf("after a day Delete = %v", err)
	}
}

func TestAPolicyThatIsExtendedProtectsWhatIsThere(t *testing.T) {
	srv := newServer(t)
	bucket := srv.newBucket(t, kind{days: 3})
	s := open(t, srv.options(bucket))
	o := put(t, s, "a/k", "x")
	c := srv.client()
	w, err := c.GetBucketWorm(t.Context(), &osssdk.GetBucketWormRequest{Bucket: &bucket})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.ExtendBucketWorm(t.Context(), &osssdk.ExtendBucketWormRequest{Bucket: &bucket, WormId: w.WormConfiguration.WormId,
		ExtendWormConfiguration: &osssdk.ExtendWormConfiguration{RetentionPeriodInDays: osssdk.Ptr(int32(9))}})
	if err != nil {
		t.Fatal(err)
	}
	srv.fake.Advance(4 * day)
	var locked *store.ImmutableError
	if err := s.Delete(t.Context(), o.Version); !errors.As(err, &locked) || locked.Until.Sub(srv.fake.Now()) < 4*day {
		t.Errorf("Delete = %v", err)
	}
}

func TestTheProbeTellsWhatBucketsOfOSSReallyGive(t *testing.T) {
	srv := newServer(t)
	cases := map[string]struct {
		kind      kind
		want      immutability.Mode
		deletion  prober.Outcome
		overwrite prober.Outcome
	}{
		"a locked policy":               {kind{days: 30}, immutability.ModeCompliance, prober.Refused, prober.Refused},
		"a locked policy with versions": {kind{days: 30, versions: true}, immutability.ModeCompliance, prober.Refused, prober.FurtherVersion},
		"a policy that is only begun":   {kind{days: 30, begun: true}, immutability.ModeGovernance, prober.Refused, prober.Refused},
		"versions":                      {kind{versions: true}, immutability.ModeNone, prober.Allowed, prober.FurtherVersion},
		"nothing":                       {kind{}, immutability.ModeNone, prober.Allowed, prober.Refused},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := open(t, srv.options(srv.newBucket(t, c.kind)))
			p, err := prober.New(s, s, prober.Options{Prefix: "a"})
			if err != nil {
				t.Fatal(err)
			}
			plan, err := p.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.Run(t.Context(), plan, srv.fake.Now())
			if err != nil {
				t.Fatal(err)
			}
			if r.Protection != c.want || r.Deletion.Outcome != c.deletion || r.Overwrite.Outcome != c.overwrite {
				t.Errorf("protection %s, deletion %+v, overwrite %+v", r.Protection, r.Deletion, r.Overwrite)
			}
		})
	}
}

func TestSuspendedVersionsAreNotTakenForKeptOnes(t *testing.T) {
	srv := newServer(t)
	bucket := srv.newBucket(t, kind{versions: true})
	s := open(t, srv.options(bucket))
	kept := put(t, s, "a/k", "one")
	srv.setVersioning(t, bucket, osssdk.VersionSuspended)
	s = open(t, srv.options(bucket))
	if c := s.Capabilities(); !c.Versions || c.ConditionalPut {
		t.Errorf("capabilities = %+v", c)
	}
	if b, notes := inspected(t, s); b.Versioned || !strings.Contains(notes, "suspended") {
		t.Errorf("Inspect = %+v", b)
	}
	o := put(t, s, "a/k", "two")
	if o.ID != "null" || string(content(t, s, kept.Version)) != "one" || string(content(t, s, o.Version)) != "two" {
		t.Errorf("the versions are %s and %s", kept.Version, o.Version)
	}
}

const part = 5 << 20

// An upload whose answer is lost did happen, and where there are versions a repetition would
// make a second one.
func TestALostAnswerToAWriteIsNoFailureAndNoSecondVersion(t *testing.T) {
	srv := newServer(t)
	cases := map[string]struct {
		size  int
		lost  func(*http.Request) bool
		times int
	}{
		"the write of a small object, once":   {1000, faults.Request(http.MethodPut), 1},
		"the write of a small object, always": {1000, faults.Request(http.MethodPut), 0},
		"the write of a part, once":           {3 * part, faults.Request(http.MethodPut, "partNumber=2"), 1},
		"the last request of a large, once":   {2*part + 1, faults.Request(http.MethodPost, "uploadId"), 1},
		"the last request of a large, always": {2*part + 1, faults.Request(http.MethodPost, "uploadId"), 0},
	}
	for name, c := range cases {
		for _, versions := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				gate := faults.NewGate(t, srv)
				o := srv.options(srv.newBucket(t, kind{versions: versions}))
				o.Endpoint, o.Attempts = gate.Endpoint, 2
				s := open(t, o)
				gate.Inject(faults.Fault{Match: c.lost, Times: c.times, Lose: true})
				want := bytes.Repeat([]byte("x"), c.size)
				obj, err := s.Put(t.Context(), "a/key", bytes.NewReader(want), store.PutOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if len(gate.Happened()) == 0 {
					t.Fatal("no answer was lost")
				}
				all := listed(t, s)
				if len(all) != 1 || all[0].Version != obj.Version || obj.Size != int64(c.size) {
					t.Errorf("Put = %+v, the listing %+v", obj, all)
				}
				if !bytes.Equal(content(t, s, obj.Version), want) {
					t.Error("what is there is not what was written")
				}
				if n := srv.uploads(t, o.Bucket); n > 0 {
					t.Errorf("%d uploads are left", n)
				}
			})
		}
	}
}

func TestAServerThatFailsForAMomentIsAskedAgain(t *testing.T) {
	srv := newServer(t)
	gate := faults.NewGate(t, srv)
	o := srv.options(srv.newBucket(t, kind{versions: true}))
	o.Endpoint = gate.Endpoint
	s := open(t, o)
	gate.Inject(faults.Fault{Match: faults.Request(http.MethodPut), Times: 2, Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable"})
	put(t, s, "a/key", "x")
	if n := len(gate.Happened()); n != 2 || len(listed(t, s)) != 1 {
		t.Errorf("after %d failures there are %d versions", n, len(listed(t, s)))
	}
}

func TestAFailedPartFailsThePutAndLeavesNeitherObjectNorUpload(t *testing.T) {
	srv := newServer(t)
	gate := faults.NewGate(t, srv)
	o := srv.options(srv.newBucket(t, kind{}))
	o.Endpoint, o.Attempts = gate.Endpoint, 2
	s := open(t, o)
	gate.Inject(faults.Fault{Match: faults.Request(http.MethodPut, "partNumber=3"), Status: http.StatusInternalServerError, Code: "InternalError"})
	_, err := s.Put(t.Context(), "a/key", bytes.NewReader(make([]byte, 6*part)), store.PutOptions{})
	if !errors.Is(err, store.ErrUnreachable) || errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("Put = %v, want a definite failure", err)
	}
	if all, n := listed(t, s), srv.uploads(t, o.Bucket); len(all) > 0 || n > 0 {
		t.Errorf("%+v became visible, %d uploads are left", all, n)
	}
}

func TestWrongCredentialsAndBucketsAreNamed(t *testing.T) {
	srv := newServer(t)
	bucket := srv.newBucket(t, kind{})
	cases := map[string]struct {
		change func(*oss.Options)
		want   error
		words  string
	}{
		"a key nobody knows": {func(o *oss.Options) {
			o.Keys = func() (oss.Keys, error) { return oss.Keys{AccessKeyID: "LTAI-other", AccessKeySecret: secret}, nil }
		}, store.ErrCredentials, "accessKeyID"},
		"a bucket that is not there": {func(o *oss.Options) { o.Bucket = "elsewhere" }, store.ErrNoBucket, "check the container's name"},
		"an unknown authority":       {func(o *oss.Options) { o.TrustedCAs = nil }, store.ErrUnreachable, "trustedCaCert"},
		"an endpoint nobody serves":  {func(o *oss.Options) { o.Endpoint = "https://127.0.0.1:1" }, store.ErrUnreachable, "connection refused"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := srv.options(bucket)
			o.Attempts = 1
			c.change(&o)
			_, err := oss.New(t.Context(), o)
			if !errors.Is(err, c.want) {
				t.Fatalf("New = %v, want %v", err, c.want)
			}
			if text := err.Error(); !strings.Contains(text, c.words) || strings.Contains(text, "\n") || strings.Contains(text, secret) {
				t.Errorf("%q, want one line with %q and no secret", text, c.words)
			}
		})
	}
}

func TestACopyIsComparedWithItsSource(t *testing.T) {
	srv := newServer(t)
	from, to := open(t, srv.options(srv.newBucket(t, kind{versions: true}))), open(t, srv.options(srv.newBucket(t, kind{})))
	want := bytes.Repeat([]byte("0123456789"), part/5)
	src, err := from.Put(t.Context(), "a/source", bytes.NewReader(want), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, from, "a/source", "a newer version of somebody else")
	o, err := to.Copy(t.Context(), from, src.Version, "b/copy", store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(content(t, to, o.Version), want) {
		t.Error("the copy is not the version that was named")
	}
	if _, err := to.Copy(t.Context(), from, src.Version, "b/copy", store.PutOptions{}); !errors.Is(err, store.ErrExists) {
		t.Errorf("the second copy = %v, want %v", err, store.ErrExists)
	}
	if n := srv.uploads(t, bucketOf(to)); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
}
