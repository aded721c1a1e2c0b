package copier

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/store"
)

// Status of one object, as the state file tells it.
type Status string

// The states of an object.
const (
	None     Status = "None"     // not copied yet, or not any more
	Copied   Status = "Copied"   // it is at the destination, see Proof
	NotFound Status = "NotFound" // it vanished from the source before it could be copied
)

// Entry is what is known of one object.
type Entry struct {
	State         Status          `json:"state"`
	Source        string          `json:"source"` // key
	SourceVersion string          `json:"sourceVersion,omitempty"`
	Version       string          `json:"version,omitempty"` // at the destination
	Size          int64           `json:"size"`
	Modified      time.Time       `json:"modified,omitzero"` // at the destination, by the store's clock; zero: not known
	Digest        snapshot.Digest `json:"digest,omitzero"`   // of the bytes that arrived, where they were seen
	Why           string          `json:"why,omitempty"`
}

// State is the local record of a copy from one place to another. Safe for concurrent use.
type State struct {
	path string

	mu      sync.Mutex
	content stateContent
	changes int // since it was saved
}

type stateContent struct {
	Version int              `json:"version"`
	From    string           `json:"from"`
	To      string           `json:"to"`
	Objects map[string]Entry `json:"objects"` // by key at the destination
}

const (
	stateVersion = 1
	// saveEvery is after how many objects the file is written. What a killed process had not
	// saved yet is found in the destination.
	saveEvery = 64
)

// OpenState reads the record at path; if there is no such file it begins an empty one.
func OpenState(path string) (*State, error) {
	s := &State{path: path, content: stateContent{Version: stateVersion, Objects: map[string]Entry{}}}
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, nil
	case err != nil:
		return nil, fmt.Errorf("copy manifest: %w", err)
	}
	content, err := parseState(b)
	if err != nil {
		return nil, fmt.Errorf("copy manifest %s: %w; remove it to begin a new one, nothing but time is lost", path, err)
	}
	s.content = content
	return s, nil
}

func parseState(b []byte) (stateContent, error) {
	var c stateContent
	if err := json.Unmarshal(b, &c); err != nil {
		return stateContent{}, err
	}
	if c.Version != stateVersion {
		return stateContent{}, fmt.Errorf("version %d, want %d", c.Version, stateVersion)
	}
	for key, e := range c.Objects {
		switch e.State {
		case None, Copied, NotFound:
		default:
			return stateContent{}, fmt.Errorf("%s is in the unknown state %q", key, e.State)
		}
	}
	if c.Objects == nil {
		c.Objects = map[string]Entry{}
	}
	return c, nil
}

// bind makes the record that of a copy from one place to another, or refuses if it is
// another's already.
func (s *State) bind(from, to string) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.content
	if c.From != "" && (c.From != from || c.To != to) {
		return fmt.Errorf("copy manifest %s is about a copy from %s to %s, not from %s to %s; give each copy a file of its own", s.path, c.From, c.To, from, to)
	}
	c.From, c.To = from, to
	return nil
}

// find tells what is recorded about an object at the destination.
func (s *State) find(key string) Entry {
	if s == nil {
		return Entry{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.content.Objects[key]
}

// rounding is how far apart a store's two tellings of one modification time may be: some tell
// fractions of a second in listings only, and some round up.
const rounding = time.Second

// proves reports that exactly this version was seen to be the copy of step, and was not
// overwritten since: where there are no versions only the time tells, to a second.
func (s *State) proves(v store.Object, step *Step) bool {
	e := s.find(v.Key)
	if e.State != Copied || e.Version != v.ID || e.Size != v.Size || e.Digest.IsZero() {
		return false
	}
	if e.Modified.IsZero() || v.Modified.Sub(e.Modified).Abs() > rounding {
		return false
	}
	if step.Digest.IsZero() { // snapshots are written once: the same version is the same content
		return e.Source == step.From && e.SourceVersion == step.Version
	}
	return e.Digest == step.Digest
}

// set records e and saves now and then.
func (s *State) set(key string, e Entry) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.content.Objects[key] = e
	if s.changes++; s.changes < saveEvery {
		return nil
	}
	return s.write()
}

// save writes the file, which appears whole or not at all.
func (s *State) save() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write()
}

func (s *State) write() error {
	b, err := json.MarshalIndent(s.content, "", "  ")
	if err == nil {
		err = replaceFile(s.path, append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("save the copy manifest: %w", err)
	}
	s.changes = 0
	return nil
}

// replaceFile gives path new content atomically and durably.
func replaceFile(path string, content []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
