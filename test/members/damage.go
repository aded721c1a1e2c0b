package members

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unsafe"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// errNoVolume: the member has a directory.
var errNoVolume = errors.New("the member has no volume of its own: set Options.Volume")

// wipe empties the volume.
func (m *Member) wipe() error {
	entries, err := os.ReadDir(m.VolumeDir())
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.Name() != "lost+found" {
			errs = append(errs, os.RemoveAll(filepath.Join(m.VolumeDir(), e.Name())))
		}
	}
	return errors.Join(errs...)
}

// LoseVolume crashes the member and gives it an empty volume. It stays away until Start.
func (m *Member) LoseVolume() error {
	m.Crash()
	return m.wipe()
}

// LoseData crashes the member and removes the data directory; what lies beside it stays. It stays
// away until Start.
func (m *Member) LoseData() error {
	m.Crash()
	return os.RemoveAll(m.DataDir())
}

// ExchangeData crashes both members and exchanges their data directories, as somebody does who gives
// volumes the wrong way round. They stay away until Start.
func (m *Member) ExchangeData(with *Member) error {
	m.Crash()
	with.Crash()
	aside := m.DataDir() + ".exchanged"
	return errors.Join(os.Rename(m.DataDir(), aside), os.Rename(with.DataDir(), m.DataDir()), os.Rename(aside, with.DataDir()))
}

// TruncateWAL crashes the member and cuts the newest file of the write-ahead log to half of what is
// written in it. It stays away until Start.
func (m *Member) TruncateWAL() error {
	m.Crash()
	files, err := filepath.Glob(filepath.Join(m.DataDir(), "member", "wal", "*.wal"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s has no write-ahead log", m.Name)
	}
	newest := slices.Max(files)
	content, err := os.ReadFile(newest)
	if err != nil {
		return err
	}
	written := len(bytes.TrimRight(content, "\x00")) // the file is made in its full size
	return os.Truncate(newest, int64(written/2))
}

// FlipDB crashes the member and flips one bit of the database where no check can miss it: in the
// header of a page that is in use. It stays away until Start.
func (m *Member) FlipDB() error {
	return m.flip(func(db *bolt.DB) ([]int64, error) {
		page, err := leafPage(db)
		const flags = 8 // after the page's number
		return []int64{int64(page)*int64(db.Info().PageSize) + flags}, err
	})
}

// FlipValue crashes the member and flips one bit in the value of a key: the database stays sound,
// and says something else. It stays away until Start.
func (m *Member) FlipValue(key string) error {
	return m.flip(func(db *bolt.DB) (at []int64, err error) {
		err = db.View(func(tx *bolt.Tx) error {
			return tx.Bucket([]byte("key")).ForEach(func(_, v []byte) error {
				var kv mvccpb.KeyValue
				if err := kv.Unmarshal(v); err != nil || string(kv.Key) != key || len(kv.Value) == 0 {
					return err
				}
				record := int64(uintptr(unsafe.Pointer(unsafe.SliceData(v))) - db.Info().Data) // the file is mapped
				at = append(at, record+int64(bytes.LastIndex(v, kv.Value)))
				return nil
			})
		})
		if err == nil && len(at) == 0 {
			err = fmt.Errorf("the database of %s has no value of key %q", m.Name, key)
		}
		return at, err
	})
}

func (m *Member) database() string { return filepath.Join(m.DataDir(), "member", "snap", "db") }

// flip crashes the member and flips the last bit of the bytes at some places of the database.
func (m *Member) flip(where func(*bolt.DB) ([]int64, error)) error {
	m.Crash()
	db, err := bolt.Open(m.database(), 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true, Timeout: 10 * time.Second})
	if err != nil {
		return fmt.Errorf("flip a bit of the database of %s: %w", m.Name, err)
	}
	places, err := where(db)
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	f, err := os.OpenFile(m.database(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, at := range places {
		if err := flipBit(f, at); err != nil {
			return err
		}
	}
	return f.Sync()
}

// leafPage finds a page of data in the middle of those in use.
func leafPage(db *bolt.DB) (int, error) {
	var leaves []int
	err := db.View(func(tx *bolt.Tx) error {
		for id := 2; ; id++ {
			p, err := tx.Page(id)
			if err != nil || p == nil {
				return err
			}
			if p.Type == "leaf" {
				leaves = append(leaves, id)
			}
			id += p.OverflowCount
		}
	})
	if err == nil && len(leaves) == 0 {
		err = errors.New("the database has no data")
	}
	if err != nil {
		return 0, err
	}
	return leaves[len(leaves)/2], nil
}

func flipBit(f *os.File, at int64) error {
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		return err
	}
	b[0] ^= 1
	_, err := f.WriteAt(b, at)
	return err
}

// FailVolume makes the volume read-only under the running member, as an error of the disk does.
func (m *Member) FailVolume(ctx context.Context) error {
	if m.volume == nil {
		return errNoVolume
	}
	return m.volume.fail(ctx)
}

// MendVolume crashes the member and makes the volume writable again. It stays away until Start.
func (m *Member) MendVolume(ctx context.Context) error {
	if m.volume == nil {
		return errNoVolume
	}
	m.Crash()
	return m.volume.mend(ctx)
}

// FillVolume leaves no room on the volume until the returned function is called.
func (m *Member) FillVolume() (empty func() error, err error) {
	if m.volume == nil {
		return nil, errNoVolume
	}
	return m.volume.fill()
}
