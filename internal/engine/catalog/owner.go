package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/store"
)

// OwnerRecord is an owner with the number under which it claimed the prefix.
type OwnerRecord struct {
	snapshot.Owner
	Number int64
	// Err says why the record could not be understood. Such a prefix has an owner all the
	// same, only not a known one.
	Err error
}

// ownerVersion is the version of the record's format; maxOwnerSize bounds what is taken for one.
const (
	ownerVersion = 1
	maxOwnerSize = 16 << 10
)

// ErrBadOwner is wrapped by what an owner record says that is none.
var ErrBadOwner = errors.New("is no owner record")

// ErrClaimed is wrapped by Claim when somebody else was faster.
var ErrClaimed = errors.New("somebody else claimed the prefix at the same moment")

// newestOwner is the record of the highest number, and of its versions the oldest: whoever
// came later could only overwrite.
func (r *reading) newestOwner() *item {
	var newest *item
	for _, it := range r.items { // versions come newest first
		if it.key.Object == snapshot.OwnerObject && !it.Marker && (newest == nil || it.key.Number >= newest.key.Number) {
			newest = it
		}
	}
	return newest
}

func (r *reading) readOwner(ctx context.Context, it *item) error {
	b, err := r.content(ctx, it, maxOwnerSize)
	if err != nil {
		return err
	}
	r.owner = parseOwner(it.key.Number, it.Version, b)
	if r.owner.Err != nil {
		r.badOwner = &timeline.BadOwner{Ref: it.ref(), Err: r.owner.Err}
	}
	return nil
}

func parseOwner(number int64, at store.Version, content []byte) *OwnerRecord {
	rec := &OwnerRecord{Number: number}
	dec := json.NewDecoder(bytes.NewReader(content))
	if err := dec.Decode(&rec.Owner); err != nil {
		rec.Owner = snapshot.Owner{}
		rec.Err = fmt.Errorf("%s %w: %w", at, ErrBadOwner, err)
		return rec
	}
	if rec.Version < ownerVersion || rec.ID == "" {
		rec.Err = fmt.Errorf("%s %w: it names nobody", at, ErrBadOwner)
	}
	return rec
}

func encodeOwner(o snapshot.Owner) []byte {
	o.Version = ownerVersion
	b, err := json.Marshal(o)
	if err != nil {
		panic(err) // a time out of range: the year 10000
	}
	return append(b, '\n')
}

// Claim writes the owner record that follows number after (0 if there is none) below prefix.
// Where two claim at once, exactly one succeeds on stores that refuse to overwrite or keep
// versions; the other gets ErrClaimed and should read the catalog again. On stores that do
// neither, the one that wrote last wins, and the other may not learn of it.
//
// Claiming again what is ours already (a lost response, a restart) succeeds.
func Claim(ctx context.Context, s store.Store, prefix snapshot.Prefix, after int64, o snapshot.Owner) (OwnerRecord, error) {
	key := snapshot.OwnerKey(prefix, after+1).String()
	content := encodeOwner(o)
	_, err := s.Put(ctx, key, bytes.NewReader(content), store.PutOptions{})
	caps := s.Capabilities()
	switch {
	case err == nil && caps.ConditionalPut:
		return OwnerRecord{Owner: o, Number: after + 1}, nil
	case err != nil && !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrUnknownOutcome):
		return OwnerRecord{}, fmt.Errorf("claim the prefix: %w", err)
	}
	// Whoever's record is there now, and the oldest of several, is the owner.
	got, found, err := oldest(ctx, s, prefix, after+1)
	switch {
	case err != nil:
		return OwnerRecord{}, fmt.Errorf("claim the prefix: read the record back: %w", err)
	case !found:
		return OwnerRecord{}, fmt.Errorf("claim the prefix: %w: %s was not written, try again", store.ErrUnknownOutcome, key)
	case got.Err != nil || got.ID != o.ID:
		return OwnerRecord{}, fmt.Errorf("%w: %s names %q", ErrClaimed, key, got.ID)
	}
	return *got, nil
}

// OwnerAt is the record with a number; nil: there is none.
func OwnerAt(ctx context.Context, s store.Reader, prefix snapshot.Prefix, number int64) (*OwnerRecord, error) {
	rec, _, err := oldest(ctx, s, prefix, number)
	return rec, err
}

// maxOwners bounds the records that Owners reads. Each takeover writes one.
const maxOwners = 200

// Owners are the records below a prefix, the newest first, whatever numbers are left out. All are listed once, and each is read when it
// is asked for. An error is the last.
func Owners(ctx context.Context, s store.Reader, prefix snapshot.Prefix) iter.Seq2[*OwnerRecord, error] {
	return func(yield func(*OwnerRecord, error) bool) {
		at, err := owners(ctx, s, prefix)
		if err != nil {
			yield(nil, err)
			return
		}
		read := 0
		for _, number := range slices.Backward(slices.Sorted(maps.Keys(at))) {
			if at[number].Size > 0 {
				read++
			}
			if read > maxOwners {
				yield(nil, fmt.Errorf("%w: more than %d owner records are below %s; delete those that no owner wrote, or move the backups to another prefix", ErrFlooded, maxOwners, place(s, prefix)))
				return
			}
			rec, err := readRecord(ctx, s, number, at[number])
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// oldest reads the oldest version of an owner record.
func oldest(ctx context.Context, s store.Reader, prefix snapshot.Prefix, number int64) (rec *OwnerRecord, found bool, err error) {
	at, err := owners(ctx, s, prefix)
	v, found := at[number]
	if err != nil || !found {
		return nil, false, err
	}
	rec, err = readRecord(ctx, s, number, v)
	return rec, err == nil, err
}

// owners are the oldest versions of the records, by number.
func owners(ctx context.Context, s store.Reader, prefix snapshot.Prefix) (map[int64]store.Object, error) {
	at := map[int64]store.Object{}
	err := s.List(ctx, string(prefix), func(o store.Object) error {
		if key, err := snapshot.ParseKey(prefix, o.Key); err == nil && key.Object == snapshot.OwnerObject && !o.Marker {
			at[key.Number] = o // versions come newest first
			if len(at) > MaxObjects {
				return fmt.Errorf("%w: more than %d owner records are below %s", ErrFlooded, MaxObjects, place(s, prefix))
			}
		}
		return nil
	})
	return at, err
}

func readRecord(ctx context.Context, s store.Reader, number int64, v store.Object) (*OwnerRecord, error) {
	if v.Size == 0 {
		return parseOwner(number, v.Version, nil), nil
	}
	body, err := s.Open(ctx, v.Version, 0, min(v.Size, maxOwnerSize))
	if err != nil {
		return nil, err
	}
	defer body.Close()
	b, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	return parseOwner(number, v.Version, b), nil
}
