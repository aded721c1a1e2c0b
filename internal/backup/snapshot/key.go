package snapshot

import (
	"fmt"
	"path"
	"strings"
)

// Layout is the generation of the bucket layout a key belongs to.
type Layout string

// The layouts of the original. V1 is read and collected, never written.
const (
	V1 Layout = "v1" // PREFIX/v1/Backup-SECONDS/NAME
	V2 Layout = "v2" // PREFIX/v2/NAME
)

const (
	manifestMark  = "Manifest-"
	ownerMark     = "Owner-"
	exclusionMark = "Exclusion-"
	v1DirMark     = "Backup-"
)

// ObjectKind says what a key addresses.
type ObjectKind int

// The kinds of objects under a store prefix.
const (
	SnapshotObject  ObjectKind = iota + 1 // a full or a delta
	ChunkObject                           // a part of one, left by the original on GCS and Swift: NAME/0000000001
	ManifestObject                        // what became known after the upload: Manifest-NAME
	OwnerObject                           // who may write: Owner-00000001
	ExclusionObject                       // whether restores leave a snapshot out, where a store has no tags: Exclusion-00000001-NAME
)

// Key is a parsed object key. Format is its inverse.
type Key struct {
	Prefix Prefix
	Layout Layout
	Dir    string // "Backup-SECONDS" in layout v1, empty in v2
	Object ObjectKind
	Name   Name   // of the snapshot, or of the snapshot that a chunk, manifest or exclusion record belongs to
	Chunk  string // the last element of a chunk's key
	Number int64  // of an owner record or an exclusion record, from 1
}

// SnapshotKey is the key under which the snapshot n is written below prefix.
func SnapshotKey(prefix Prefix, n Name) Key {
	return Key{Prefix: prefix, Layout: V2, Object: SnapshotObject, Name: n}
}

// Manifest is the key of the manifest that describes the snapshot k.
func (k Key) Manifest() Key {
	k.Object, k.Chunk = ManifestObject, ""
	return k
}

// Exclusion is the key of the n-th record of whether restores leave the snapshot k out.
func (k Key) Exclusion(n int64) Key {
	k.Object, k.Chunk, k.Number = ExclusionObject, "", n
	return k
}

// Snapshot is the key of the snapshot that the manifest, chunk or exclusion record k belongs to.
func (k Key) Snapshot() Key {
	k.Object, k.Chunk, k.Number = SnapshotObject, "", 0
	return k
}

// OwnerKey is the key of the n-th owner record below prefix.
func OwnerKey(prefix Prefix, n int64) Key {
	return Key{Prefix: prefix, Layout: V2, Object: OwnerObject, Number: n}
}

// String formats the key. Names of manifests and of records have no four elements between
// dashes, so the original ignores them.
func (k Key) String() string {
	base := k.Name.String()
	switch k.Object {
	case ManifestObject:
		base = manifestMark + base
	case ChunkObject:
		base += "/" + k.Chunk
	case OwnerObject:
		base = fmt.Sprintf("%s%08d", ownerMark, k.Number)
	case ExclusionObject:
		base = fmt.Sprintf("%s%08d-%s", exclusionMark, k.Number, base)
	}
	return path.Join(string(k.Prefix), string(k.Layout), k.Dir, base)
}

// probeDir is where `store probe` writes.
const probeDir = "druid-probe"

// ProbeKey is a key for a probe of the store below prefix, which ParseKey takes for none of the
// layout. The token makes it unique.
func ProbeKey(prefix Prefix, token string) string {
	return path.Join(string(prefix), probeDir, token)
}

// IsProbe reports whether key is one that ProbeKey makes for prefix.
func IsProbe(prefix Prefix, key string) bool {
	dir, token := path.Split(key)
	return token != "" && path.Clean(dir) == path.Join(string(prefix), probeDir)
}

// IsDirectory reports whether key is a directory of the layout below prefix, which holds snapshots.
func IsDirectory(prefix Prefix, key string) bool {
	rest := key
	if prefix != "" {
		var below bool
		if rest, below = strings.CutPrefix(key, string(prefix)+"/"); !below {
			return false
		}
	}
	layout, dir, deeper := strings.Cut(rest, "/")
	return rest == string(V2) || rest == string(V1) || layout == string(V1) && deeper && strings.HasPrefix(dir, v1DirMark) && !strings.Contains(dir, "/")
}

// ParseKey reads a key found while listing the store prefix. Anything that Format could not
// have produced for that very prefix is ErrNotSnapshot: it belongs to somebody else, for
// example to a cluster whose prefix begins with ours.
func ParseKey(prefix Prefix, key string) (Key, error) {
	bad := func(why string) (Key, error) {
		return Key{}, fmt.Errorf("%w: %q: %s", ErrNotSnapshot, key, why)
	}
	rest := key
	if prefix != "" {
		var below bool
		if rest, below = strings.CutPrefix(key, string(prefix)+"/"); !below {
			return bad("outside of the prefix " + string(prefix))
		}
	}
	parts := strings.Split(rest, "/")
	k := Key{Prefix: prefix, Layout: Layout(parts[0]), Object: SnapshotObject}
	parts = parts[1:]
	switch k.Layout {
	case V1:
		if len(parts) < 2 || !strings.HasPrefix(parts[0], v1DirMark) {
			return bad("want v1/Backup-SECONDS/NAME")
		}
		k.Dir, parts = parts[0], parts[1:]
	case V2:
	default:
		return bad("layout is neither v1 nor v2")
	}
	if len(parts) == 0 || len(parts) > 2 {
		return bad("wrong number of elements")
	}
	base := parts[0]
	if digits, is := strings.CutPrefix(base, ownerMark); is && len(parts) == 1 {
		n, err := parseNumber(digits)
		if err != nil || n < 1 || k.Layout != V2 {
			return bad("owner record without a number from 1, or not in layout v2")
		}
		k.Object, k.Number = OwnerObject, n
		return canonical(k, key)
	}
	if rest, is := strings.CutPrefix(base, exclusionMark); is && len(parts) == 1 {
		digits, name, _ := strings.Cut(rest, "-")
		n, err := parseNumber(digits)
		if err != nil || n < 1 {
			return bad("exclusion record without a number from 1")
		}
		k.Object, k.Number, base = ExclusionObject, n, name
	}
	if rest, is := strings.CutPrefix(base, manifestMark); is && len(parts) == 1 {
		k.Object, base = ManifestObject, rest
	}
	n, err := ParseName(base)
	if err != nil {
		return Key{}, err
	}
	k.Name = n
	if len(parts) == 2 {
		if parts[1] == "" {
			return bad("a folder")
		}
		k.Object, k.Chunk = ChunkObject, parts[1]
	}
	return canonical(k, key)
}

func canonical(k Key, key string) (Key, error) {
	if k.String() != key {
		return Key{}, fmt.Errorf("%w: %q: not in canonical form", ErrNotSnapshot, key)
	}
	return k, nil
}
