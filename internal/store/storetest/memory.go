package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// Profile says what kind of bucket a Memory is.
type Profile struct {
	Versions        bool // keeps versions and makes markers
	NoMarkers       bool // with Versions: deleting by name makes no marker, it leaves no version the latest
	ConditionalPut  bool // Put refuses an existing key
	ObjectLock      bool // explicit retention, extension and holds
	HoldsOnly       bool // without ObjectLock: holds, as in a bucket of Google's with nothing but a policy
	Tags            bool
	InlineRetention bool // List tells retention
	InlineTags      bool // List tells tags

	// MuteRetention: neither List nor Stat tells locks, as for an identity that may not
	// read them. They are enforced all the same.
	MuteRetention bool

	// Default is stamped on objects that ask for no lock, for Period. Empty: none.
	Default immutability.Mode
	Period  time.Duration

	// Now is the bucket's clock; nil means time.Now.
	Now func() time.Time
	// Missing: the bucket does not exist.
	Missing bool
}

// S3Like is a versioned, object-locked bucket that honours If-None-Match; like S3 it lists
// neither locks nor tags.
func S3Like() Profile {
	return Profile{Versions: true, ConditionalPut: true, ObjectLock: true, Tags: true}
}

// AzureLike is S3Like with locks and tags told by List.
func AzureLike() Profile {
	p := S3Like()
	p.InlineRetention, p.InlineTags = true, true
	return p
}

// CephLike is S3Like without conditional puts: an overwrite makes a further version.
func CephLike() Profile {
	p := S3Like()
	p.ConditionalPut = false
	return p
}

// GCSLike keeps no versions, refuses to overwrite and tells everything in its listing.
func GCSLike() Profile {
	return Profile{ConditionalPut: true, ObjectLock: true, Tags: true, InlineRetention: true, InlineTags: true}
}

// Bare can do nothing but keep the newest bytes under a name.
func Bare() Profile { return Profile{} }

// Memory is an honest object store in memory: one bucket. It does what real ones do and no
// more, so that what is proven with it can be expected of them. Safe for concurrent use.
//
// Everything put is held in memory; the port's promise of bounded memory is not made here.
type Memory struct {
	profile Profile

	mu   sync.Mutex
	keys map[string][]*version // oldest first; never an empty slice
	seq  int                   // numbers versions
	gone map[string]bool       // with NoMarkers: keys of which no version is the latest
}

// version is one version of one key.
type version struct {
	id        string
	body      []byte
	modified  time.Time
	marker    bool
	retention immutability.Retention
	tags      map[string]string
}

var _ interface {
	store.Store
	store.Deleter
	store.Extender
	store.Holder
	store.Tagger
	store.Copier
	store.Inspector
} = (*Memory)(nil)

// NewMemory returns an empty bucket.
func NewMemory(p Profile) *Memory {
	if p.Now == nil {
		p.Now = time.Now
	}
	return &Memory{profile: p, keys: map[string][]*version{}, gone: map[string]bool{}}
}

// Capabilities implements store.Reader.
func (m *Memory) Capabilities() store.Capabilities {
	return store.Capabilities{
		Provider:        "Memory",
		Location:        "memory",
		Versions:        m.profile.Versions,
		Markers:         m.profile.Versions && !m.profile.NoMarkers,
		ConditionalPut:  m.profile.ConditionalPut,
		ObjectLock:      m.profile.ObjectLock,
		Tags:            m.profile.Tags,
		InlineRetention: m.profile.InlineRetention && !m.profile.MuteRetention,
		InlineTags:      m.profile.InlineTags,
		Lengthens:       m.profile.ObjectLock,
		Holds:           m.profile.ObjectLock || m.profile.HoldsOnly,
		Copies:          true,
	}
}

// Put implements store.Store.
func (m *Memory) Put(ctx context.Context, key string, body io.Reader, opts store.PutOptions) (store.Object, error) {
	if err := m.reachable(ctx, "put", key); err != nil {
		return store.Object{}, err
	}
	if key == "" {
		return store.Object{}, errors.New("put: the key is empty")
	}
	if err := m.allowed(opts); err != nil {
		return store.Object{}, fmt.Errorf("put %s: %w", key, err)
	}
	var buf bytes.Buffer
	if _, err := io.Copy(&buf, untilDone{ctx, body}); err != nil {
		return store.Object{}, fmt.Errorf("put %s: %w", key, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.add(key, buf.Bytes(), opts)
}

// allowed says whether a new object may have what opts ask for.
func (m *Memory) allowed(opts store.PutOptions) error {
	if opts.Retention != nil && !m.profile.ObjectLock {
		return fmt.Errorf("lock: %w", store.ErrUnsupported)
	}
	if len(opts.Tags) > 0 && !m.profile.Tags {
		return fmt.Errorf("tags: %w", store.ErrUnsupported)
	}
	if r := opts.Retention; r != nil && locking(r.Mode) && !r.Until.After(m.profile.Now()) {
		return fmt.Errorf("lock until %s, which is past: %w", r.Until.UTC().Format(time.RFC3339), errPast)
	}
	return nil
}

var errPast = errors.New("a lock must end in the future")

// add makes body the newest version of key. The caller holds mu.
func (m *Memory) add(key string, body []byte, opts store.PutOptions) (store.Object, error) {
	if m.profile.ConditionalPut {
		if l := m.latest(key); l != nil && !l.marker {
			return store.Object{}, fmt.Errorf("put %s: %w", key, store.ErrExists)
		}
	}
	now := m.profile.Now()
	if l := m.latest(key); !m.profile.Versions && l != nil && l.protected(now) {
		return store.Object{}, fmt.Errorf("put %s: %w", key, l.refusal(key))
	}
	v := &version{body: body, modified: now, tags: maps.Clone(opts.Tags), retention: immutability.Retention{Mode: immutability.ModeNone}}
	switch {
	case opts.Retention != nil:
		v.retention = *opts.Retention
		if !locking(v.retention.Mode) {
			v.retention.Mode, v.retention.Until = immutability.ModeNone, time.Time{}
		}
	case m.profile.Default != "":
		v.retention = immutability.Retention{Mode: m.profile.Default, Until: now.Add(m.profile.Period)}
	}
	m.push(key, v)
	return m.describe(key, v, true), nil
}

// push makes v the newest version of key, or on a store without versions the only one.
func (m *Memory) push(key string, v *version) {
	if !m.profile.Versions {
		m.keys[key] = []*version{v}
		return
	}
	m.seq++
	delete(m.gone, key)
	v.id = fmt.Sprintf("v%06d", m.seq)
	m.keys[key] = append(m.keys[key], v)
}

// List implements store.Reader. It shows the moment it was called at.
func (m *Memory) List(ctx context.Context, prefix string, fn func(store.Object) error) error {
	if err := m.reachable(ctx, "list", prefix); err != nil {
		return err
	}
	for _, o := range m.snapshot(prefix) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("list %s: %w", prefix, err)
		}
		if err := fn(o); err != nil {
			return err
		}
	}
	return nil
}

