package e2e

import (
	"slices"
	"testing"

	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

// onEveryStore runs a test on each kind of store, those without the names that are left out.
func onEveryStore(t *testing.T, test func(t *testing.T, s sites.Site), without ...string) {
	on(t, slices.DeleteFunc(sites.Names(), func(name string) bool { return slices.Contains(without, name) }), test)
}

// onEveryOtherStore is onEveryStore for what is not about protection and takes long: half of the stores by chance, all with -soak.
func onEveryOtherStore(t *testing.T, test func(t *testing.T, s sites.Site), without ...string) {
	on(t, everyOther(t, slices.DeleteFunc(sites.Names(), func(name string) bool { return slices.Contains(without, name) })), test)
}

func on(t *testing.T, names []string, test func(t *testing.T, s sites.Site)) {
	t.Parallel()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, fleet.Get(t, name))
		})
	}
}

// locked is the kind of bucket of a site that protects best; ok: it locks at all.
func locked(s sites.Site) (k sites.Kind, ok bool) {
	for _, k = range s.Kinds() {
		if k.Locks {
			ok = true
		}
	}
	return k, ok
}

// useBucket keeps the backup in a new bucket, reached as somebody.
func (w *world) useBucket(s sites.Site, k sites.Kind, who sites.Who) (bucket string) {
	w.t.Helper()
	bucket = fleet.Bucket(w.t, s, k)
	w.place = inSite(w.t, s, "", bucket, who)
	return bucket
}

// reachable is a site as gates want it.
type reachable struct{ sites.Site }

func (r reachable) Reach() (string, *stores.CA) { return r.Site.Reach() }

// gateTo opens a gate to a site.
func gateTo(t *testing.T, s sites.Site) *faults.Gate {
	t.Helper()
	return faults.NewGate(t, reachable{s})
}

// hands are somebody's hands on a bucket, for tests: what must work and does not fails them.
type hands struct {
	t   *testing.T
	raw stores.Raw
}

func handsOn(t *testing.T, s sites.Site, bucket string, who sites.Who) hands {
	t.Helper()
	raw, err := s.Raw(t.Context(), bucket, who)
	if err != nil {
		t.Fatal(err)
	}
	return hands{t, raw}
}

func (h hands) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h hands) put(key string, content []byte) {
	h.t.Helper()
	h.must(h.raw.Overwrite(h.t.Context(), key, content))
}

func (h hands) hide(key string) {
	h.t.Helper()
	h.must(h.raw.Hide(h.t.Context(), key))
}

// get reads what is the current version of a key.
func (h hands) get(key string) []byte {
	h.t.Helper()
	b, err := h.raw.Read(h.t.Context(), stores.RawVersion{Key: key})
	h.must(err)
	return b
}

// versions are all versions and markers of a key, of all keys if it is empty.
func (h hands) versions(key string) (found []stores.RawVersion) {
	h.t.Helper()
	all, err := h.raw.Versions(h.t.Context())
	h.must(err)
	for _, v := range all {
		if key == "" || v.Key == key {
			found = append(found, v)
		}
	}
	return found
}

// keys are those of which there is a version.
func (h hands) keys() (keys []string) {
	h.t.Helper()
	for _, v := range h.versions("") {
		if !v.Marker && (len(keys) == 0 || keys[len(keys)-1] != v.Key) {
			keys = append(keys, v.Key)
		}
	}
	return keys
}

// destroy deletes all versions that are there, markers too if told so.
func (h hands) destroy(key string, markers bool) {
	h.t.Helper()
	for _, v := range h.versions(key) {
		if markers || !v.Marker {
			h.must(h.raw.Delete(h.t.Context(), v))
		}
	}
}

// replace leaves nothing but the new content.
func (h hands) replace(key string, content []byte) {
	h.t.Helper()
	h.destroy(key, true)
	h.put(key, content)
}
