package datadir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/storage/wal"
)

func TestAKilledEtcdLeavesValidDataAndNothingAcknowledgedIsLost(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for _, writes := range []int{0, 1, 300, 40, 900, 7, 2000} {
		acknowledged := killedUnderLoad(t, dir, writes)
		sanity, full := inspected(t, dir, Sanity), inspected(t, dir, Full)
		if sanity.State != Valid || full.State != Valid {
			t.Fatalf("after %d writes: sanity %s (%s), full %s (%s), want Valid", writes, sanity.State, sanity.Why, full.State, full.Why)
		}
		if int64(full.AtMost) < acknowledged || full.AtMost < full.Revision {
			t.Errorf("after %d writes: between %d and %d, and %d was acknowledged", writes, full.Revision, full.AtMost, acknowledged)
		}
		if full.MembershipDiffers != "" {
			t.Error(full.MembershipDiffers)
		}
		settled, err := Settle(context.Background(), dir)
		if err != nil || int64(settled) < acknowledged || settled > full.AtMost {
			t.Errorf("after %d writes: settled at %d, %v; acknowledged were %d, at most %d", writes, settled, err, acknowledged, full.AtMost)
		}
		after := inspected(t, dir, Full)
		if after.State != Valid || after.Revision != settled || after.AtMost != settled {
			t.Errorf("after Settle: %+v, want revision %d", after, settled)
		}
	}
}

// image is a stopped data directory that can be written again and again with changes.
type image struct {
	files map[string][]byte // by path below the directory, without zeros at the end of the log
	logs  []string
}

const imageDB = "member/snap/db"

func readImage(t testing.TB, dir string) *image {
	t.Helper()
	m := &image{files: map[string][]byte{}}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if strings.HasSuffix(name, ".tmp") {
			return nil
		}
		if strings.HasSuffix(name, segmentSuffix) {
			m.logs = append(m.logs, name)
			b = append(bytes.TrimRight(b, "\x00"), make([]byte, 64<<10)...)
			b = b[:len(b)/8*8]
		}
		m.files[name] = b
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(m.logs)
	return m
}

