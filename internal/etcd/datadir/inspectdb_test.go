package datadir

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// contents are the spans of the file in which the records of the key bucket lie: the key, the value and
// how often it was changed. Much of what may stand there is as good as what does.
func contents(t testing.TB, path string, live []int) (spans [][2]int) {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	db, err := OpenDB(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := eachEntry(db.keys, 0, func(_ *entry, k, v []byte) error {
		at := recordAt(file, live, slices.Concat(k, v))
		if at < 0 {
			return errors.New("a record is nowhere in the file")
		}
		spans = append(spans, [2]int{at + len(k), at + len(k) + len(v)})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return spans
}

// livePages are the pages of a database file that are in use.
func livePages(t testing.TB, path string) (live []int) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Update(func(tx *bolt.Tx) error {
		for id := 0; ; id++ {
			p, err := tx.Page(id)
			if p == nil || err != nil {
				return err
			}
			if p.Type == "free" {
				continue
			}
			for range p.OverflowCount + 1 {
				live = append(live, p.ID)
				p.ID++
			}
			id += p.OverflowCount
		}
	}); err != nil {
		t.Fatal(err)
	}
	return live
}

// recordAt is where the record lies in the pages that are in use: older copies of it may lie in free ones.
func recordAt(file []byte, live []int, record []byte) int {
	for from := 0; ; from++ {
		i := bytes.Index(file[from:], record)
		if i < 0 {
			return -1
		}
		if from += i; slices.Contains(live, from/4096) {
			return from
		}
	}
}

// A database has no checksums: a flipped bit in a record may be nothing this can find. All else
// is found, or harmless: an etcd starts and has everything.
func TestAFlippedBitInTheDatabaseIsFoundOrHarmlessOrInARecord(t *testing.T) {
	m := crashed(t)
	clean := m.write(t, nil)
	live := livePages(t, m.write(t, nil)+"/"+imageDB)
	spans := contents(t, databasePath(clean), live)
	inContent := func(at int) bool {
		return slices.ContainsFunc(spans, func(s [2]int) bool { return at >= s[0] && at < s[1] })
	}
	want, err := startedInChild(t, m.write(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 6))
	found, content, harmless := 0, 0, 0
	for n := range 300 {
		at := live[r.IntN(len(live))]*4096 + r.IntN(4096)
		if n%2 == 0 { // the heads of pages, with the elements
			at = at/4096*4096 + r.IntN(100)
		}
		bit := r.UintN(8)
		b := slices.Clone(m.files[imageDB])
		b[at] ^= 1 << bit
		dir := m.write(t, map[string][]byte{imageDB: b})
		sanity, full := inspected(t, dir, Sanity), inspected(t, dir, Full)
		if sanity.State == Missing || full.State == Missing {
			t.Fatalf("bit %d of byte %d: Missing", bit, at)
		}
		switch {
		case full.State == Invalid:
			found++
		case full.State != Valid:
			t.Errorf("bit %d of byte %d: %s %q", bit, at, full.State, full.Why)
		case inContent(at):
			content++
		default:
			harmless++
			if harmless%4 == 0 {
				if got, err := startedInChild(t, dir); err != nil || got != want {
					t.Errorf("bit %d of byte %d (page %d, offset %d): an etcd on data called good says %q, %v, want %q; there stands %q", bit, at, at/4096, at%4096, got, err, want, m.files[imageDB][at-32:at+32])
				}
			}
		}
		os.RemoveAll(dir)
	}
	t.Logf("%d found, %d in records, %d harmless", found, content, harmless)
	if found < 15 || harmless < 8 {
		t.Errorf("%d found, %d in records, %d harmless: the test proves little", found, content, harmless)
	}
}

// A zeroed page is what a disk that lost a write leaves.
func TestAZeroedPageOfTheDatabaseIsFoundOrFree(t *testing.T) {
	m := crashed(t)
	want, err := startedInChild(t, m.write(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	found, harmless := 0, 0
	live := livePages(t, m.write(t, nil)+"/"+imageDB)
	for n := 0; n < len(live); n += 1 + len(live)/100 {
		page := live[n]
		b := slices.Clone(m.files[imageDB])
		clear(b[page*4096:][:4096])
		dir := m.write(t, map[string][]byte{imageDB: b})
		i := inspected(t, dir, Full)
		if i.State == Invalid {
			found++
		} else if harmless++; harmless%12 == 1 {
			got, err := startedInChild(t, dir)
			if err != nil || strings.Fields(got)[0] != strings.Fields(want)[0] {
				t.Errorf("page %d: an etcd on data called %s says %q, %v, want %q", page, i.State, got, err, want)
			}
		}
		os.RemoveAll(dir)
	}
	if found < 10 {
		t.Errorf("%d found, %d harmless", found, harmless)
	}
}

func TestWhatMayNotBeReadIsAnErrorAndNotMissing(t *testing.T) {
	m := readImage(t, written(t))
	for _, name := range []string{"", "member", "member/snap", "member/wal", imageDB, m.logs[0]} {
		t.Run("no permission for "+name, func(t *testing.T) {
			dir := m.write(t, nil)
			for path := range m.files { // all others are open to everybody
				os.Chmod(dir+"/"+path, 0o644)
			}
			for _, d := range []string{"", "member", "member/snap", "member/wal"} {
				os.Chmod(dir+"/"+d, 0o755)
			}
			if err := os.Chmod(dir+"/"+name, 0); err != nil {
				t.Fatal(err)
			}
			defer os.Chmod(dir+"/"+name, 0o755)
			i, err := asNobody(t, func() (Inspection, error) { return Inspect(context.Background(), dir, Sanity, nil) })
			if !errors.Is(err, os.ErrPermission) {
				t.Errorf("%+v, %v, want an error of permissions", i, err)
			}
		})
	}
}

// asNobody calls fn without the rights of root over files.
func asNobody(t *testing.T, fn func() (Inspection, error)) (Inspection, error) {
	t.Helper()
	if os.Getuid() != 0 {
		return fn()
	}
	for dir := t.TempDir(); dir != "/" && dir != os.TempDir(); dir = dir[:strings.LastIndex(dir, "/")] {
		os.Chmod(dir, 0o755)
	}
	runtime.LockOSThread() // it is of the thread
	defer runtime.UnlockOSThread()
	if err := unix.Setfsuid(65534); err != nil {
		t.Fatal(err)
	}
	defer unix.Setfsuid(0)
	return fn()
}

func TestAnInspectionEndsWhenItIsNoLongerWanted(t *testing.T) {
	dir := written(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough of it")
	cancel(why)
	for _, mode := range []Mode{Sanity, Full} {
		if i, err := Inspect(ctx, dir, mode, nil); !errors.Is(err, why) {
			t.Errorf("%s: %+v, %v, want the cause", mode, i, err)
		}
	}
	var done, total int64
	if _, err := Inspect(context.Background(), dir, Full, func(d, all int64) {
		if d < done || d > all {
			t.Errorf("progress of %d of %d after %d", d, all, done)
		}
		done, total = d, all
	}); err != nil || done == 0 || done != total {
		t.Errorf("progress ends at %d of %d, %v", done, total, err)
	}
}
