// Package memberconf reads the configuration file that all members of a cluster share, and makes
// of it the one with which the etcd of one member is started.
//
// The file is etcd's own, in YAML, except that "initial-advertise-peer-urls" and
// "advertise-client-urls" are maps from members to their URLs. It says who the wanted members
// are; who they are at the moment only the cluster knows, and whether a member begins a cluster
// or joins one is decided elsewhere. The package opens nothing but that file and remembers
// nothing: read it again to see a change.
package memberconf

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// ErrInvalid is wrapped by every error about the content of the file.
var ErrInvalid = errors.New("etcd's configuration is wrong")

// MaxBytes bounds the file.
const MaxBytes = 1 << 20

// Defaults of etcd.
const (
	defaultToken  = "etcd-cluster"
	defaultListen = "http://localhost:"

	defaultElection = time.Second
	maxElection     = 50_000 // milliseconds; etcd refuses more
)

// Peer is a member as it is configured.
type Peer struct {
	Name       string
	PeerURLs   []string // sorted, at least one
	ClientURLs []string // as configured; empty only for members that are not wanted
}

// Template is the file, checked. It is immutable.
type Template struct {
	values   map[string]any // as read, numbers as json.Number
	wanted   []Peer
	gates    []string // feature gates of the file but for those this package decides
	token    string
	dir      string
	quota    int64
	election time.Duration
}

