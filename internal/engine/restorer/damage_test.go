package restorer

import (
	"druid.internal/druid/internal/engine/enginetest"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// buckets are the forms in which the same history is stored.
var buckets = map[string]func(*testing.T) *storetest.Memory{"of the original": enginetest.Original, "native": enginetest.Native}

func only(t *testing.T, m *storetest.Memory, part string) store.Version {
	t.Helper()
	var found []store.Object
	if err := m.List(t.Context(), "", func(o store.Object) error {
		if strings.Contains(o.Key, part) && !strings.Contains(o.Key, "Manifest-") {
			found = append(found, o)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 {
		t.Fatalf("%d objects contain %q", len(found), part)
	}
	return found[0].Version
}

func size(t *testing.T, m *storetest.Memory, v store.Version) int {
	t.Helper()
	o, err := m.Stat(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	return int(o.Size)
}

func content(t *testing.T, m *storetest.Memory, v store.Version) []byte {
	t.Helper()
	r, err := m.Open(t.Context(), v, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAnUndamagedBucketRestoresToTheHashOfTheSource(t *testing.T) {
	for name, bucket := range buckets {
		t.Run(name, func(t *testing.T) {
			res, err := restore(t, bucket(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := res.Restored.HashKV; got.Hash != enginetest.WantHash(t) || got.Revision != 871 || len(res.Damaged) > 0 {
				t.Errorf("got %+v, damaged %v", got, res.Damaged)
			}
		})
	}
}

// TestNoDamageGivesAWrongRestore breaks one thing at a time. Whatever it is, a restore either
// ends with the hash of the source or with an error, and then there is no data directory.
func TestNoDamageGivesAWrongRestore(t *testing.T) {
	type attack struct {
		do      func(t *testing.T, m *storetest.Memory)
		survive bool // the restore must succeed all the same
	}
	attacks := map[string]attack{
		"a delta is truncated": {do: func(t *testing.T, m *storetest.Memory) {
			v := only(t, m, "Incr-00000205")
			m.Truncate(v, size(t, m, v)/2)
		}},
		"a full is truncated": {do: func(t *testing.T, m *storetest.Memory) {
			v := only(t, m, "Full-")
			m.Truncate(v, size(t, m, v)-1)
		}},
		"a delta is empty":    {do: func(t *testing.T, m *storetest.Memory) { m.Truncate(only(t, m, "Incr-00000857"), 0) }},
		"a full is empty":     {do: func(t *testing.T, m *storetest.Memory) { m.Truncate(only(t, m, "Full-"), 0) }},
		"a delta is missing":  {do: func(t *testing.T, m *storetest.Memory) { m.Lose(only(t, m, "Incr-00000205")) }},
		"the full is missing": {do: func(t *testing.T, m *storetest.Memory) { m.Lose(only(t, m, "Full-")) }},
		"two deltas are swapped": {do: func(t *testing.T, m *storetest.Memory) {
			a, b := only(t, m, "Incr-00000205"), only(t, m, "Incr-00000857")
			ca, cb := content(t, m, a), content(t, m, b)
			m.Replace(a, cb)
			m.Replace(b, ca)
		}},
		"a delta has the name of a longer one": {do: func(t *testing.T, m *storetest.Memory) {
			v := only(t, m, "Incr-00000857")
			m.Rename(v.Key, strings.Replace(v.Key, "-00000871-", "-00000999-", 1))
		}},
		"a delta has the name of an earlier start": {do: func(t *testing.T, m *storetest.Memory) {
			v := only(t, m, "Incr-00000857")
			m.Rename(v.Key, strings.Replace(v.Key, "-00000857-", "-00000800-", 1))
		}},
		"a full carries the content of a delta": {do: func(t *testing.T, m *storetest.Memory) {
			m.Replace(only(t, m, "Full-"), content(t, m, only(t, m, "Incr-00000205")))
		}},
		"a foreign object lies among them": {survive: true, do: func(t *testing.T, m *storetest.Memory) {
			enginetest.Put(t, m, enginetest.Prefix+"/v2/notes.txt", []byte("hello"))
			enginetest.Put(t, m, enginetest.Prefix+"/v2/Incr-00000872-00000871-1795164999.gz", []byte("impossible range"))
		}},
		"another cluster's enginetest.Prefix begins with ours": {survive: true, do: func(t *testing.T, m *storetest.Memory) {
			enginetest.Put(t, m, enginetest.Prefix+"-2/v2/Full-00000000-00009999-1795164999.gz", []byte("not ours"))
		}},
		"every object is hidden by a delete marker": {survive: true, do: func(t *testing.T, m *storetest.Memory) {
			for _, part := range []string{"Full-", "Incr-00000205", "Incr-00000857"} {
				if _, err := m.Hide(only(t, m, part).Key); err != nil {
					t.Fatal(err)
				}
			}
		}},
		"every object is overwritten by a forgery": {survive: true, do: func(t *testing.T, m *storetest.Memory) {
			for _, part := range []string{"Full-", "Incr-00000205", "Incr-00000857"} {
				m.Overwrite(only(t, m, part).Key, []byte("forged"))
			}
		}},
		"deltas are overwritten by another valid delta": {survive: true, do: func(t *testing.T, m *storetest.Memory) {
			m.Overwrite(only(t, m, "Incr-00000857").Key, content(t, m, only(t, m, "Incr-00000205")))
		}},
	}
	for form, bucket := range buckets {
		for name, a := range attacks {
			t.Run(form+": "+name, func(t *testing.T) {
				m := bucket(t)
				a.do(t, m)
				var dir string
				res, err := restore(t, m, func(q *Request) { dir = q.Dir })
				checkOutcome(t, dir, res, err)
				if a.survive && err != nil {
					t.Errorf("it could have been restored: %v", err)
				}
				if !a.survive && err == nil {
					t.Error("nothing was noticed")
				}
			})
		}
	}
}

// checkOutcome accepts the right hash, or an error that leaves no directory.
func checkOutcome(t *testing.T, dir string, res *Result, err error) {
	t.Helper()
	if err == nil {
		if res.Restored.HashKV.Hash != enginetest.WantHash(t) || res.Restored.Revision != 871 {
			t.Errorf("a wrong restore: %+v", res.Restored.HashKV)
		}
		return
	}
	if _, serr := os.Stat(dir); dir != "" && !errors.Is(serr, os.ErrNotExist) {
		t.Errorf("the restore failed (%v) and left a directory", err)
	}
}

// TestNoFlippedBitGivesAWrongRestore inverts single bits all over every object.
func TestNoFlippedBitGivesAWrongRestore(t *testing.T) {
	const flips = 40 // per object; the soak runs more seeds
	for form, bucket := range buckets {
		for _, part := range []string{"Full-", "Incr-00000205", "Incr-00000857"} {
			t.Run(form+": "+part, func(t *testing.T) {
				m := bucket(t)
				v := only(t, m, part)
				n := size(t, m, v)
				noticed := 0
				for i := range flips {
					off := i * (n - 1) / (flips - 1)
					m.Flip(v, off)
					var dir string
					res, err := restore(t, m, func(q *Request) { dir = q.Dir })
					checkOutcome(t, dir, res, err)
					if err != nil {
						noticed++
					}
					m.Flip(v, off) // back
				}
				if noticed < flips/2 {
					t.Errorf("only %d of %d flipped bits were noticed", noticed, flips)
				}
			})
		}
	}
}

func TestAnOlderBaseReplacesADamagedNewerOne(t *testing.T) {
	m := enginetest.Native(t)
	// A newer full that ends where the deltas end, and is garbage.
	newer := enginetest.MustName("Full-00000000-00000871-1795165000.gz")
	enginetest.Put(t, m, enginetest.Key(newer), []byte("garbage"))
	manifest := snapshot.Manifest{Version: 1, Snapshot: newer.String(), Lineage: enginetest.History, Digest: snapshot.Digest{1}, Size: 7, LastRevision: 871, Latest: newer.CreatedAt()}
	enginetest.Put(t, m, snapshot.SnapshotKey(enginetest.Prefix, newer).Manifest().String(), manifest.Encode())
	var reasons []string
	res, err := restore(t, m, func(q *Request) {
		q.Replanned = func(reason string, next Plan) { reasons = append(reasons, reason) }
	})
	if err != nil {
		t.Fatal(err)
	}
	if res.Restored.HashKV.Hash != enginetest.WantHash(t) || res.Plan.Base.Name() != enginetest.Full204 {
		t.Errorf("restored %+v from %s", res.Restored.HashKV, res.Plan.Base.Name())
	}
	if len(reasons) != 1 || !strings.Contains(reasons[0], newer.String()) || len(res.Damaged) != 1 {
		t.Errorf("nobody was told: %v, %v", reasons, res.Damaged)
	}
}

func TestAGapNamesTheMissingRevisions(t *testing.T) {
	m := enginetest.Native(t)
	m.Lose(only(t, m, "Incr-00000205"))
	_, err := restore(t, m, nil)
	var loss *restoreplan.LossError
	if !errors.As(err, &loss) {
		t.Fatalf("got %v, want a LossError", err)
	}
	if loss.Missing == nil || loss.Missing.From != 205 || loss.Missing.To != 856 || loss.Newest != 871 {
		t.Errorf("got %+v (%+v)", loss, loss.Missing)
	}
	res, err := restore(t, m, func(q *Request) { q.From.AcceptLossTo = 204 })
	if err != nil || res.Restored.Revision != 204 {
		t.Errorf("with the loss accepted: %+v, %v", res, err)
	}
}

func TestAnOutageIsNeverReadAsAnEmptyBucket(t *testing.T) {
	for _, op := range []storetest.Op{storetest.OpList, storetest.OpOpen} {
		t.Run(string(op), func(t *testing.T) {
			f := storetest.NewFaulty(enginetest.Native(t))
			f.Inject(storetest.Fail(store.ErrUnreachable).On(op, "").Always())
			var dir string
			_, err := restore(t, f, func(q *Request) { dir = q.Dir })
			if !errors.Is(err, store.ErrUnreachable) {
				t.Errorf("got %v, want that the store cannot be reached", err)
			}
			checkOutcome(t, dir, nil, err)
		})
	}
}

func TestAStreamThatBreaksCondemnsNoObject(t *testing.T) {
	f := storetest.NewFaulty(enginetest.Native(t))
	f.Inject(storetest.Cut(100).On(storetest.OpOpen, "Full-").After(1).Always())
	_, err := restore(t, f, nil)
	var bad *replay.ObjectError
	if err == nil || errors.As(err, &bad) {
		t.Errorf("got %v, want an error that blames the connection", err)
	}
}

func TestAFullDiskLeavesTheOldStateIntact(t *testing.T) {
	// The directory that is to be replaced is on a disk without room: a file stands where the
	// scratch directory should be.
	m := enginetest.Native(t)
	var dir string
	res, err := restore(t, m, func(q *Request) {
		dir = q.Dir
		q.ScratchDir = "/dev/null/nowhere"
	})
	if err == nil {
		t.Fatal("nothing was noticed", res)
	}
	checkOutcome(t, dir, res, err)
}

func TestTargetsStopWhereTheyShould(t *testing.T) {
	for name, c := range map[string]struct {
		target restoreplan.Target
		want   snapshot.Revision
		accept snapshot.Revision
	}{
		"a revision inside a delta":    {restoreplan.AtRevision(500), 500, 0},
		"the last revision of a delta": {restoreplan.AtRevision(856), 856, 0},
		"the revision of the full":     {restoreplan.AtRevision(204), 204, 0},
		"a snapshot":                   {restoreplan.Snapshot(enginetest.Delta856), 856, 0},
		"a time after everything":      {restoreplan.AtTime(time.Unix(1895164965, 0)), 871, 871},
		"a time nobody will see":       {restoreplan.AtTime(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)), 871, 1},
		"a time between two deltas":    {restoreplan.AtTime(enginetest.Delta856.CreatedAt().Add(2 * time.Second)), 856, 0},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := restore(t, enginetest.Native(t), func(q *Request) { q.From.Target, q.From.AcceptLossTo = c.target, c.accept })
			if err != nil {
				t.Fatal(err)
			}
			if res.Restored.Reached != c.want || res.Lineage.Fork != c.want || res.Lineage.Parent != enginetest.History.ID {
				t.Errorf("reached %d, lineage %+v, want %d", res.Restored.Reached, res.Lineage, c.want)
			}
			id, err := datadir.ReadIdentity(res.Dir)
			if err != nil || id.Lineage != res.Lineage {
				t.Errorf("beside the data stands %+v, %v, want %+v", id.Lineage, err, res.Lineage)
			}
		})
	}
}
