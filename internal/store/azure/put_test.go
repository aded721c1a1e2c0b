package azure_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/xml"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// onlyReader hides that a stream could be measured or rewound.
type onlyReader struct{ io.Reader }

func TestEveryWriteCarriesAChecksumAConditionAndItsLock(t *testing.T) {
	until := time.Now().Add(48 * time.Hour).UTC().Truncate(time.Second).Add(600 * time.Millisecond)
	sizes := map[string]int{"in one request": 1000, "empty": 0, "of exactly one block": block, "in blocks": 2*block + 1}
	for name, size := range sizes {
		f := newFake(t, accepting)
		f.versionLevel = true
		got, err := f.open(t, f.options()).Put(t.Context(), "a/key", onlyReader{bytes.NewReader(make([]byte, size))}, store.PutOptions{
			Retention: &immutability.Retention{Mode: immutability.ModeCompliance, Until: until, Hold: true},
			Tags:      map[string]string{"k": "v w"},
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if want := (store.Version{Key: "a/key", ID: "2026-11-20T10:00:00.0000001Z"}); got.Version != want || got.Size != int64(size) {
			t.Errorf("%s: Put = %+v", name, got)
		}
		visible := 0
		var staged, committed []string
		for _, r := range f.sent() {
			switch r.operation() {
			case "Put Block":
				id := r.query[strings.Index(r.query, "blockid=")+len("blockid="):]
				staged = append(staged, strings.Split(id, "&")[0])
			case "Put Block List":
				var list struct{ Latest []string }
				if err := xml.Unmarshal(r.body, &list); err != nil {
					t.Fatal(err)
				}
				committed = list.Latest
			}
			switch r.operation() {
			case "Put Block", "Put Blob":
				var crc [8]byte
				binary.LittleEndian.PutUint64(crc[:], crc64.Checksum(r.body, crc64.MakeTable(0x9A6C9329AC4BC9B5)))
				if got := r.header.Get("x-ms-content-crc64"); got != base64.StdEncoding.EncodeToString(crc[:]) {
					t.Errorf("%s: the checksum of %s is %q", name, r.operation(), got)
				}
			}
			switch r.operation() {
			case "Put Blob", "Put Block List":
				visible++
				for header, want := range map[string]string{
					"If-None-Match": "*", "x-ms-tags": "k=v+w", "x-ms-legal-hold": "true", "x-ms-immutability-policy-mode": "Locked",
					"x-ms-immutability-policy-until-date": until.Add(400 * time.Millisecond).Format(http.TimeFormat),
				} {
					if got := r.header.Get(header); !strings.EqualFold(got, want) && !(header == "x-ms-tags" && got == "k=v%20w") {
						t.Errorf("%s: %s of %s is %q, want %q", name, header, r.operation(), got, want)
					}
				}
			}
		}
		if visible != 1 {
			t.Errorf("%s: requests were %v", name, f.operations())
		}
		if len(committed) != len(staged) || len(staged) > 0 && (len(staged) != 3 || !slices.IsSorted(decoded(t, committed))) {
			t.Errorf("%s: staged %q, committed %q", name, staged, committed)
		}
	}
}

func decoded(t *testing.T, ids []string) (plain []string) {
	t.Helper()
	for _, id := range ids {
		b, err := base64.StdEncoding.DecodeString(id)
		if err != nil {
			t.Fatal(err)
		}
		plain = append(plain, string(b))
	}
	return plain
}

func TestAFailedBlockFailsThePutAndNothingIsCommitted(t *testing.T) {
	var blocks atomic.Int64
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("comp") == "block" && blocks.Add(1) == 2 {
			refuse(w, http.StatusInternalServerError, "InternalError")
			return
		}
		accepting(w, r)
	})
	_, err := f.open(t, f.options()).Put(t.Context(), "a/key", bytes.NewReader(make([]byte, 4*block)), store.PutOptions{})
	if !errors.Is(err, store.ErrUnreachable) || errors.Is(err, store.ErrUnknownOutcome) || !strings.Contains(err.Error(), "block ") {
		t.Errorf("Put = %v, want it to blame a block", err)
	}
	if ops := f.operations(); slices.Contains(ops, "Put Block List") {
		t.Errorf("requests were %v", ops)
	}
}