// Load reads the file at path. The error names the file, the key and the remedy; it is ErrInvalid
// if the file could be read.
func Load(path string) (*Template, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("etcd's configuration: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("etcd's configuration: %w", err)
	}
	t, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Parse reads the content of the file.
func Parse(b []byte) (*Template, error) {
	t, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return t, nil
}

func parse(b []byte) (*Template, error) {
	if len(b) > MaxBytes {
		return nil, fmt.Errorf("larger than %d bytes", MaxBytes)
	}
	j, err := yaml.YAMLToJSONStrict(b)
	if err != nil {
		return nil, fmt.Errorf("not YAML: %s", oneLine(err))
	}
	t := &Template{}
	d := json.NewDecoder(bytes.NewReader(j))
	d.UseNumber()
	if err := d.Decode(&t.values); err != nil || t.values == nil {
		return nil, errors.New("not a map from keys of etcd's configuration to values")
	}
	if err := checkKeys(t.values); err != nil {
		return nil, err
	}
	if t.dir, err = t.text("data-dir", ""); err != nil {
		return nil, err
	}
	if t.dir == "" {
		return nil, errors.New(`"data-dir" is missing; name the directory of etcd's data`)
	}
	t.dir = filepath.Clean(t.dir)
	if t.token, err = t.text("initial-cluster-token", defaultToken); err != nil {
		return nil, err
	}
	if t.quota, err = t.number("quota-backend-bytes"); err != nil {
		return nil, err
	}
	election, err := t.number("election-timeout")
	if err != nil {
		return nil, err
	}
	t.election = defaultElection
	if election > 0 {
		t.election = time.Duration(min(election, maxElection)) * time.Millisecond
	}
	if t.gates, err = t.featureGates(); err != nil {
		return nil, err
	}
	if err := t.readMembers(); err != nil {
		return nil, err
	}
	return t, t.checkListen()
}

// Wanted are the members of the cluster as it should be: by ordinal, the number at the end of
// the name, and then by name; those without a number last. There is at least one.
func (t *Template) Wanted() []Peer {
	out := make([]Peer, len(t.wanted))
	for i, p := range t.wanted {
		out[i] = p.clone()
	}
	return out
}

// Peer is one of the wanted members.
func (t *Template) Peer(name string) (Peer, bool) {
	for _, p := range t.wanted {
		if p.Name == name {
			return p.clone(), true
		}
	}
	return Peer{}, false
}

// ServingAs is the file with what clients of a member are served by as it is in another one: a pod has the certificates, and its
// sidecar the endpoints, with which it was made.
func (t *Template) ServingAs(first *Template, member string) *Template {
	out := *t
	out.values, out.wanted = maps.Clone(t.values), slices.Clone(t.wanted)
	for _, key := range serving {
		delete(out.values, key)
		if v, is := first.values[key]; is {
			out.values[key] = v
		}
	}
	own, is := first.Peer(member)
	if i := slices.IndexFunc(out.wanted, func(p Peer) bool { return p.Name == member }); is && i >= 0 {
		out.wanted[i].ClientURLs = own.ClientURLs
	}
	return &out
}

// ServesAs says whether clients are served as another file has it.
func (t *Template) ServesAs(first *Template) bool {
	for _, key := range serving {
		if !reflect.DeepEqual(t.values[key], first.values[key]) {
			return false
		}
	}
	for _, p := range t.wanted {
		if before, is := first.Peer(p.Name); is && !slices.Equal(before.ClientURLs, p.ClientURLs) {
			return false
		}
	}
	return true
}

// DataDir is where etcd keeps its data.
func (t *Template) DataDir() string { return t.dir }

// Token is the initial cluster token.
func (t *Template) Token() string { return t.token }

// QuotaBytes is how large the database may get; 0: etcd's default.
func (t *Template) QuotaBytes() int64 { return t.quota }

// ElectionTimeout is how long a member hears nothing of a leader before it stands for election.
func (t *Template) ElectionTimeout() time.Duration { return t.election }

// Bootstrap tells the wanted cluster from others: a digest of the wanted members, their peer
// URLs and the token, which are what etcd computes the ids of a new cluster from.
func (t *Template) Bootstrap() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", t.token)
	for _, p := range t.wanted {
		fmt.Fprintf(h, "%q %q\n", p.Name, p.PeerURLs)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// SecurePeers says whether the member is reached by the others through TLS.
func (t *Template) SecurePeers(name string) bool {
	p, ok := t.Peer(name)
	return ok && !slices.ContainsFunc(p.PeerURLs, func(u string) bool { return !strings.HasPrefix(u, "https://") })
}

func (p Peer) clone() Peer {
	return Peer{Name: p.Name, PeerURLs: slices.Clone(p.PeerURLs), ClientURLs: slices.Clone(p.ClientURLs)}
}

// Ordinal is the number at the end of a member's name, as in etcd-main-2.
func Ordinal(name string) (int, bool) {
	i := strings.LastIndexByte(name, '-')
	if i < 0 {
		return 0, false
	}
	digits := name[i+1:]
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || strconv.Itoa(n) != digits {
		return 0, false
	}
	return n, true
}

// byOrdinal orders members.
func byOrdinal(a, b Peer) int {
	i, iok := Ordinal(a.Name)
	j, jok := Ordinal(b.Name)
	switch {
	case iok && jok && i != j:
		return i - j
	case iok != jok && iok:
		return -1
	case iok != jok:
		return 1
	}
	return strings.Compare(a.Name, b.Name)
}

// text is a value that is one line of text.
func (t *Template) text(key, fallback string) (string, error) {
	switch v := t.values[key].(type) {
	case nil:
		return fallback, nil
	case string:
		if strings.ContainsAny(v, "\n\r\x00") {
			return "", fmt.Errorf("%q has a line break", key)
		}
		if v == "" {
			return fallback, nil
		}
		return v, nil
	default:
		return "", fmt.Errorf("%q is not a text", key)
	}
}

// number is a value that is a number of something, 0 if it is missing.
func (t *Template) number(key string) (int64, error) {
	v, ok := t.values[key]
	if !ok || v == nil {
		return 0, nil
	}
	n, ok := v.(json.Number)
	if !ok {
		return 0, fmt.Errorf("%q is not a number", key)
	}
	i, err := n.Int64()
	if err != nil || i < 0 {
		return 0, fmt.Errorf("%q is %s; it must be a whole number, 0 or more", key, n)
	}
	return i, nil
}

func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
