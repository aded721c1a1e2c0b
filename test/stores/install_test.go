package stores

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// fake is a source that does what the test says.
type fake struct {
	fetched func(dir string, r *runner) error
}

func (fake) path(dir string) string              { return filepath.Join(dir, "program") }
func (fake) doing() string                       { return "pretending" }
func (f fake) fetch(dir string, r *runner) error { return f.fetched(dir, r) }
func fakePin(f func(string, *runner) error) Pin {
	return Pin{Name: "fake", Version: "v1", from: fake{f}}
}
func leaveProgram(dir string, mode os.FileMode) error {
	return os.WriteFile(fake{}.path(dir), nil, mode)
}

func TestTwoInstallsAtOnceFetchOnce(t *testing.T) {
	t.Setenv("DRUID_TEST_CACHE", t.TempDir())
	var fetches atomic.Int32
	secondWaits := make(chan struct{})
	pin := fakePin(func(dir string, _ *runner) error {
		fetches.Add(1)
		<-secondWaits
		return leaveProgram(dir, 0o755)
	})
	result := make(chan error, 2)
	begun := make(chan struct{})
	go func() { result <- Install(t.Context(), pin, onWrite("pretending", begun)) }()
	<-begun
	go func() { result <- Install(t.Context(), pin, onWrite("waiting", secondWaits)) }()
	for range 2 {
		if err := <-result; err != nil {
			t.Error(err)
		}
	}
	if n := fetches.Load(); n != 1 {
		t.Errorf("fetched %d times, want once", n)
	}
	if err := pin.Installed(); err != nil {
		t.Error(err)
	}
}

func TestWhatIsDownloadedComesWhileOthersAreBuiltAndAFailureEndsBoth(t *testing.T) {
	t.Setenv("DRUID_TEST_CACHE", t.TempDir())
	downloads := make(chan struct{})
	slow := fakePin(func(_ string, r *runner) error {
		close(downloads)
		<-r.ctx.Done()
		return r.ctx.Err()
	})
	never := Pin{Name: "never", Version: "v1", from: fake{func(string, *runner) error {
		t.Error("it was begun after a failure")
		return nil
	}}}
	building := make(chan struct{})
	built := Pin{Name: "built", Version: "v1", from: golang{name: "built", build: "no-such-directory"}}
	result := make(chan error, 1)
	go func() { result <- InstallAll(t.Context(), []Pin{slow, built, never}, onWrite("built v1", building)) }()
	<-downloads
	<-building
	if err := <-result; err == nil || !strings.Contains(err.Error(), "install built v1: ") {
		t.Errorf("error %v, want that of what is built", err)
	}
}

func TestAnInstallThatFailsLeavesNothingThatLooksInstalled(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("DRUID_TEST_CACHE", cache)
	wantErr := errors.New("the line is cut")
	pin := fakePin(func(dir string, _ *runner) error {
		return errors.Join(leaveProgram(dir, 0o755), wantErr)
	})
	if err := Install(t.Context(), pin, io.Discard); !errors.Is(err, wantErr) {
		t.Fatalf("error %v, want %v", err, wantErr)
	}
	if pin.Installed() == nil {
		t.Error("it looks installed")
	}
	left, err := filepath.Glob(filepath.Join(cache, "*building*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestAnInterruptedInstallEndsAtOnceWithWhatItDid(t *testing.T) {
	t.Setenv("DRUID_TEST_CACHE", t.TempDir())
	ctx, interrupt := context.WithCancel(t.Context())
	pin := fakePin(func(_ string, r *runner) error {
		return r.run(func(line string) string {
			interrupt() // the command has begun
			return "lines"
		}, nil, "sh", "-c", "echo downloading the $((40+2)) moons; exec sleep 1000")
	})
	err := Install(ctx, pin, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "downloading the 42 moons") {
		t.Errorf("error %v, want the end of the command's output", err)
	}
	if pin.Installed() == nil {
		t.Error("it looks installed")
	}
}

func TestWhatAFormerVersionLeftIsReplacedWhole(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("DRUID_TEST_CACHE", cache)
	stale := filepath.Join(cache, "fake-v1", "stale")
	if err := os.MkdirAll(stale, 0o755); err != nil {
		t.Fatal(err)
	}
	pin := fakePin(func(dir string, _ *runner) error { return leaveProgram(dir, 0o755) })
	if err := Install(t.Context(), pin, io.Discard); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stale); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", stale, err)
	}
}

func TestEveryPinNamesTheCommandThatInstallsItWhenItIsMissing(t *testing.T) {
	t.Setenv("DRUID_TEST_CACHE", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	for _, pin := range Pins() {
		_, err := Binary(pin.Name)
		if want := "go run ./cmd/stores install " + pin.Name; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want it to contain %q", pin.Name, err, want)
		}
	}
}

// onWrite closes seen when text is written for the first time.
func onWrite(text string, seen chan struct{}) io.Writer {
	return writer(func(b []byte) {
		if strings.Contains(string(b), text) {
			close(seen)
		}
	})
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) { w(b); return len(b), nil }