func (m *Memory) snapshot(prefix string) []store.Object {
	if prefix = strings.TrimSuffix(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []store.Object
	for _, key := range slices.Sorted(maps.Keys(m.keys)) {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		for _, v := range slices.Backward(m.keys[key]) {
			o := m.describe(key, v, false)
			if !m.profile.InlineRetention {
				o.Retention = nil
			}
			if !m.profile.InlineTags {
				o.Tags = nil
			}
			all = append(all, o)
		}
	}
	return all
}

// Stat implements store.Reader.
func (m *Memory) Stat(ctx context.Context, v store.Version) (store.Object, error) {
	if err := m.reachable(ctx, "stat", v.String()); err != nil {
		return store.Object{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found, err := m.content(v)
	if err != nil {
		return store.Object{}, fmt.Errorf("stat %s: %w", v, err)
	}
	return m.describe(v.Key, found, true), nil
}

// Open implements store.Reader.
func (m *Memory) Open(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
	if err := m.reachable(ctx, "open", v.String()); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found, err := m.content(v)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", v, err)
	}
	size := int64(len(found.body))
	if n < 0 {
		n = size - off
	}
	if off < 0 || n < 0 || off+n > size {
		return nil, fmt.Errorf("open %s: %d bytes from %d of %d: %w", v, n, off, size, io.ErrUnexpectedEOF)
	}
	return io.NopCloser(untilDone{ctx, bytes.NewReader(found.body[off : off+n])}), nil
}

// Delete implements store.Deleter.
func (m *Memory) Delete(ctx context.Context, v store.Version) error {
	if err := m.reachable(ctx, "delete", v.String()); err != nil {
		return err
	}
	if m.profile.Versions && v.ID == "" {
		return fmt.Errorf("delete %s: no version is named, which would only make a marker: %w", v, store.ErrUnsupported)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.find(v)
	if found == nil {
		return nil
	}
	if found.protected(m.profile.Now()) {
		return fmt.Errorf("delete: %w", found.refusal(v.Key))
	}
	m.remove(v.Key, found)
	return nil
}

func (m *Memory) remove(key string, v *version) {
	if m.profile.NoMarkers && m.latest(key) == v {
		m.gone[key] = true // the one before does not take its place
	}
	rest := slices.DeleteFunc(m.keys[key], func(x *version) bool { return x == v })
	if len(rest) == 0 {
		delete(m.keys, key)
		delete(m.gone, key)
		return
	}
	m.keys[key] = rest
}

// reachable fails if ctx is done or the bucket does not exist.
func (m *Memory) reachable(ctx context.Context, verb, what string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s %s: %w", verb, what, err)
	}
	if m.profile.Missing {
		return fmt.Errorf("%s %s: %w", verb, what, store.ErrNoBucket)
	}
	return nil
}

// find returns the version v names, the latest for an empty ID, or nil.
func (m *Memory) find(v store.Version) *version {
	if v.ID == "" {
		return m.latest(v.Key)
	}
	for _, x := range m.keys[v.Key] {
		if x.id == v.ID {
			return x
		}
	}
	return nil
}

func (m *Memory) latest(key string) *version {
	if all := m.keys[key]; len(all) > 0 && !m.gone[key] {
		return all[len(all)-1]
	}
	return nil
}

// content is find for what has content: markers are not found.
func (m *Memory) content(v store.Version) (*version, error) {
	found := m.find(v)
	if found == nil || found.marker {
		return nil, store.ErrNotFound
	}
	return found, nil
}

// describe is what the store tells about v; stat adds the clock.
func (m *Memory) describe(key string, v *version, stat bool) store.Object {
	o := store.Object{
		Version:  store.Version{Key: key, ID: v.id},
		Size:     int64(len(v.body)),
		Modified: v.modified,
		Marker:   v.marker,
		Latest:   m.latest(key) == v,
	}
	if stat {
		o.ServerTime = m.profile.Now()
	}
	if v.marker {
		return o
	}
	if !m.profile.MuteRetention {
		r := v.retention
		o.Retention = &r
	}
	if m.profile.Tags {
		o.Tags = maps.Clone(v.tags)
		if o.Tags == nil {
			o.Tags = map[string]string{}
		}
	}
	return o
}

// untilDone ends a stream when its context does.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}
