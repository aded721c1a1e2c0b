package extender_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"druid.internal/druid/internal/backup/snapshot"
)

// database is the file of an etcd whose last revision is that, with a value that makes it differ from others.
func database(t *testing.T, last snapshot.Revision, value string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: 4096, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	revision := binary.BigEndian.AppendUint64(nil, uint64(last))
	revision = append(append(revision, '_'), make([]byte, 8)...)
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, of := range []struct{ bucket, key, value string }{
			{"key", string(revision), value},
			{"meta", "consistent_index", "12345678"},
		} {
			b, err := tx.CreateBucket([]byte(of.bucket))
			if err == nil {
				err = b.Put([]byte(of.key), []byte(of.value))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return file
}
