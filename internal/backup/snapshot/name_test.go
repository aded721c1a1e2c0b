package snapshot_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/backup/snapshot"
)

var compressions = []snapshot.Compression{snapshot.None, snapshot.Gzip, snapshot.Zlib, snapshot.LZW, snapshot.Zstd, ".lz4"}

func TestNamesReadAsTheyAreWritten(t *testing.T) {
	for phrase, c := range map[string]struct {
		text string
		want snapshot.Name
	}{
		"a full of the original": {"Full-00000000-00009002-1565021494.gz",
			snapshot.Name{Kind: snapshot.Full, Last: 9002, Created: 1565021494, Compression: snapshot.Gzip}},
		"a full that is not packed": {"Full-00000000-00009002-1565021494",
			snapshot.Name{Kind: snapshot.Full, Last: 9002, Created: 1565021494}},
		"the last full before a planned stop": {"Full-00000000-00009002-1565021494.gz.final",
			snapshot.Name{Kind: snapshot.Full, Last: 9002, Created: 1565021494, Compression: snapshot.Gzip, Final: true}},
		"the last full, not packed": {"Full-00000000-00009002-1565021494.final",
			snapshot.Name{Kind: snapshot.Full, Last: 9002, Created: 1565021494, Final: true}},
		"a delta": {"Incr-00009003-00009120-1565021514.zst",
			snapshot.Name{Kind: snapshot.Delta, Start: 9003, Last: 9120, Created: 1565021514, Compression: snapshot.Zstd}},
		"zlib": {"Incr-00009003-00009120-1.zlib",
			snapshot.Name{Kind: snapshot.Delta, Start: 9003, Last: 9120, Created: 1, Compression: snapshot.Zlib}},
		"lzw": {"Incr-00009003-00009120-1.Z",
			snapshot.Name{Kind: snapshot.Delta, Start: 9003, Last: 9120, Created: 1, Compression: snapshot.LZW}},
		"the empty etcd": {"Full-00000000-00000001-1", snapshot.Name{Kind: snapshot.Full, Last: 1, Created: 1}},
		"revisions of nine digits and more": {"Incr-123456789-9223372036854775807-1",
			snapshot.Name{Kind: snapshot.Delta, Start: 123456789, Last: math.MaxInt64, Created: 1}},
		"a suffix that nobody can unpack": {"Full-00000000-00000001-1.lz4",
			snapshot.Name{Kind: snapshot.Full, Last: 1, Created: 1, Compression: ".lz4"}},
	} {
		t.Run(phrase, func(t *testing.T) {
			got, err := snapshot.ParseName(c.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("want - got +\n%s", diff)
			}
			if got.String() != c.text {
				t.Errorf("want %s, got %s", c.text, got)
			}
		})
	}
}

func TestForeignNamesAreNotTakenForSnapshots(t *testing.T) {
	for phrase, text := range map[string]string{
		"nothing":                           "",
		"a word":                            "README",
		"another kind":                      "Chunk-00000000-00000001-1",
		"small letters":                     "full-00000000-00000001-1",
		"three elements":                    "Full-00000000-00000001",
		"five elements":                     "Manifest-Full-00000000-00000001-1",
		"unpadded revisions":                "Full-0-1-1",
		"padding where there is no need":    "Full-00000000-0100000001-1",
		"a padded time":                     "Full-00000000-00000001-01",
		"a sign":                            "Full-00000000-+0000001-1",
		"a negative revision":               "Full-00000000--0000001-1",
		"a hexadecimal revision":            "Full-00000000-0x000001-1",
		"the first revision after the last": "Incr-00000002-00000001-1",
		"no time":                           "Full-00000000-00000001-",
		"a revision that is too large":      "Full-00000000-9223372036854775808-1",
		"a dot and nothing":                 "Full-00000000-00000001-1.",
		"two suffixes":                      "Full-00000000-00000001-1.tar.gz",
		"final before the suffix":           "Full-00000000-00000001-1.final.gz",
		"a space":                           "Full-00000000-00000001-1 ",
	} {
		t.Run(phrase, func(t *testing.T) {
			if n, err := snapshot.ParseName(text); !errors.Is(err, snapshot.ErrNotSnapshot) {
				t.Errorf("want ErrNotSnapshot, got %+v, %v", n, err)
			}
		})
	}
}

func TestAnyNameReadsAsItWasWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		want := randomName(r)
		got, err := snapshot.ParseName(want.String())
		if err != nil || got != want {
			t.Fatalf("want %+v, got %+v, %v", want, got, err)
		}
	}
}

func randomName(r *rand.Rand) snapshot.Name {
	revision := func() snapshot.Revision { return snapshot.Revision(r.Int64() >> r.IntN(63)) }
	n := snapshot.Name{Kind: snapshot.Full, Last: revision(), Created: r.Int64() >> r.IntN(63), Compression: compressions[r.IntN(len(compressions))]}
	if n.Final = r.IntN(4) == 0; r.IntN(2) == 0 {
		n.Kind, n.Start = snapshot.Delta, revision()
		n.Start, n.Last = min(n.Start, n.Last), max(n.Start, n.Last)
	}
	return n
}

func FuzzParseNameAcceptsOnlyWhatStringWrites(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		f.Add(randomName(r).String())
	}
	f.Add("Full-00000000-00000001-1.final.final")
	f.Fuzz(func(t *testing.T, text string) {
		n, err := snapshot.ParseName(text)
		if err != nil {
			if !errors.Is(err, snapshot.ErrNotSnapshot) {
				t.Errorf("want ErrNotSnapshot, got %v", err)
			}
			return
		}
		if n.String() != text || n.Start > n.Last || n.Start < 0 || n.Created < 0 {
			t.Errorf("%q is read as %+v and written as %q", text, n, n)
		}
		_ = n.CreatedAt().Format("2006") // must not panic
	})
}

// Appendix C 16 of the failures known from the original: names do not sort as text.
func TestNineDigitRevisionsSortAfterEightDigitOnes(t *testing.T) {
	want := []string{
		"Full-00000000-99999990-3",
		"Incr-99999991-100000000-2",
		"Incr-100000001-100000100-1",
		"Full-00000000-1000000000-4",
	}
	expectOrder(t, want)
	if sorted := slices.Clone(want); slices.IsSorted(sorted) {
		t.Error("these names sort as text too, so the test proves nothing")
	}
}

func TestACompactedFullSortsAfterTheLastDeltaItContains(t *testing.T) {
	expectOrder(t, []string{
		"Full-00000000-00000100-1000",
		"Incr-00000101-00000150-1010",
		"Full-00000000-00000150-1500",
		"Incr-00000151-00000160-1600",
	})
}

func expectOrder(t *testing.T, want []string) {
	t.Helper()
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}} {
		var names []snapshot.Name
		for _, i := range order {
			n, err := snapshot.ParseName(want[i])
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, n)
		}
		slices.SortFunc(names, snapshot.Compare)
		var got []string
		for _, n := range names {
			got = append(got, n.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("want - got +\n%s", diff)
		}
	}
}

func TestCompareIsATotalOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	small := func() snapshot.Name {
		n := randomName(r)
		n.Last, n.Created = snapshot.Revision(r.IntN(3)), int64(r.IntN(3))
		n.Start = min(n.Start, n.Last)
		return n
	}
	for range 20000 {
		a, b, c := small(), small(), small()
		if snapshot.Compare(a, b) != -snapshot.Compare(b, a) && a != b {
			t.Fatalf("%s and %s compare as %d and %d", a, b, snapshot.Compare(a, b), snapshot.Compare(b, a))
		}
		if (snapshot.Compare(a, b) == 0) != (a == b) {
			t.Fatalf("%s and %s compare as %d", a, b, snapshot.Compare(a, b))
		}
		if snapshot.Compare(a, b) < 0 && snapshot.Compare(b, c) < 0 && snapshot.Compare(a, c) >= 0 {
			t.Fatalf("%s, %s and %s go round in a circle", a, b, c)
		}
	}
}

func TestATimeBeyondTextIsTheLastOne(t *testing.T) {
	if got := (snapshot.Name{Created: math.MaxInt64}).CreatedAt().Year(); got != 9999 {
		t.Errorf("want the year 9999, got %d", got)
	}
	if got := (snapshot.Name{Created: 1565021494}).CreatedAt().Unix(); got != 1565021494 {
		t.Errorf("want second 1565021494, got %d", got)
	}
}

func TestOnlySuffixesThatCanBeUnpackedAreKnown(t *testing.T) {
	for _, c := range compressions {
		if want := c != ".lz4"; c.Known() != want {
			t.Errorf("%q: want known %t", c, want)
		}
	}
}
