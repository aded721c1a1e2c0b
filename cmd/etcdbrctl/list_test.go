package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/enginetest"
)

// hours is a bucket of so many snapshots: every hour a full and nine deltas, locked for 30 days.
// What is older than that is not locked any more, and the newest delta is not locked yet. Of the
// second hour a delta is missing.
func hours(snapshots int) listView {
	start := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	var l timeline.Listing
	locks := map[timeline.Ref]*immutability.Retention{}
	end := start.Add(time.Duration(snapshots) * 6 * time.Minute)
	for i := range snapshots {
		at := start.Add(time.Duration(i) * 6 * time.Minute)
		n := snapshot.Name{Kind: snapshot.Delta, Start: snapshot.Revision(100*i + 1), Last: snapshot.Revision(100*i + 100), Created: at.Unix(), Compression: snapshot.Zstd}
		switch i % 10 {
		case 0:
			n.Kind, n.Start, n.Last = snapshot.Full, 0, snapshot.Revision(100*i)
			if i == 0 {
				n.Last = 1
			}
		case 1:
			n.Start = snapshot.Revision(max(100*(i-1)+1, 2))
		}
		if i == 15 {
			continue
		}
		ref := timeline.Ref{Key: snapshot.SnapshotKey("p", n)}
		l.Objects = append(l.Objects, timeline.Object{Ref: ref, Size: int64(1<<20 + i), Modified: at, Latest: true})
		r := &immutability.Retention{Mode: immutability.ModeCompliance, Until: at.Add(30 * 24 * time.Hour)}
		if r.Until.Before(end) || i == snapshots-1 {
			r = &immutability.Retention{Mode: immutability.ModeNone}
		}
		locks[ref] = r
	}
	return newListView("S3 backups at https://s3.example", "p", timeline.Build(l), locks)
}

// TestAListingIsLegibleWhateverItsLength pins what people see, with and without a terminal.
func TestAListingIsLegibleWhateverItsLength(t *testing.T) {
	for _, n := range []int{1, 30, 3000} {
		for _, width := range []int{0, 80, 120} {
			t.Run(fmt.Sprintf("%d snapshots, width %d", n, width), func(t *testing.T) {
				var out bytes.Buffer
				if err := hours(n).table(&out, width, false); err != nil {
					t.Fatal(err)
				}
				if lines := strings.Count(out.String(), "\n"); lines > 100 {
					t.Errorf("%d lines", lines)
				}
				compareGolden(t, filepath.Join("testdata", "list", fmt.Sprintf("%d-%d.txt", n, width)), out.String())
			})
		}
	}
	var all bytes.Buffer
	if err := hours(3000).table(&all, 80, true); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(all.String(), "\n"); lines < 3000 {
		t.Errorf("with --all there are only %d lines", lines)
	}
}

func TestADigestSaysWhatItCovers(t *testing.T) {
	bucket := enginetest.Native(t)
	c, err := catalog.Read(t.Context(), bucket, enginetest.Prefix, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	v := newListView("memory", enginetest.Prefix, c.Timeline, nil)
	for _, s := range v.Lineages[0].Snapshots {
		want := wholeObject
		if s.Kind == snapshot.Delta {
			want = onlyPayload
		}
		if s.DigestOf != want || s.Digest.IsZero() {
			t.Errorf("%s has a digest of %q, want %q", s.Name, s.DigestOf, want)
		}
	}
}

// TestAChainReachesAsFarAsWhatIsNotExcluded: its line and what one can restore to say the same.
func TestAChainReachesAsFarAsWhatIsNotExcluded(t *testing.T) {
	start := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	var l timeline.Listing
	for i, n := range []snapshot.Name{
		{Kind: snapshot.Full, Last: 204}, {Kind: snapshot.Delta, Start: 205, Last: 856}, {Kind: snapshot.Delta, Start: 857, Last: 871},
	} {
		at := start.Add(time.Duration(i) * time.Minute)
		n.Created, n.Compression = at.Unix(), snapshot.Zstd
		l.Objects = append(l.Objects, timeline.Object{Ref: timeline.Ref{Key: snapshot.SnapshotKey("p", n)}, Size: 1, Modified: at, Latest: true, Excluded: i == 2})
	}
	var out bytes.Buffer
	if err := newListView("S3 backups", "p", timeline.Build(l), nil).table(&out, 120, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1, 1 excluded", " 204 to 856 "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "204 to 871") {
		t.Errorf("a chain reaches what is excluded:\n%s", out.String())
	}
}
