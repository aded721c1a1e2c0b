package wrapper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/datadir"
)

// End is how a life of etcd came to its clean end, as the word that the exit code file keeps for
// the next start. As the cause of a context it says why [Run] shall end.
type End string

// The clean ends, in the words of the signals.
const (
	Terminated End = "terminated" // also when a call asked to stop or to restart
	Interrupt  End = "interrupt"
)

// Inconsistent is no clean end: etcd's check at its start found that the other members hold
// something else. The sidecar compares them then, and gives the data up if a majority agrees.
const Inconsistent End = "inconsistent"

func (e End) Error() string { return string(e) }

// legacyMarker stood beside the exit code file in old versions of the original.
const legacyMarker = "validation_marker"

// exitFile keeps from one start to the next that etcd came to a clean end. It exists only while
// etcd does not run.
type exitFile string

// mode is what the file says. Whatever is not certainly a clean end is none.
func (f exitFile) mode() agentapi.ValidationMode {
	b, err := os.ReadFile(string(f))
	if err != nil {
		return agentapi.ValidateFull
	}
	switch End(strings.TrimSpace(string(b))) {
	case Terminated, Interrupt:
		return agentapi.ValidateSanity
	}
	return agentapi.ValidateFull
}

// remove takes the file away, durably: from now on the end would not be clean.
func (f exitFile) remove() error {
	os.Remove(filepath.Join(filepath.Dir(string(f)), legacyMarker))
	if err := os.Remove(string(f)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("remove the exit code of the last run: %w", err)
	}
	return syncDir(filepath.Dir(string(f)))
}

// write replaces the file at once and durably.
func (f exitFile) write(e End) error {
	if err := datadir.WriteFile(string(f), []byte(e)); err != nil {
		return fmt.Errorf("write the exit code: %w", err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
