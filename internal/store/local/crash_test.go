package local

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// The variables that make this test binary the victim of a crash test.
const (
	crashRoot   = "LOCAL_CRASH_ROOT"
	crashStep   = "LOCAL_CRASH_STEP" // empty: print the steps
	crashMode   = "LOCAL_CRASH_SIDECAR"
	crashDelete = "LOCAL_CRASH_DELETE"
)

func TestMain(m *testing.M) {
	if root := os.Getenv(crashRoot); root != "" {
		victim(root)
		return
	}
	os.Exit(m.Run())
}

var crashUntil = time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)

func crashBody() []byte { return bytes.Repeat([]byte("precious "), 200_000) }

// victim puts one object, or deletes it, and kills itself at a step.
func victim(root string) {
	s, err := New(root, Options{})
	if err != nil {
		panic(err)
	}
	s.noAttributes = os.Getenv(crashMode) != ""
	s.at = func(step string) error {
		if os.Getenv(crashStep) == "" {
			os.Stdout.WriteString(step + "\n")
		} else if step == os.Getenv(crashStep) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}
	ctx := context.Background()
	if os.Getenv(crashDelete) != "" {
		err = s.Delete(ctx, store.Version{Key: "ns/etcd-main/v2/Full"})
	} else {
		_, err = s.Put(ctx, "ns/etcd-main/v2/Full", bytes.NewReader(crashBody()), store.PutOptions{
			Retention: &immutability.Retention{Mode: immutability.ModeCompliance, Until: crashUntil},
			Tags:      map[string]string{"k": "v"},
		})
	}
	if err != nil {
		panic(err)
	}
}

// kill runs the victim until the step, and returns what it printed.
func kill(t *testing.T, env ...string) []byte {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL) {
		t.Fatalf("the victim with %v did not die by SIGKILL but by %v: %s", env, err, stderr.String())
	}
	return out
}

// stepsOf are the different steps of a victim's life, in order.
func stepsOf(t *testing.T, env ...string) []string {
	t.Helper()
	var steps []string
	seen := map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(kill(t, env...)))
	for lines.Scan() {
		if !seen[lines.Text()] {
			steps = append(steps, lines.Text())
			seen[lines.Text()] = true
		}
	}
	return steps
}

// The original wrote under the final name, and a crash left a
// truncated file there that passed for a backup.
func TestACrashDuringAPutLeavesNothingOrTheWholeObject(t *testing.T) {
	for mode, sidecar := range map[string]string{"attribute": "", "sidecar": "1"} {
		steps := stepsOf(t, crashRoot+"="+t.TempDir(), crashMode+"="+sidecar)
		if len(steps) < 9 {
			t.Fatalf("only the steps %q are known", steps)
		}
		for _, step := range steps {
			t.Run(mode+"/"+step, func(t *testing.T) {
				root := t.TempDir()
				kill(t, crashRoot+"="+root, crashStep+"="+step, crashMode+"="+sidecar)
				wantAfterCrash(t, root, sidecar != "", step == "fsync directory")
			})
		}
	}
}

func wantAfterCrash(t *testing.T, root string, sidecar, published bool) {
	ctx := t.Context()
	s := newStore(t, root)
	s.noAttributes = sidecar
	v := store.Version{Key: "ns/etcd-main/v2/Full"}
	_, err := s.Stat(ctx, v)
	visible := err == nil
	if visible != published {
		t.Errorf("Stat = %v, want the object to be there: %v", err, published)
	}
	count := 0
	err = s.List(ctx, "ns/etcd-main", func(o store.Object) error {
		count++
		if o.Version != v || o.Retention.Mode != immutability.ModeAdvisory || !o.Retention.Until.Equal(crashUntil) || o.Tags["k"] != "v" {
			t.Errorf("List shows %+v with %+v", o, o.Retention)
		}
		return nil
	})
	if (err != nil && !errors.Is(err, store.ErrNoBucket)) || (count == 1) != published {
		t.Errorf("List shows %d objects, %v", count, err)
	}

	// A later run, long afterwards, can write what is missing and leaves no litter.
	s.now = func() time.Time { return time.Now().Add(2 * staleAfter) }
	_, err = s.Put(ctx, v.Key, bytes.NewReader(crashBody()), store.PutOptions{})
	switch {
	case published && !errors.Is(err, store.ErrExists):
		t.Errorf("the second Put = %v, want %v", err, store.ErrExists)
	case !published && err != nil:
		t.Errorf("the second Put = %v", err)
	}
	if got := readFile(t, s, v); !bytes.Equal(got, crashBody()) {
		t.Errorf("%d bytes are read, want %d", len(got), len(crashBody()))
	}
	if left := temps(t, root); len(left) != 0 {
		t.Errorf("%q were not swept", left)
	}
	if o, err := s.Stat(ctx, v); err != nil || !published && o.Retention.Mode != immutability.ModeNone {
		t.Errorf("the new object inherited the dead one's lock: %+v, %v", o.Retention, err)
	}
}

func TestACrashDuringADeleteLeavesTheObjectOrNothing(t *testing.T) {
	for _, sidecar := range []string{"", "1"} {
		prepare := func() string {
			root := t.TempDir()
			s := newStore(t, root)
			s.noAttributes = sidecar != ""
			if _, err := s.Put(t.Context(), "ns/etcd-main/v2/Full", bytes.NewReader(crashBody()), store.PutOptions{Tags: map[string]string{"k": "v"}}); err != nil {
				t.Fatal(err)
			}
			return root
		}
		env := []string{crashMode + "=" + sidecar, crashDelete + "=1"}
		for _, step := range stepsOf(t, append(env, crashRoot+"="+prepare())...) {
			root := prepare()
			kill(t, append(env, crashRoot+"="+root, crashStep+"="+step)...)
			s := newStore(t, root)
			s.noAttributes = sidecar != ""
			v := store.Version{Key: "ns/etcd-main/v2/Full"}
			if _, err := s.Stat(t.Context(), v); err == nil {
				if !bytes.Equal(readFile(t, s, v), crashBody()) {
					t.Errorf("killed at %q: the object is there but not whole", step)
				}
			} else if !errors.Is(err, store.ErrNotFound) {
				t.Errorf("killed at %q: Stat = %v", step, err)
			}
			if err := s.Delete(t.Context(), v); err != nil {
				t.Errorf("killed at %q: Delete = %v", step, err)
			}
			o, err := s.Put(t.Context(), v.Key, strings.NewReader("new"), store.PutOptions{})
			if err != nil {
				t.Fatalf("killed at %q: Put = %v", step, err)
			}
			if st, err := s.Stat(t.Context(), o.Version); err != nil || len(st.Tags) != 0 {
				t.Errorf("killed at %q: the new object has the old one's tags: %v, %v", step, st.Tags, err)
			}
		}
	}
}

func readFile(t *testing.T, s *Store, v store.Version) []byte {
	t.Helper()
	r, err := s.Open(t.Context(), v, 0, -1)
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
