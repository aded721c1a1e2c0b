package initialize

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/datadir"
)

// JournalFile is what the journal is called. It lies beside the data directory, on the same
// volume, so that it is lost with the data.
const JournalFile = "druid-bootstrap.json"

// Journal is what has to survive a crash between two steps.
type Journal struct {
	// Cluster is the digest of the wanted cluster that Nonce or Saw are for.
	Cluster string `json:"cluster,omitempty"`
	// Nonce offers to begin that cluster on this volume, which is empty. It is replaced by Saw,
	// which contains it, before etcd may start.
	Nonce string            `json:"nonce,omitempty"`
	Saw   map[string]string `json:"saw,omitempty"`

	// Learner is the id under which the member was added to a cluster. HandedOut: etcd may have run
	// with it since.
	Learner   uint64 `json:"learner,omitempty"`
	HandedOut bool   `json:"handedOut,omitempty"`
	// Outside is the id of that cluster if it was joined as the one outside: data of it came from there.
	Outside uint64 `json:"outside,omitempty"`

	// Restoring: data from before were, or are about to be, replaced from the backup.
	Restoring bool `json:"restoring,omitempty"`
}

// Published is what the others have to know of it.
func (j Journal) Published(digest string) *agentapi.Bootstrap {
	b := &agentapi.Bootstrap{Cluster: digest, Nonce: j.Nonce, Saw: maps.Clone(j.Saw)}
	if j.Cluster != "" {
		b.Cluster = j.Cluster
	}
	return b
}

// maxJournal bounds the file, in bytes.
const maxJournal = 1 << 20

// ParseJournal reads the content of the file.
func ParseJournal(b []byte) (Journal, error) {
	var j Journal
	if len(b) > maxJournal {
		return j, fmt.Errorf("larger than %d bytes", maxJournal)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&j); err != nil {
		return Journal{}, err
	}
	if d.More() {
		return Journal{}, errors.New("more than one value")
	}
	if (j.Nonce != "" || len(j.Saw) > 0) && j.Cluster == "" || j.Nonce != "" && len(j.Saw) > 0 {
		return Journal{}, errors.New("contradicts itself")
	}
	return j, nil
}

// Journals keeps the journal of one member.
type Journals interface {
	// Load is the journal; the zero value if there is none.
	Load() (Journal, error)
	// Save replaces it, durably.
	Save(Journal) error
}

// ErrJournal is wrapped by Load if the file is not a journal.
var ErrJournal = errors.New("the record of the initialization cannot be understood")

// FileJournal is the journal beside the data directory dir.
func FileJournal(dir string) Journals {
	return journalFile(filepath.Join(filepath.Dir(filepath.Clean(dir)), JournalFile))
}

type journalFile string

func (path journalFile) Load() (Journal, error) {
	b, err := os.ReadFile(string(path))
	if errors.Is(err, fs.ErrNotExist) {
		return Journal{}, nil
	}
	if err != nil {
		return Journal{}, err
	}
	j, err := ParseJournal(b)
	if err != nil {
		return Journal{}, fmt.Errorf("%s: %w: %w", path, ErrJournal, err)
	}
	return j, nil
}

func (path journalFile) Save(j Journal) error {
	b, err := json.Marshal(j)
	if err == nil {
		err = datadir.WriteFile(string(path), append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write the record of the initialization: %w", err)
	}
	return nil
}

// newNonce is a number that nobody else has.
func newNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// tokenOf is the initial cluster token of members that saw these nonces: etcd computes the ids of
// the cluster and its members from it.
func tokenOf(token string, saw map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(saw)) {
		fmt.Fprintf(h, "%q %q\n", name, saw[name])
	}
	return token + "-" + hex.EncodeToString(h.Sum(nil)[:8])
}
