package azworm

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// containerState is what is known of a container beyond what Azurite keeps.
type containerState struct {
	created      time.Time
	versionLevel bool // version-level immutability, hence versions
	policy       *policy
	holds        []string // tags of the container's legal hold
	blobs        map[string]*blobState
	hidden       bool // holds the previous versions of another one
}

// policy is a container's: of the container itself, or the default of its versions.
type policy struct {
	days    int32
	locked  bool
	etag    string
	history []update
}

// update is one change of a policy.
type update struct {
	kind string // put, lock, extend
	days int32
	at   time.Time
}

func (p *policy) extensions() (n int) {
	for _, u := range p.history {
		if u.kind == "extend" {
			n++
		}
	}
	return n
}

// blobState is one name. Versions are oldest first; current is nil where the blob was deleted
// by its name and previous versions remain.
type blobState struct {
	versions []*version
	current  *version
}

// version is one state of a blob.
type version struct {
	id       string // empty where no versions are kept
	created  time.Time
	etag     string
	size     int64
	metadata http.Header // x-ms-meta-...
	tags     []tag
	until    time.Time // of its own policy
	locked   bool      // that policy
	hold     bool
}

type tag struct {
	Key   string `xml:"Key"`
	Value string `xml:"Value"`
}

func (c *containerState) blob(name string) *blobState {
	if b := c.blobs[name]; b != nil {
		return b
	}
	return &blobState{}
}

// find returns the version of that ID, the current one for none, or nil.
func (b *blobState) find(id string) *version {
	if id == "" {
		return b.current
	}
	i := slices.IndexFunc(b.versions, func(v *version) bool { return v.id == id })
	if i < 0 {
		return nil
	}
	return b.versions[i]
}

// add makes v the current version.
func (c *containerState) add(name string, v *version) {
	b := c.blobs[name]
	if b == nil || !c.versionLevel {
		b = &blobState{}
		c.blobs[name] = b
	}
	b.versions, b.current = append(b.versions, v), v
}

// drop removes a version for good.
func (c *containerState) drop(name string, v *version) {
	b := c.blobs[name]
	b.versions = slices.DeleteFunc(b.versions, func(x *version) bool { return x == v })
	if b.current == v {
		b.current = nil
	}
	if len(b.versions) == 0 {
		delete(c.blobs, name)
	}
}

// until is when the lock of v ends, and whether it can no longer be taken away. With a policy of
// the container that is the creation plus the period of today, for blobs of any age [period].
func (c *containerState) until(v *version) (until time.Time, locked bool) {
	if c.policy != nil && !c.versionLevel {
		return v.created.Add(time.Duration(c.policy.days) * day), c.policy.locked
	}
	return v.until, v.locked
}

// refusal is the code by which deleting or changing v is refused, or "".
func (c *containerState) refusal(v *version, now time.Time) string {
	until, _ := c.until(v)
	switch {
	case len(c.holds) > 0, v.hold: // [hold]
		return "BlobImmutableDueToLegalHold"
	case until.After(now): // [container], [version]
		return "BlobImmutableDueToPolicy"
	}
	return ""
}

// overwriteRefusal is the code by which overwriting v, or changing its metadata, is refused. In a
// container with a policy that is so even after the period [container]; where versions are kept
// an overwrite makes a new one [version].
func (c *containerState) overwriteRefusal(v *version, metadata bool, now time.Time) string {
	switch {
	case len(c.holds) > 0:
		return "BlobImmutableDueToLegalHold"
	case c.policy != nil && !c.versionLevel:
		return "BlobImmutableDueToPolicy"
	case c.versionLevel && metadata:
		return c.refusal(v, now)
	}
	return ""
}

// idAt is a version's ID: the time it was made, in digits of fixed width [versioning]. Two of
// one moment must differ.
func (s *Shim) idAt(now time.Time) string {
	id := now.UTC().Truncate(100 * time.Nanosecond)
	if !id.After(s.lastID) {
		id = s.lastID.Add(100 * time.Nanosecond)
	}
	s.lastID = id
	return id.Format("2006-01-02T15:04:05.0000000Z")
}

// validID tells an ID that exists or existed from one that never could.
func validID(id string) bool {
	_, err := time.Parse("2006-01-02T15:04:05.0000000Z", id)
	return err == nil
}

// store is where Azurite keeps a version: the current one under its own name, others aside.
func (b *blobState) store(container, name string, v *version) (string, string) {
	if v == b.current {
		return container, name
	}
	return aside(container), strings.ReplaceAll(strings.ToLower(v.id), ":", "-") + "/" + name
}

// aside is the container of the previous versions.
func aside(container string) string { return "aside-" + container }

func (c *containerState) String() string {
	return fmt.Sprintf("%d blobs, version-level %v, policy %+v, holds %v", len(c.blobs), c.versionLevel, c.policy, c.holds)
}
