package upload

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

const content = "the content of the object"

func TestWhatIsWrittenIsMeasured(t *testing.T) {
	w, err := Put(context.Background(), storetest.NewMemory(storetest.S3Like()), "k", strings.NewReader(content))
	if err != nil || w.Size != int64(len(content)) || w.Digest != sha256.Sum256([]byte(content)) || w.Version.ID == "" {
		t.Errorf("%+v, %v", w, err)
	}
}

func TestWhatAStoreLeavesOpenIsSettledByComparing(t *testing.T) {
	m := func(stored string) *storetest.Memory {
		s := storetest.NewMemory(storetest.S3Like())
		if stored != "" {
			if _, err := s.Put(context.Background(), "k", strings.NewReader(stored), store.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	for name, c := range map[string]struct {
		stored string // beforehand
		fault  storetest.Fault
		want   error
	}{
		"the response is lost":                         {fault: storetest.LoseResponse()},
		"the request is lost":                          {fault: storetest.Fail(store.ErrUnknownOutcome), want: store.ErrUnknownOutcome},
		"the very object exists":                       {stored: content, fault: storetest.Fail(nil).After(1000)},
		"another object of its size exists":            {stored: strings.ToUpper(content), fault: storetest.Fail(nil).After(1000), want: ErrConflict},
		"another object exists":                        {stored: "other", fault: storetest.Fail(nil).After(1000), want: ErrConflict},
		"the store fails":                              {fault: storetest.Fail(store.ErrThrottled), want: store.ErrThrottled},
		"it cannot be looked up whether it was stored": {stored: content, fault: storetest.Fail(store.ErrUnreachable).On(storetest.OpStat, ""), want: store.ErrExists},
	} {
		t.Run(name, func(t *testing.T) {
			if c.fault.Op == "" {
				c.fault = c.fault.On(storetest.OpPut, "")
			}
			faulty := func() store.Store {
				f := storetest.NewFaulty(m(c.stored))
				f.Inject(c.fault)
				return f
			}
			w, err := Put(context.Background(), faulty(), "k", strings.NewReader(content))
			if !errors.Is(err, c.want) || (c.want == nil && (err != nil || w.Size != int64(len(content)))) {
				t.Errorf("%+v, %v; want %v", w, err, c.want)
			}
			whole := strings.NewReader("before " + content + " behind")
			section := io.NewSectionReader(whole, int64(len("before ")), int64(len(content)))
			if err := PutSection(context.Background(), faulty(), "k", section); !errors.Is(err, c.want) || (c.want == nil && err != nil) {
				t.Errorf("of a section: %v, want %v", err, c.want)
			}
		})
	}
}

func TestABodyThatFailsIsNoUpload(t *testing.T) {
	broken := errors.New("the source broke")
	body := io.MultiReader(strings.NewReader(content), failing{broken})
	s := storetest.NewMemory(storetest.S3Like())
	if _, err := Put(context.Background(), s, "k", body); !errors.Is(err, broken) || len(s.Versions("k")) != 0 {
		t.Errorf("%v, %d versions", err, len(s.Versions("k")))
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
