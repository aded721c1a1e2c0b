package s3_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/s3"
)

const part = 5 << 20

func TestEveryWriteCarriesAChecksumAConditionAndItsLock(t *testing.T) {
	until := time.Date(2030, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	sizes := map[string]int{"in one request": 1000, "empty": 0, "of exactly one part": part, "in parts": 2*part + 1}
	for _, legacy := range []bool{false, true} {
		for name, size := range sizes {
			f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodHead {
					lock(w, types.ObjectLockModeCompliance, until.Add(time.Second))
					w.Header().Set("X-Amz-Object-Lock-Legal-Hold", "ON")
				} else if r.URL.Query().Has("tagging") {
					io.WriteString(w, `<Tagging><TagSet><Tag><Key>k</Key><Value>v w</Value></Tag></TagSet></Tagging>`)
				} else {
					accepting(w, r)
				}
			})
			f.locks = true
			o := f.options()
			o.LegacyChecksums = legacy
			s := f.open(t, o)
			got, err := s.Put(t.Context(), "a/key", onlyReader{bytes.NewReader(make([]byte, size))}, store.PutOptions{
				Retention: &immutability.Retention{Mode: immutability.ModeCompliance, Until: until, Hold: true},
				Tags:      map[string]string{"k": "v w"},
			})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if want := (store.Version{Key: "a/key", ID: "v1"}); got.Version != want || got.Size != int64(size) {
				t.Errorf("%s: Put = %+v", name, got)
			}
			created := 0
			for _, r := range f.sent() {
				switch r.operation() {
				case "PutObject", "CompleteMultipartUpload":
					if got := r.header.Get("If-None-Match"); got != "*" {
						t.Errorf("%s: %s goes without a condition", name, r.operation())
					}
				}
				switch r.operation() {
				case "PutObject", "UploadPart":
					wantIntegrity(t, r, legacy)
				}
				switch r.operation() {
				case "PutObject", "CreateMultipartUpload":
					created++
					for header, want := range map[string]string{
						"X-Amz-Object-Lock-Mode": "COMPLIANCE", "X-Amz-Object-Lock-Retain-Until-Date": "2030-01-02T03:04:06Z",
						"X-Amz-Object-Lock-Legal-Hold": "ON", "X-Amz-Tagging": "k=v%20w",
					} {
						if got := r.header.Get(header); got != want {
							t.Errorf("%s: %s of %s is %q, want %q", name, header, r.operation(), got, want)
						}
					}
				}
			}
			if created != 1 {
				t.Errorf("%s: requests were %v", name, f.operations())
			}
		}
	}
}

// onlyReader hides that a stream could be measured or rewound.
type onlyReader struct{ io.Reader }

func TestAFailedPartFailsThePutAndLeavesNoUpload(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("partNumber") == "2" {
			refuse(w, http.StatusInternalServerError, "InternalError")
			return
		}
		accepting(w, r)
	})
	_, err := f.open(t, f.options()).Put(t.Context(), "a/key", bytes.NewReader(make([]byte, 4*part)), store.PutOptions{})
	if !errors.Is(err, store.ErrUnreachable) || !strings.Contains(err.Error(), "part 2") {
		t.Errorf("Put = %v, want it to blame part 2", err)
	}
	if errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("Put = %v, but the outcome is known", err)
	}
	ops := f.operations()
	if slices.Contains(ops, "CompleteMultipartUpload") || !slices.Contains(ops, "AbortMultipartUpload") {
		t.Errorf("requests were %v", ops)
	}
}

func TestAnUploadIsAbortedAlthoughTheCallerHasGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("partNumber") == "1" {
			cancel()
		}
		accepting(w, r)
	})
	_, err := f.open(t, f.options()).Put(ctx, "a/key", bytes.NewReader(make([]byte, 3*part)), store.PutOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v, want context.Canceled", err)
	}
	if ops := f.operations(); !slices.Contains(ops, "AbortMultipartUpload") || slices.Contains(ops, "CompleteMultipartUpload") {
		t.Errorf("requests were %v", ops)
	}
}

func TestMemoryDoesNotDependOnTheSize(t *testing.T) {
	const parallel, total = 2, 40
	const limit = (parallel + 1) * part
	body := &held{r: io.LimitReader(zeros{}, total*part), full: make(chan struct{})}
	arrived := make(chan struct{}) // closed when as many parts are on their way as may be
	var (
		together     sync.Once
		atOnce, most atomic.Int64
	)
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("partNumber") {
			now := atOnce.Add(1)
			if now == parallel {
				together.Do(func() { close(arrived) })
			}
			for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
			}
			// Nothing is acknowledged before as much is held and sent as may be.
			<-body.full
			<-arrived
			atOnce.Add(-1)
			body.acknowledged.Add(part)
		}
		accepting(w, r)
	})
	o := f.options()
	o.ParallelParts = parallel
	body.limit = limit
	if _, err := f.open(t, o).Put(t.Context(), "a/key", body, store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := body.most.Load(); got > limit {
		t.Errorf("up to %d bytes were read and not acknowledged, want at most %d", got, limit)
	}
	if got := most.Load(); got != parallel {
		t.Errorf("up to %d parts were sent at once, want %d", got, parallel)
	}
}

