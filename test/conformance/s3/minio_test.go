package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/examples/policies"
	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/s3"
	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/stores"
)

const part = 5 << 20

// An upload whose answer is lost did happen. The repetition meets its own object.
func TestALostAnswerToAWriteIsNoFailureAndNoSecondVersion(t *testing.T) {
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
		t.Run(name, func(t *testing.T) {
			s, gate := onMinIO(t).gated(t, stores.Compliance, func(o *s3.Options) { o.Attempts = 2 })
			gate.Inject(faults.Fault{Match: c.lost, Times: c.times, Lose: true})
			want := bytes.Repeat([]byte("x"), c.size)
			o, err := s.Put(t.Context(), "a/key", bytes.NewReader(want), store.PutOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(gate.Happened()) == 0 {
				t.Fatal("no answer was lost")
			}
			all := listed(t, s)
			if len(all) != 1 || all[0].Version != o.Version || o.Size != int64(c.size) {
				t.Errorf("Put = %+v, the listing %+v", o, all)
			}
			if !bytes.Equal(content(t, s, o.Version), want) {
				t.Error("what is there is not what was written")
			}
			if left := minioServer.uploadsOf(t, bucketOf(s)); len(left) > 0 {
				t.Errorf("uploads %v are left", left)
			}
		})
	}
}