func TestMemoryDoesNotDependOnTheSize(t *testing.T) {
	const parallel, total = 2, 40
	const limit = (parallel + 1) * block
	body := &held{r: io.LimitReader(zeros{}, total*block), limit: limit, full: make(chan struct{})}
	arrived := make(chan struct{}) // closed when as many blocks are on their way as may be
	var (
		together     sync.Once
		atOnce, most atomic.Int64
	)
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("comp") == "block" {
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
			body.acknowledged.Add(block)
		}
		accepting(w, r)
	})
	o := f.options()
	o.ParallelBlocks = parallel
	if _, err := f.open(t, o).Put(t.Context(), "a/key", body, store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := body.most.Load(); got > limit {
		t.Errorf("up to %d bytes were read and not acknowledged, want at most %d", got, limit)
	}
	if got := most.Load(); got != parallel {
		t.Errorf("up to %d blocks were sent at once, want %d", got, parallel)
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

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestAWriteWhoseAnswerIsUnknownIsSaidToBe(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			panic(http.ErrAbortHandler) // no answer
		}
		accepting(w, r)
	})
	_, err := f.open(t, f.options()).Put(t.Context(), "a/key", strings.NewReader("x"), store.PutOptions{})
	if !errors.Is(err, store.ErrUnknownOutcome) || !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("Put = %v, want an unknown outcome", err)
	}
}

// What an immutable container says to an overwrite, and what is said to the slower of two who
// stage blocks under one key, both mean that there is a blob.
func TestABlobThatIsThereAlreadyIsSaidToExistWhateverTheServiceCallsIt(t *testing.T) {
	for _, code := range []string{"BlobAlreadyExists", "BlobImmutableDueToPolicy", "BlobImmutableDueToLegalHold", "InvalidBlockList"} {
		f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Query().Get("comp") == "block":
				accepting(w, r)
			case r.Method == http.MethodPut && code == "InvalidBlockList":
				refuse(w, http.StatusBadRequest, code)
			case r.Method == http.MethodPut:
				refuse(w, http.StatusConflict, code)
			case r.Method == http.MethodHead:
				w.Header().Set("x-ms-meta-druidupload", "theirs")
			default:
				fmt.Fprint(w, `<EnumerationResults><Blobs></Blobs><NextMarker/></EnumerationResults>`)
			}
		})
		_, err := f.open(t, f.options()).Put(t.Context(), "a/key", bytes.NewReader(make([]byte, 2*block)), store.PutOptions{})
		if !errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("%s: Put = %v, want %v", code, err, store.ErrExists)
		}
	}
}

func TestTheCurrentVersionIsDeletedByNameAndThenByItsID(t *testing.T) {
	const id = "2026-11-20T10:00:00.0000001Z"
	current := true
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		versioned := r.URL.Query().Has("versionid")
		switch {
		case r.Method == http.MethodHead:
			w.Header().Set("ETag", `"current"`)
			w.Header().Set("x-ms-version-id", id)
			w.Header().Set("x-ms-is-current-version", fmt.Sprint(current))
		case versioned && current:
			refuse(w, http.StatusForbidden, "OperationNotAllowedOnRootBlob")
		case r.Method == http.MethodDelete:
			current = false
			w.WriteHeader(http.StatusAccepted)
		}
	})
	f.versionLevel = true
	if err := f.open(t, f.options()).Delete(t.Context(), store.Version{Key: "a/key", ID: id}); err != nil {
		t.Fatal(err)
	}
	want := []string{"Delete Version", "Get Blob Properties", "Delete Blob", "Delete Version"}
	if got := f.operations(); !slices.Equal(got, want) {
		t.Errorf("requests were %v, want %v", got, want)
	}
	if got := f.sent()[2].header.Get("If-Match"); got != `"current"` {
		t.Errorf("the deletion by name is on condition %q, so another blob could be hidden", got)
	}
}

func TestALockWithoutAPlaceOrInThePastIsRefusedBeforeTheBodyIsRead(t *testing.T) {
	future, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	cases := map[string]struct {
		versionLevel bool
		ask          immutability.Retention
		unsupported  bool
	}{
		"a container without it": {false, immutability.Retention{Mode: immutability.ModeCompliance, Until: future}, true},
		"a hold without it":      {false, immutability.Retention{Hold: true}, true},
		"an unknown mode":        {true, immutability.Retention{Mode: immutability.ModeAdvisory, Until: future}, true},
		"no date":                {true, immutability.Retention{Mode: immutability.ModeCompliance}, false},
		"the past":               {true, immutability.Retention{Mode: immutability.ModeCompliance, Until: past}, false},
	}
	for name, c := range cases {
		f := newFake(t, accepting)
		f.versionLevel = c.versionLevel
		body := strings.NewReader("x")
		_, err := f.open(t, f.options()).Put(t.Context(), "a/key", body, store.PutOptions{Retention: &c.ask})
		if err == nil || errors.Is(err, store.ErrUnsupported) != c.unsupported || body.Len() != 1 || len(f.sent()) > 0 {
			t.Errorf("%s: Put = %v after %v", name, err, f.operations())
		}
	}
}
