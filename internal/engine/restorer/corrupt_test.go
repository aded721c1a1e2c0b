package restorer

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/enginetest"
)

// The disk of the source broke the database before etcd streamed it: digests and trailer fit.
func TestAnOlderBaseReplacesAFullThatWasCorruptBeforeItWasTaken(t *testing.T) {
	for name, damage := range map[string]func(db []byte){
		"no page is readable": func(db []byte) { clear(db[8192:]) },
		"no meta is valid":    func(db []byte) { clear(db[:8192]) },
	} {
		t.Run(name, func(t *testing.T) {
			m := enginetest.Original(t)
			full, _ := fullAt(t, m, 871)
			db := full[:len(full)-sha256.Size]
			damage(db)
			sum := sha256.Sum256(db)
			newer := enginetest.MustName("Full-00000000-00000871-1795165000.gz")
			enginetest.Put(t, m, enginetest.Key(newer), gzipped(t, append(bytes.Clone(db), sum[:]...)))
			res, err := restore(t, m, nil)
			if err != nil {
				t.Fatal(err)
			}
			if res.Restored.HashKV.Hash != enginetest.WantHash(t) || res.Plan.Base.Name().Last != snapshot.Revision(204) || len(res.Damaged) != 1 {
				t.Errorf("restored %+v from %s, damaged %v", res.Restored.HashKV, res.Plan.Base.Name(), res.Damaged)
			}
		})
	}
}