func TestALostAnswerToOursIsNotTakenForAnothersObject(t *testing.T) {
	s, gate := onMinIO(t).gated(t, stores.Compliance, func(o *s3.Options) { o.Attempts = 2 })
	if _, err := s.Put(t.Context(), "a/key", strings.NewReader("theirs"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	gate.Inject(faults.Fault{Match: faults.Request(http.MethodPut), Times: 1, Lose: true})
	if _, err := s.Put(t.Context(), "a/key", strings.NewReader("ours"), store.PutOptions{}); !errors.Is(err, store.ErrExists) {
		t.Errorf("Put = %v, want %v", err, store.ErrExists)
	}
	if all := listed(t, s); len(all) != 1 || string(content(t, s, all[0].Version)) != "theirs" {
		t.Errorf("the listing is %+v", all)
	}
}

func TestAFailedChunkFailsThePutAndLeavesNeitherObjectNorUpload(t *testing.T) {
	s, gate := onMinIO(t).gated(t, stores.Compliance, func(o *s3.Options) { o.Attempts = 2 })
	gate.Inject(faults.Fault{Match: faults.Request(http.MethodPut, "partNumber=3"), Status: http.StatusInternalServerError, Code: "InternalError"})
	_, err := s.Put(t.Context(), "a/key", bytes.NewReader(make([]byte, 6*part)), store.PutOptions{})
	if !errors.Is(err, store.ErrUnreachable) || errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("Put = %v, want a definite failure", err)
	}
	if all := listed(t, s); len(all) > 0 {
		t.Errorf("%+v became visible", all)
	}
	if left := minioServer.uploadsOf(t, bucketOf(s)); len(left) > 0 {
		t.Errorf("uploads %v are left", left)
	}
}

func TestAnOutageIsNeverAnEmptyBucket(t *testing.T) {
	link := faults.NewLink(t, onMinIO(t).Address)
	o := minioServer.options(onMinIO(t).newBucket(t, stores.Versioned))
	o.Endpoint, o.Attempts, o.IdleTimeout = "https://"+link.Address, 1, 3*time.Second
	s := open(t, o)
	if _, err := s.Put(t.Context(), "a/key", strings.NewReader("x"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	outages := map[string]func(){"cut": link.Cut, "stalled": link.Stall}
	for name, begin := range outages {
		begin()
		n := 0
		err := s.List(t.Context(), "", func(store.Object) error { n++; return nil })
		if !errors.Is(err, store.ErrUnreachable) || n > 0 {
			t.Errorf("%s: %d objects and %v, want %v", name, n, err, store.ErrUnreachable)
		}
		if _, err := s.Stat(t.Context(), store.Version{Key: "a/key"}); !errors.Is(err, store.ErrUnreachable) || errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: Stat = %v, want %v", name, err, store.ErrUnreachable)
		}
		link.Restore()
		if all := listed(t, s); len(all) != 1 {
			t.Errorf("after %s: %+v", name, all)
		}
	}
}

func TestMarkersAndOverwritesHideNothing(t *testing.T) {
	bucket := onMinIO(t).newBucket(t, stores.Compliance)
	s := open(t, minioServer.options(bucket))
	genuine, err := s.Put(t.Context(), "a/key", strings.NewReader("genuine"), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	minioServer.overwrite(t, s, "a/key", []byte("hostile"))
	minioServer.hide(t, s, "a/key")
	all := listed(t, s)
	if len(all) != 3 || !all[0].Marker || !all[0].Latest || all[1].Marker || all[2].Version != genuine.Version {
		t.Fatalf("the listing is %+v, want a marker, the hostile and the genuine version", all)
	}
	if got := content(t, s, genuine.Version); string(got) != "genuine" {
		t.Errorf("the genuine version holds %q", got)
	}
	st, err := s.Stat(t.Context(), genuine.Version)
	if err != nil {
		t.Fatal(err)
	}
	if st.Latest || st.Retention == nil || st.Retention.Mode != immutability.ModeCompliance {
		t.Errorf("Stat of the genuine version = %+v", st)
	}
	var refused *store.ImmutableError
	if err := s.Delete(t.Context(), genuine.Version); !errors.As(err, &refused) || errors.Is(err, store.ErrForbidden) || !refused.Until.Equal(st.Retention.Until) {
		t.Errorf("Delete = %v, want a refusal until %s", err, st.Retention.Until)
	}
	if err := s.Delete(t.Context(), all[0].Version); err != nil {
		t.Errorf("removing the marker: %v", err)
	}
	for v, want := range map[store.Version]bool{genuine.Version: false, all[1].Version: true} {
		if st, err := s.Stat(t.Context(), v); err != nil || st.Latest != want {
			t.Errorf("%s is the latest: %v (%v), want %v", v, st.Latest, err, want)
		}
	}
}

// as is a store that asks with the rights of a policy.
func as(t *testing.T, bucket, policy string) *s3.Store {
	t.Helper()
	keys, err := startedMinIO(t).Assume(t.Context(), policy)
	if err != nil {
		t.Fatal(err)
	}
	o := minioServer.options(bucket)
	o.Keys = func() (s3.Keys, error) { return s3.Keys(keys), nil }
	return open(t, o)
}

func TestAWriterWithTheLeastRightsCanDoItsWorkAndNothingElse(t *testing.T) {
	bucket := onMinIO(t).newBucket(t, stores.Compliance)
	s := as(t, bucket, policies.S3(policies.Writer, bucket, "a/"))
	for _, size := range []int{10, 2*part + 1} {
		key := fmt.Sprintf("a/key-%d", size)
		o, err := s.Put(t.Context(), key, bytes.NewReader(make([]byte, size)), store.PutOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), key, bytes.NewReader(make([]byte, size)), store.PutOptions{}); !errors.Is(err, store.ErrExists) {
			t.Errorf("a second Put = %v, want %v", err, store.ErrExists)
		}
		st, err := s.Stat(t.Context(), o.Version)
		if err != nil {
			t.Fatal(err)
		}
		if st.Retention == nil || st.Retention.Mode != immutability.ModeCompliance || st.Tags == nil {
			t.Errorf("Stat = %+v", st)
		}
		if len(content(t, s, o.Version)) != size {
			t.Error("it cannot read what it wrote")
		}
		if err := s.Delete(t.Context(), o.Version); !errors.Is(err, store.ErrForbidden) {
			t.Errorf("Delete = %v, want %v", err, store.ErrForbidden)
		}
		if _, err := s.Extend(t.Context(), o.Version, st.Retention.Until.Add(time.Hour)); !errors.Is(err, store.ErrForbidden) {
			t.Errorf("Extend = %v, want %v", err, store.ErrForbidden)
		}
		if err := s.SetTag(t.Context(), o.Version, "k", "v"); !errors.Is(err, store.ErrForbidden) {
			t.Errorf("SetTag = %v, want %v", err, store.ErrForbidden)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.Put(ctx, "a/canceled", io.MultiReader(bytes.NewReader(make([]byte, 3*part)), cancels{cancel}, bytes.NewReader(make([]byte, part))), store.PutOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v, want %v", err, context.Canceled)
	}
	if left := minioServer.uploadsOf(t, bucket); len(left) > 0 {
		t.Errorf("uploads %v are left", left)
	}
	if _, err := s.Put(t.Context(), "b/key", strings.NewReader("x"), store.PutOptions{}); !errors.Is(err, store.ErrForbidden) {
		t.Errorf("Put below another prefix = %v, want %v", err, store.ErrForbidden)
	}
}

// Each identity of examples/policies does what it is for below its prefix, and is refused everything else.
func TestEveryRoleDoesItsWorkAndNothingElse(t *testing.T) {
	bucket := onMinIO(t).newBucket(t, stores.Lockable)
	owner := open(t, minioServer.options(bucket))
	day := 24 * time.Hour
	attempts := map[string]func(s *s3.Store, key string, v store.Version) error{
		"reads": func(s *s3.Store, _ string, v store.Version) error {
			body, err := s.Open(t.Context(), v, 0, 1)
			if err == nil {
				body.Close()
			}
			return err
		},
		"writes": func(s *s3.Store, key string, _ store.Version) error {
			_, err := s.Put(t.Context(), key+"-new", strings.NewReader("x"), store.PutOptions{})
			return err
		},
		"tags": func(s *s3.Store, _ string, v store.Version) error { return s.SetTag(t.Context(), v, "k", "v") },
		"extends": func(s *s3.Store, _ string, v store.Version) error {
			_, err := s.Extend(t.Context(), v, time.Now().Add(2*day))
			return err
		},
		"extends beyond the cap": func(s *s3.Store, _ string, v store.Version) error {
			_, err := s.Extend(t.Context(), v, time.Now().Add(60*day))
			return err
		},
		"deletes": func(s *s3.Store, _ string, v store.Version) error { return s.Delete(t.Context(), v) },
	}
	for role, does := range map[policies.Role][]string{
		policies.Writer:    {"reads", "writes"},
		policies.Reader:    {"reads"},
		policies.Collector: {"reads", "deletes"},
		policies.Extender:  {"reads", "extends"},
		policies.Excluder:  {"reads", "tags"},
	} {
		t.Run(string(role), func(t *testing.T) {
			s := as(t, bucket, policies.S3(role, bucket, "ns/main"))
			for what, try := range attempts {
				for _, below := range []string{"ns/main/", "ns/main-2/", "other/"} {
					key := fmt.Sprintf("%s%s-%s", below, role, strings.ReplaceAll(what, " ", "-"))
					lock := store.PutOptions{} // none, so that rights alone refuse; what is not locked is not extended
					if strings.HasPrefix(what, "extends") {
						lock.Retention = &immutability.Retention{Mode: immutability.ModeGovernance, Until: time.Now().Add(day)}
					}
					o, err := owner.Put(t.Context(), key, strings.NewReader("x"), lock)
					if err != nil {
						t.Fatal(err)
					}
					may := below == "ns/main/" && slices.Contains(does, what)
					if err := try(s, key, o.Version); may && err != nil || !may && !errors.Is(err, store.ErrForbidden) {
						t.Errorf("it %s below %s: %v, want that it may: %t", what, below, err, may)
					}
				}
			}
		})
	}
}

// cancels is an empty stream that gives up when it is read.
type cancels struct{ cancel func() }

func (c cancels) Read([]byte) (int, error) { c.cancel(); return 0, io.EOF }

func TestAWriterThatMayNotSeeLocksReportsThemAsUnknown(t *testing.T) {
	bucket := onMinIO(t).newBucket(t, stores.Compliance)
	s := as(t, bucket, stores.BlindWriterPolicy(bucket, "a/"))
	o, err := s.Put(t.Context(), "a/key", strings.NewReader("x"), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	st, err := s.Stat(t.Context(), o.Version)
	if err != nil {
		t.Fatal(err)
	}
	if st.Retention != nil {
		t.Errorf("the retention is %+v, want nil", *st.Retention)
	}
	var refused *store.ImmutableError
	if err := s.Delete(t.Context(), o.Version); !errors.Is(err, store.ErrForbidden) || errors.As(err, &refused) {
		t.Errorf("Delete = %v, want %v and no claim about a lock", err, store.ErrForbidden)
	}
}

func TestACollectorIsRefusedByTheLockAndSaysSo(t *testing.T) {
	bucket := onMinIO(t).newBucket(t, stores.Governance)
	o, err := open(t, minioServer.options(bucket)).Put(t.Context(), "a/key", strings.NewReader("x"), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var refused *store.ImmutableError
	if err := as(t, bucket, policies.S3(policies.Collector, bucket, "a/")).Delete(t.Context(), o.Version); !errors.As(err, &refused) || errors.Is(err, store.ErrForbidden) {
		t.Errorf("Delete = %v, want the lock's refusal", err)
	}
}

func TestWrongCredentialsBucketsAndCertificatesAreNamed(t *testing.T) {
	bucket := onMinIO(t).newBucket(t, stores.Versioned)
	wrong := func(id, secret string) func(*s3.Options) {
		return func(o *s3.Options) {
			o.Keys = func() (s3.Keys, error) { return s3.Keys{AccessKeyID: id, SecretAccessKey: secret}, nil }
		}
	}
	cases := map[string]struct {
		change func(*s3.Options)
		want   error
		says   string
	}{
		"an unknown key":  {wrong("AKIDUNKNOWN", minioServer.Root.SecretAccessKey), store.ErrCredentials, "accessKeyID"},
		"a wrong secret":  {wrong(minioServer.Root.AccessKeyID, "not-the-secret"), store.ErrCredentials, "secretAccessKey"},
		"no such bucket":  {func(o *s3.Options) { o.Bucket = "nobody-made-this" }, store.ErrNoBucket, "nobody-made-this"},
		"no CA":           {func(o *s3.Options) { o.TrustedCAs = nil }, store.ErrUnreachable, "trustedCaCert"},
		"plain http":      {func(o *s3.Options) { o.Endpoint = "http://" + minioServer.Address }, nil, minioServer.Address},
		"nobody is there": {func(o *s3.Options) { o.Endpoint = "https://127.0.0.1:1" }, store.ErrUnreachable, "https://127.0.0.1:1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := minioServer.options(bucket)
			o.Attempts = 1
			c.change(&o)
			_, err := s3.New(t.Context(), o)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "not-the-secret") {
				t.Errorf("%v, want one line of kind %v with %q", err, c.want, c.says)
			}
		})
	}
}

func TestTheOlderChecksumsAndCustomerKeysWorkAsWell(t *testing.T) {
	cases := map[string]func(*s3.Options){
		"Content-MD5 only": func(o *s3.Options) { o.LegacyChecksums, o.SkipResponseChecksums = true, true },
		"a customer key":   func(o *s3.Options) { o.CustomerKey = strings.Repeat("k", 32) },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			o := minioServer.options(onMinIO(t).newBucket(t, stores.Compliance))
			change(&o)
			s := open(t, o)
			for _, size := range []int{0, 10, 2*part + 1} {
				want := bytes.Repeat([]byte("y"), size)
				key := fmt.Sprintf("a/%d", size)
				obj, err := s.Put(t.Context(), key, bytes.NewReader(want), store.PutOptions{})
				if err != nil {
					t.Fatal(err)
				}
				copied, err := s.Copy(t.Context(), s, obj.Version, key+"-copy", store.PutOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(content(t, s, obj.Version), want) || !bytes.Equal(content(t, s, copied.Version), want) {
					t.Errorf("%d bytes were read back differently", size)
				}
			}
		})
	}
}
