package s3_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/engine/prober"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/s3"
	"druid.internal/druid/test/stores"
)

// onRclone is a server with a bucket that was made with object lock, as far as anybody was told.
func onRclone(t *testing.T) (s *server, bucket string) {
	t.Helper()
	s, bucket = &server{S3: &stores.RunRclone(t).S3}, "locked-in-name"
	client := s.Client(s.Root)
	_, err := client.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: &bucket, ObjectLockEnabledForBucket: aws.Bool(true)})
	if err != nil {
		t.Fatalf("the server this is about accepts object lock: %v", err)
	}
	if _, err := client.GetObjectLockConfiguration(t.Context(), &awss3.GetObjectLockConfigurationInput{Bucket: &bucket}); err != nil {
		t.Fatalf("the server this is about answers that it knows object lock: %v", err)
	}
	return s, bucket
}

func TestAServerThatAcceptsLocksAndForgetsThemIsNotTakenForOneThatHasThem(t *testing.T) {
	rclone, bucket := onRclone(t)
	s := open(t, rclone.options(bucket))
	if c := s.Capabilities(); c.ObjectLock || c.Versions || c.ConditionalPut {
		t.Errorf("it is taken for a store with %+v", c)
	}
	b, err := s.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(b.Notes, "\n")
	for _, want := range []string{"object lock is off", "switch versioning on"} {
		if b.Versioned || b.Default != immutability.ModeNone || b.Locked || !strings.Contains(notes, want) {
			t.Errorf("Inspect = %+v, want nothing and %q", b, want)
		}
	}
	lock := &immutability.Retention{Mode: immutability.ModeCompliance, Until: time.Now().Add(time.Hour)}
	if _, err := s.Put(t.Context(), "a/locked", strings.NewReader("x"), store.PutOptions{Retention: lock}); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("a locked Put = %v, want %v", err, store.ErrUnsupported)
	}
	if _, err := s.Stat(t.Context(), store.Version{Key: "a/locked"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Stat = %v, want %v: what cannot be locked must not be written", err, store.ErrNotFound)
	}
}

func TestTheProbeSaysOfAServerThatForgetsLocksThatNothingIsProtected(t *testing.T) {
	rclone, bucket := onRclone(t)
	vouched := true
	cases := map[string]struct {
		change func(*s3.Options)
		over   prober.Outcome
		says   string
	}{
		"as it is":                {func(*s3.Options) {}, prober.NotProven, "not protected: whoever has these credentials can delete backups"},
		"somebody vouches for it": {func(o *s3.Options) { o.ConditionalPut = &vouched }, prober.Destroyed, "set conditionalPut to false"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := rclone.options(bucket)
			c.change(&o)
			s := open(t, o)
			p, err := prober.New(s, s, prober.Options{Prefix: "a"})
			if err != nil {
				t.Fatal(err)
			}
			plan, err := p.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.Run(t.Context(), plan, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(r.Conclusions, "\n")
			if r.Protection != immutability.ModeNone || r.Deletion.Outcome != prober.Allowed || r.Overwrite.Outcome != c.over || !strings.Contains(text, c.says) {
				t.Errorf("protection %s, deletion %s, overwrite %s:\n%s\nwant none, allowed, %s and %q", r.Protection, r.Deletion.Outcome, r.Overwrite.Outcome, text, c.over, c.says)
			}
		})
	}
}

func TestAServerThatCannotListVersionsIsRefusedAndNotTakenForEmpty(t *testing.T) {
	rclone, bucket := onRclone(t)
	s := open(t, rclone.options(bucket))
	if _, err := s.Put(t.Context(), "a/key", strings.NewReader("x"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	n := 0
	err := s.List(t.Context(), "", func(store.Object) error { n++; return nil })
	if !errors.Is(err, store.ErrUnsupported) || n > 0 || !strings.Contains(err.Error(), "cannot list versions") {
		t.Errorf("List = %v after %d objects, want %v", err, n, store.ErrUnsupported)
	}
}