// held counts what was read and not yet acknowledged, which is what must be in memory.
type held struct {
	r                        io.Reader
	limit                    int64
	full                     chan struct{} // closed when limit is held for the first time
	read, acknowledged, most atomic.Int64
}

func (h *held) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	now := h.read.Add(int64(n)) - h.acknowledged.Load()
	h.most.Store(max(h.most.Load(), now))
	if now >= h.limit {
		select {
		case <-h.full:
		default:
			close(h.full)
		}
	}
	return n, err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestAWriteWhoseAnswerIsUnknownIsSaidToBe(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			panic(http.ErrAbortHandler) // no answer
		}
		if r.URL.Query().Has("versions") {
			io.WriteString(w, `<ListVersionsResult><IsTruncated>false</IsTruncated></ListVersionsResult>`)
			return
		}
		accepting(w, r)
	})
	_, err := f.open(t, f.options()).Put(t.Context(), "a/key", strings.NewReader("x"), store.PutOptions{})
	if !errors.Is(err, store.ErrUnknownOutcome) || !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("Put = %v, want an unknown outcome", err)
	}
}

func TestLosingARaceIsSaidToBeOne(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch {
		case r.Method == http.MethodPost && q.Has("uploadId"):
			refuse(w, http.StatusConflict, "ConditionalRequestConflict")
		case q.Has("versions"):
			io.WriteString(w, `<ListVersionsResult><Version><Key>a/key</Key><VersionId>theirs</VersionId><IsLatest>true</IsLatest></Version></ListVersionsResult>`)
		case r.Method == http.MethodHead:
			w.Header().Set("X-Amz-Meta-Druid-Upload", "theirs")
		default:
			accepting(w, r)
		}
	})
	o := f.options()
	o.Attempts = 3
	_, err := f.open(t, o).Put(t.Context(), "a/key", bytes.NewReader(make([]byte, 2*part)), store.PutOptions{})
	if !errors.Is(err, store.ErrExists) {
		t.Errorf("Put = %v, want %v", err, store.ErrExists)
	}
	completed := 0
	for _, op := range f.operations() {
		if op == "CompleteMultipartUpload" {
			completed++
		}
	}
	if completed != 1 {
		t.Errorf("a conflict was repeated %d times, which cannot succeed", completed)
	}
}

func TestAServerIsBelievedToRefuseOverwritesOnlyIfItIsKnownTo(t *testing.T) {
	yes, no := true, false
	cases := map[string]struct {
		server  string
		given   *bool
		want    bool
		wantAsk bool // If-None-Match is sent
	}{
		"a server that is known":             {"MinIO", nil, true, true},
		"a server that is not":               {"Ceph Object Gateway (squid)", nil, false, true},
		"a server without a name":            {"", nil, false, true},
		"a server that borrows a name":       {"AmazonS3", nil, false, true},
		"an unknown server, vouched for":     {"Ceph Object Gateway", &yes, true, true},
		"a server that must not be asked to": {"MinIO", &no, false, false},
	}
	for name, c := range cases {
		f := newFake(t, accepting)
		f.name = c.server
		o := f.options()
		o.ConditionalPut = c.given
		s := f.open(t, o)
		if got := s.Capabilities().ConditionalPut; got != c.want {
			t.Errorf("%s: ConditionalPut = %v, want %v", name, got, c.want)
		}
		if _, err := s.Put(t.Context(), "k", strings.NewReader("x"), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := f.sent()[0].header.Get("If-None-Match") == "*"; got != c.wantAsk {
			t.Errorf("%s: the condition is sent: %v, want %v", name, got, c.wantAsk)
		}
	}
}

func TestACustomerKeyGoesWithEveryRequestThatTouchesContent(t *testing.T) {
	f := newFake(t, accepting)
	o := f.options()
	o.CustomerKey = strings.Repeat("k", 32)
	s := f.open(t, o)
	if _, err := s.Put(t.Context(), "k", bytes.NewReader(make([]byte, part+1)), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	_, _ = s.Open(t.Context(), store.Version{Key: "k"}, 0, -1)
	_, _ = s.Stat(t.Context(), store.Version{Key: "k"})
	for _, r := range f.sent() {
		op := r.operation()
		if op == "HeadBucket" || op == "CompleteMultipartUpload" {
			continue
		}
		if r.header.Get("X-Amz-Server-Side-Encryption-Customer-Key") == "" || r.header.Get("X-Amz-Server-Side-Encryption-Customer-Key-Md5") == "" {
			t.Errorf("%s goes without the customer key", op)
		}
	}
	o.Endpoint = strings.Replace(f.URL, "https://", "http://", 1)
	if _, err := s3.New(t.Context(), o); err == nil || !strings.Contains(err.Error(), "plain http") {
		t.Errorf("a customer key over plain http: %v", err)
	}
}