// write makes a directory of the image, with other contents for some files; nil leaves one out.
func (m *image) write(t testing.TB, changed map[string][]byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	for name, b := range m.files {
		if c, ok := changed[name]; ok {
			if b = c; c == nil {
				continue
			}
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// records are the offsets of the records of a segment, and where they end.
func offsets(t testing.TB, segment []byte) []int {
	t.Helper()
	all := []int{0}
	crc := uint32(0)
	for at := 0; ; {
		r, size, ok := nextRecord(segment[at:], crc)
		if !ok {
			return all
		}
		crc = r.crc
		at += int(size)
		all = append(all, at)
	}
}

// crashed makes an image whose database is behind its log.
func crashed(t *testing.T) *image {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	for range 20 {
		killedUnderLoad(t, dir, 200)
		if i := inspected(t, dir, Sanity); i.Revision > 100 && i.AtMost > i.Revision+3 {
			return readImage(t, dir)
		}
	}
	t.Fatal("etcd was killed twenty times and its log was never ahead of its database")
	return nil
}

func TestALogCutAnywhereIsRepairedOrInvalid(t *testing.T) {
	m := crashed(t)
	last := m.logs[len(m.logs)-1]
	whole := inspected(t, m.write(t, nil), Full)
	ends := offsets(t, m.files[last])
	valid, invalid, started := 0, 0, 0
	previous := Inspection{}
	for n := range ends[1:] {
		if n > 2 && n < len(ends)-16 && n%29 != 0 {
			continue // much the same as its neighbours
		}
		from, to := ends[n], ends[n+1]
		for _, at := range []int{from, from + 3, from + 8, from + (to-from)/2/8*8, to - 8, to - 1} {
			for how, b := range map[string][]byte{
				"cut":    slices.Clone(m.files[last][:at]),
				"zeroed": append(slices.Clone(m.files[last][:at]), make([]byte, len(m.files[last])-at)...),
			} {
				if how == "zeroed" && at%walSector != 0 && at != from {
					continue // a disk writes whole sectors
				}
				same := how == "zeroed" && bytes.Equal(b[from:to], m.files[last][from:to]) // they were zero before
				dir := m.write(t, map[string][]byte{last: b})
				i := inspected(t, dir, Full)
				if i.State == Missing {
					t.Fatalf("%s at %d: Missing", how, at)
				}
				if i.State != Valid {
					invalid++
					if i.State != Invalid || i.Why == "" || i.AtMost != 0 {
						t.Errorf("%s at %d: %s %q, up to %d, want Invalid with a reason, and nobody knows up to where", how, at, i.State, i.Why, i.AtMost)
					}
					if left, err := os.ReadFile(filepath.Join(dir, last)); err != nil || !bytes.Equal(left, b) {
						t.Errorf("%s at %d: the log of invalid data was changed, %v", how, at, err)
					}
					continue
				}
				valid++
				if i.AtMost > whole.AtMost || i.LastIndex < i.AppliedIndex || i.LastIndex < i.Commit {
					t.Errorf("%s at %d: %+v", how, at, i)
				}
				if torn := at != from && at != to && !same; torn != (i.Repaired != "") {
					t.Errorf("%s at %d of %d to %d: repaired is %q", how, at, from, to, i.Repaired)
				}
				if i.Repaired != "" {
					kept, err := os.ReadFile(i.Repaired)
					if err != nil || !bytes.Equal(kept, bytes.TrimRight(b[from:], "\x00")) {
						t.Errorf("%s at %d: %d bytes are kept of the torn end, %v", how, at, len(kept), err)
					}
				}
				if again := inspected(t, dir, Full); again.State != Valid || again.Repaired != "" || again.LastIndex != i.LastIndex {
					t.Errorf("%s at %d: after the repair %+v", how, at, again)
				}
				if i.LastIndex != previous.LastIndex && started < 8 {
					previous = i
					started++
					if rev, err := Settle(context.Background(), dir); err != nil || rev < i.Revision || rev > i.AtMost {
						t.Errorf("%s at %d: settled at %d, %v, want %d to %d", how, at, rev, err, i.Revision, i.AtMost)
					}
				}
			}
		}
	}
	if valid < 10 || invalid < 10 || started == 0 {
		t.Errorf("%d valid, %d invalid, %d started: the test proves little", valid, invalid, started)
	}
}

// Every bit that is flipped in the log is found, or lies where it does not matter.
func TestAFlippedBitInTheLogIsFoundOrHarmless(t *testing.T) {
	m := crashed(t)
	want := inspected(t, m.write(t, nil), Full)
	r := rand.New(rand.NewPCG(3, 4))
	found, harmless := 0, 0
	var dirs []string
	flip := func(name string, at int, bit uint) {
		b := slices.Clone(m.files[name])
		b[at] ^= 1 << bit
		dir := m.write(t, map[string][]byte{name: b})
		i := inspected(t, dir, Sanity)
		switch i.State {
		case Missing:
			t.Fatalf("%s: bit %d of byte %d: Missing", name, bit, at)
		case Invalid:
			found++
			os.RemoveAll(dir)
			return
		}
		harmless++
		i.Repaired = ""
		if i.State != want.State || i.AtMost != want.AtMost || i.LastIndex != want.LastIndex || i.Revision != want.Revision {
			t.Errorf("%s: bit %d of byte %d (records at %v): %+v, want %+v", name, bit, at, around(offsets(t, m.files[name]), at), i, want)
		}
		dirs = append(dirs, dir)
	}
	for _, name := range m.logs {
		ends := offsets(t, m.files[name])
		for range 150 { // anywhere
			flip(name, r.IntN(ends[len(ends)-1]), r.UintN(8))
		}
		for range 40 { // in the lengths, kinds and checksums of records
			flip(name, ends[r.IntN(len(ends)-1)]+r.IntN(16), r.UintN(8))
		}
		for at := range 80 { // the beginning
			flip(name, at, r.UintN(8))
		}
	}
	if found < 200 {
		t.Errorf("%d found, %d harmless", found, harmless)
	}
	wantStart, err := startedInChild(t, m.write(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs[:min(len(dirs), 20)] {
		if got, err := startedInChild(t, dir); err != nil || got != wantStart {
			t.Errorf("an etcd on data called good says %q, %v, want %q", got, err, wantStart)
		}
	}
	t.Logf("%d found, %d harmless", found, harmless)
}

func around(ends []int, at int) []int {
	n, _ := slices.BinarySearch(ends, at)
	return ends[max(0, n-1):min(len(ends), n+1)]
}

func TestLogSegmentsThatAreMissingOrStrangeAreFound(t *testing.T) {
	defer func(n int64) { wal.SegmentSizeBytes = n }(wal.SegmentSizeBytes)
	m := crashed(t)
	for len(m.logs) < 3 {
		dir := m.write(t, nil)
		killedUnderLoad(t, dir, 500)
		m = readImage(t, dir)
	}
	first, middle, last := m.logs[0], m.logs[len(m.logs)-2], m.logs[len(m.logs)-1]
	firstEnds := offsets(t, m.files[middle])
	applied := inspected(t, m.write(t, nil), Sanity).AppliedIndex
	for name, c := range map[string]struct {
		change map[string][]byte
		want   string
	}{
		"the middle one is missing":  {map[string][]byte{middle: nil}, "missing"},
		"the last one is missing":    {map[string][]byte{last: nil}, "lost"},
		"the last one is empty":      {map[string][]byte{last: {}}, "is empty"},
		"the middle one is empty":    {map[string][]byte{middle: {}}, "is empty"},
		"the last one is zeros":      {map[string][]byte{last: make([]byte, 1<<20)}, "no record"},
		"the middle one is zeros":    {map[string][]byte{middle: make([]byte, 1<<20)}, "no record"},
		"the middle one is cut":      {map[string][]byte{middle: m.files[middle][:firstEnds[len(firstEnds)/2]]}, "does not continue"},
		"the middle one is torn":     {map[string][]byte{middle: m.files[middle][:firstEnds[len(firstEnds)/2]+8]}, "is damaged"},
		"all but the last are gone":  {map[string][]byte{first: nil, middle: nil}, ""},
		"the two last are exchanged": {map[string][]byte{middle: m.files[last], last: m.files[middle]}, "does not"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := m.write(t, c.change)
			i := inspected(t, dir, Sanity)
			// That the end of a log is gone shows only if the database has got further than the rest.
			proven := c.want != "lost" || i.LastIndex < applied
			if c.want != "" && proven && (i.State != Invalid || !strings.Contains(i.Why, c.want)) {
				t.Errorf("%s %q, want Invalid and %q", i.State, i.Why, c.want)
			}
			if i.State == Missing {
				t.Error("Missing")
			}
			if i.State == Valid {
				if _, err := startedInChild(t, dir); err != nil {
					t.Errorf("Valid, and etcd says %v", err)
				}
			}
		})
	}
}

func TestFilesThatAreMissingOrStrangeAreFound(t *testing.T) {
	m := crashed(t)
	noLog := map[string][]byte{}
	for _, l := range m.logs {
		noLog[l] = nil
	}
	for name, c := range map[string]struct {
		change map[string][]byte
		do     func(dir string) error
		want   string
	}{
		"no database":            {change: map[string][]byte{imageDB: nil}, want: "is missing"},
		"an empty database":      {change: map[string][]byte{imageDB: {}}, want: "impossible size"},
		"a database of zeros":    {change: map[string][]byte{imageDB: make([]byte, 1<<20)}, want: "no valid meta page"},
		"a database cut in half": {change: map[string][]byte{imageDB: m.files[imageDB][:20<<10]}, want: "the end is missing"},
		"no log":                 {change: noLog, want: "there is no write-ahead log"},
		"a directory for the database": {change: map[string][]byte{imageDB: nil}, want: "not a regular file", do: func(dir string) error {
			return os.MkdirAll(databasePath(dir), 0o700)
		}},
		"a file for the log": {change: noLog, want: "not a directory", do: func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, "member", "wal")), os.WriteFile(filepath.Join(dir, "member", "wal"), nil, 0o600))
		}},
		"a directory for a segment": {want: "not a regular file", do: func(dir string) error {
			return os.Mkdir(filepath.Join(dir, "member", "wal", fmt.Sprintf("%016x-%016x.wal", 99, 99)), 0o700)
		}},
		"a segment with another name": {want: "not named like a segment", do: func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "member", "wal", "copy of 1.wal"), nil, 0o600)
		}},
		"a link to nothing": {want: "symbolic link", do: func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, "member")), os.Symlink("nowhere", filepath.Join(dir, "member")))
		}},
		"a file for everything": {want: "not a directory", do: func(dir string) error {
			return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600))
		}},
		"a lineage that is none": {want: "nobody can tell", do: func(dir string) error {
			return os.WriteFile(filepath.Join(dir, filepath.FromSlash(IdentityFile)), []byte("{"), 0o600)
		}},
		"a directory for the lineage": {want: "nobody can tell", do: func(dir string) error {
			return os.Mkdir(filepath.Join(dir, filepath.FromSlash(IdentityFile)), 0o700)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := m.write(t, c.change)
			if c.do != nil {
				if err := c.do(dir); err != nil {
					t.Fatal(err)
				}
			}
			for _, mode := range []Mode{Sanity, Full} {
				if i := inspected(t, dir, mode); i.State != Invalid || !strings.Contains(i.Why, c.want) {
					t.Errorf("%s: %s %q, want Invalid and %q", mode, i.State, i.Why, c.want)
				}
			}
		})
	}
}
