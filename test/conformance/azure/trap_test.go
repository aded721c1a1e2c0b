package azure

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/test/faults"
)

// overLimit is just more than what the SDK and the service do in one request.
const overLimit = 257 << 20

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Why the provider stages and commits blocks itself: the SDK's convenience methods send the
// condition only with what fits into one request.
func TestTheSDKsUploadOfALargeFileOverwritesAlthoughToldNotTo(t *testing.T) {
	bucket := plain().create(t)
	s := open(t, plain().options(bucket))
	genuine := put(t, s, "a/key", "genuine")
	sdk := plain().container(t, bucket).NewBlockBlobClient("a/key")
	upload := func(size int64) error {
		t.Helper()
		f, err := os.Create(filepath.Join(t.TempDir(), "zeros"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.Truncate(size); err != nil { // a file of holes
			t.Fatal(err)
		}
		_, err = sdk.UploadFile(t.Context(), f, &blockblob.UploadFileOptions{
			BlockSize: 64 << 20, Concurrency: 2,
			AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)}},
		})
		return err
	}
	if err := upload(1000); !bloberror.HasCode(err, bloberror.BlobAlreadyExists) {
		t.Errorf("a small file: %v, want a refusal", err)
	}
	other := put(t, s, "b/key", "genuine")
	if _, err := s.Put(t.Context(), other.Key, io.LimitReader(zeros{}, overLimit), store.PutOptions{}); !errors.Is(err, store.ErrExists) {
		t.Errorf("our own Put of as much: %v, want %v", err, store.ErrExists)
	}
	if got := content(t, s, other); string(got) != "genuine" {
		t.Fatalf("the blob holds %d bytes by now", len(got))
	}
	if err := upload(overLimit); err != nil {
		t.Fatalf("the trap is gone (%v): the SDK has learned to refuse, and package azure may say so", err)
	}
	if st, err := s.Stat(t.Context(), genuine); err != nil || st.Size != overLimit {
		t.Errorf("the blob is %+v, %v: it was not overwritten, so nothing is shown", st, err)
	}
	plain().remove(t, bucket)
}

// remove removes a container whose blobs are large; Azurite keeps them in memory.
func (a account) remove(t *testing.T, bucket string) {
	if _, err := a.container(t, bucket).Delete(context.WithoutCancel(t.Context()), nil); err != nil {
		t.Error(err)
	}
}

func TestALargeBlobIsCopiedByTheServiceAndOnlyWhereThereIsNone(t *testing.T) {
	bucket := locking().create(t)
	s, gate := locking().through(t, bucket, nil)
	src, err := s.Put(t.Context(), "a/large", io.LimitReader(rand.NewChaCha8([32]byte{7}), overLimit), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	downloads := 0
	gate.Inject(faults.Fault{Match: func(r *http.Request) bool { // a count, not a fault
		if r.Method == http.MethodGet && r.URL.Query().Get("comp") == "" && strings.Contains(r.UserAgent(), "druid") {
			downloads++
		}
		return false
	}, Lose: true})
	for _, key := range []string{"b/copy", "b/copy"} {
		o, err := s.Copy(t.Context(), s, src.Version, key, store.PutOptions{Tags: map[string]string{"origin": "a"}})
		switch {
		case downloads > 0:
			t.Fatal("the bytes went through us")
		case len(listed(t, s)) == 2 && errors.Is(err, store.ErrExists):
			locking().remove(t, bucket)
			return
		case err != nil || o.Size != overLimit:
			t.Fatalf("Copy = %+v, %v", o, err)
		}
		sameEnds(t, s, src.Version, o.Version)
		downloads = 0
	}
	t.Error("the second copy was not refused")
}

// sameEnds compares a large blob with its copy where one block ends and the next begins.
func sameEnds(t *testing.T, s store.Reader, a, b store.Version) {
	t.Helper()
	const piece = 1 << 20
	for off := int64(0); off < overLimit; off += 32 << 20 {
		from := max(off-piece/2, 0)
		if !bytes.Equal(part(t, s, a, from, piece), part(t, s, b, from, piece)) {
			t.Errorf("the copy differs after byte %d", from)
		}
	}
	if !bytes.Equal(part(t, s, a, overLimit-piece, piece), part(t, s, b, overLimit-piece, piece)) {
		t.Error("the copy differs at its end")
	}
}

func part(t *testing.T, s store.Reader, v store.Version, off, n int64) []byte {
	t.Helper()
	r, err := s.Open(t.Context(), v, off, n)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
