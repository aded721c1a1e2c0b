package catalog

import (
	"iter"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/store"
)

// Objects are the versions of a listing as the store told them. There may be a hundred thousand,
// so they are found by the key as text, which is there anyway.
type Objects struct {
	prefix snapshot.Prefix
	list   []store.Object
	at     map[store.Version]int32 // where in list
}

func newObjects(prefix snapshot.Prefix, n int) Objects {
	return Objects{prefix: prefix, list: make([]store.Object, 0, n), at: make(map[store.Version]int32, n)}
}

func (o *Objects) add(object store.Object) {
	o.at[object.Version] = int32(len(o.list))
	o.list = append(o.list, object)
}

// Len is how many there are.
func (o Objects) Len() int { return len(o.list) }

// Find returns one version.
func (o Objects) Find(ref timeline.Ref) (store.Object, bool) {
	i, is := o.at[store.Version{Key: ref.Key.String(), ID: ref.Version}]
	if !is {
		return store.Object{}, false
	}
	return o.list[i], true
}

// All are all versions, in the order of the listing.
func (o Objects) All() iter.Seq2[timeline.Ref, store.Object] {
	return func(yield func(timeline.Ref, store.Object) bool) {
		for _, object := range o.list {
			key, err := snapshot.ParseKey(o.prefix, object.Key)
			if err == nil && !yield(timeline.Ref{Key: key, Version: object.ID}, object) {
				return
			}
		}
	}
}
