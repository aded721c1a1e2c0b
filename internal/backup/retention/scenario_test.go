package retention

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/backup/timeline/timelinetest"
)

var update = flag.Bool("update", false, "rewrite the expected parts of testdata/*.txt")

// The lines of the stories in testdata. Ages are told backwards from now: 3h is three hours ago, -1h in an hour.
//
//	now TIME
//	policy [LimitBased N | Exponential] [deltas=AGE] [age=AGE] [size=BYTES] [last=N] [hourly=N] ...
//	full LAST AGE [OPTION ...]
//	delta START-LAST AGE [OPTION ...]
//	chunk full LAST AGE [number=N] [modified=AGE]
//	proven none | LAST [lineage=ID] [end=N]   the chain of this full was read, as far as end; without
//	                                          such a line the newest chain of each lineage was
//	? plan           every decision, as the command line prints it
//	? order          the deletions, in their order
//
// Options: lineage=ID[<PARENT] (writes a manifest), v1, excluded, damaged (other bytes than the
// manifest's), claims=N (last revision by the manifest), unread (a manifest that cannot be read), hidden (a marker alone is left of the
// manifest), gone (the manifest alone is left of the snapshot),
// locked=AGE (the end of a lock), hold, untold (the store did not tell the lock),
// size=BYTES, forged=AGE (another version, made at that age), forged-locked=AGE (its lock),
// marker (a delete marker on top).
// Now and policy stay as they are until changed; objects are those of the block.
func TestScenarios(t *testing.T) {
	timelinetest.Stories(t, *update, func() timelinetest.Stage { return &stage{} })
}

type stage struct {
	now     time.Time
	policy  Policy
	bucket  Bucket
	answers strings.Builder
	proven  []words // nil: the newest chain of each lineage is
}

// words are the arguments of a line: those with a value, and whether a bare one is there.
type words map[string]string

func (w words) has(key string) bool { _, is := w[key]; return is }

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// age reads 90m, 3h, 2d and -1h.
func age(t *testing.T, s string) time.Duration {
	t.Helper()
	if days, is := strings.CutSuffix(s, "d"); is {
		n := must[float64](t)(strconv.ParseFloat(days, 64))
		return time.Duration(n * float64(day))
	}
	return must[time.Duration](t)(time.ParseDuration(s))
}

// Answer implements timelinetest.Stage.
func (s *stage) Answer() string {
	text := s.answers.String()
	*s = stage{now: s.now, policy: s.policy}
	return text
}

// Do implements timelinetest.Stage.
func (s *stage) Do(t *testing.T, line []string) {
	t.Helper()
	options := words{}
	for _, w := range line[1:] {
		k, v, _ := strings.Cut(w, "=")
		options[k] = v
	}
	ago := func(text string) time.Time { return s.now.Add(-age(t, text)) }
	number := func(text string) int64 { return must[int64](t)(strconv.ParseInt(text, 10, 64)) }
	switch line[0] {
	case "now":
		s.now = must[time.Time](t)(time.Parse(time.RFC3339, line[1]))
	case "policy":
		s.policy = readPolicy(t, line[1:], options)
	case "full":
		s.object(t, snapshot.Name{Kind: snapshot.Full, Last: snapshot.Revision(number(line[1])), Created: ago(line[2]).Unix(), Compression: snapshot.Gzip}, options)
	case "delta":
		from, to, _ := strings.Cut(line[1], "-")
		s.object(t, snapshot.Name{Kind: snapshot.Delta, Start: snapshot.Revision(number(from)), Last: snapshot.Revision(number(to)),
			Created: ago(line[2]).Unix(), Compression: snapshot.Gzip}, options)
	case "chunk":
		key := snapshot.SnapshotKey("ns/main", snapshot.Name{Kind: snapshot.Full, Last: snapshot.Revision(number(line[2])), Created: ago(line[3]).Unix(), Compression: snapshot.Gzip})
		key.Object, key.Chunk = snapshot.ChunkObject, fmt.Sprintf("%010d", number("0"+options["number"]))
		modified := ago(line[3])
		if options.has("modified") {
			modified = ago(options["modified"])
		}
		s.put(timeline.Object{Ref: timeline.Ref{Key: key}, Size: 50, Modified: modified}, s.lock(t, options, "locked"))
	case "proven":
		options["last"] = line[1]
		s.proven = append(s.proven, options)
	case "?":
		s.ask(t, line[1])
	default:
		t.Fatalf("what is %q?", line[0])
	}
}

func readPolicy(t *testing.T, line []string, options words) Policy {
	t.Helper()
	var p Policy
	if len(line) > 0 && !strings.Contains(line[0], "=") {
		p.Method = must[Method](t)(ParseMethod(line[0]))
	}
	if p.Method == LimitBased {
		p.MaxBackups = must[int](t)(strconv.Atoi(line[1]))
	}
	for key, field := range map[string]*int{"last": &p.Keep.Last, "hourly": &p.Keep.Hourly, "daily": &p.Keep.Daily,
		"weekly": &p.Keep.Weekly, "monthly": &p.Keep.Monthly} {
		if options.has(key) {
			*field = must[int](t)(strconv.Atoi(options[key]))
		}
	}
	if options.has("deltas") {
		p.DeltaRetention = age(t, options["deltas"])
	}
	if options.has("age") {
		p.MaxAge = age(t, options["age"])
	}
	if options.has("size") {
		p.MaxSize = must[int64](t)(strconv.ParseInt(options["size"], 10, 64))
	}
	return p
}

func (s *stage) lock(t *testing.T, options words, locked string) *immutability.Retention {
	switch {
	case options.has("untold"):
		return nil
	case options.has(locked):
		return &immutability.Retention{Mode: immutability.ModeCompliance, Until: s.now.Add(-age(t, options[locked])), Hold: options.has("hold")}
	}
	return &immutability.Retention{Mode: immutability.ModeNone, Hold: options.has("hold")}
}

func (s *stage) put(o timeline.Object, lock *immutability.Retention) {
	s.bucket.Listing.Objects = append(s.bucket.Listing.Objects, o)
	if s.bucket.Locks == nil {
		s.bucket.Locks = map[timeline.Ref]*immutability.Retention{}
	}
	s.bucket.Locks[o.Ref] = lock
}

// object adds a snapshot with all that its options say.
func (s *stage) object(t *testing.T, n snapshot.Name, options words) {
	key := snapshot.SnapshotKey("ns/main", n)
	if options.has("v1") {
		key.Layout, key.Dir = snapshot.V1, fmt.Sprintf("Backup-%d", n.Created)
	}
	o := timeline.Object{Ref: timeline.Ref{Key: key}, Size: 100, Modified: n.CreatedAt(), Excluded: options.has("excluded")}
	if n.Kind == snapshot.Delta {
		o.Size = 10
	}
	if options.has("size") {
		o.Size = must[int64](t)(strconv.ParseInt(options["size"], 10, 64))
	}
	genuine := snapshot.Digest{1}
	o.Digest = genuine
	if options.has("damaged") {
		o.Digest = snapshot.Digest{2}
	}
	if options.has("forged") || options.has("marker") {
		o.Version = "v1"
	}
	if !options.has("gone") {
		s.put(o, s.lock(t, options, "locked"))
	}
	if options.has("forged") {
		f := o
		f.Version, f.Modified, f.Digest, f.Latest = "v2", s.now.Add(-age(t, options["forged"])), snapshot.Digest{3}, true
		s.put(f, s.lock(t, options, "forged-locked"))
	}
	if options.has("marker") {
		m := o
		m.Version, m.Marker, m.Size, m.Digest, m.Modified, m.Excluded = "v9", true, 0, snapshot.Digest{}, s.now.Add(-time.Minute), false
		s.bucket.Listing.Objects = append(s.bucket.Listing.Objects, m)
	}
	if !options.has("lineage") && !options.has("unread") && !options.has("hidden") {
		return
	}
	m := timeline.StoredManifest{Key: key.Manifest(), Modified: o.Modified.Add(time.Second)}
	switch {
	case options.has("unread"):
		m.Err = snapshot.ErrManifest
	case options.has("hidden"):
		m.Marker = true
	default:
		id, parent, _ := strings.Cut(options["lineage"], "<")
		last := n.Last
		if options.has("claims") {
			last = snapshot.Revision(must[int64](t)(strconv.ParseInt(options["claims"], 10, 64)))
		}
		m.Manifest = &snapshot.Manifest{Version: 1, Snapshot: n.String(), LastRevision: last, Digest: genuine, Size: o.Size,
			Lineage: snapshot.Lineage{ID: snapshot.LineageID(id), Parent: snapshot.LineageID(parent)}}
	}
	s.bucket.Listing.Manifests = append(s.bucket.Listing.Manifests, m)
	if s.bucket.Locks == nil {
		s.bucket.Locks = map[timeline.Ref]*immutability.Retention{}
	}
	s.bucket.Locks[timeline.Ref{Key: m.Key}] = s.lock(t, options, "locked")
}

func (s *stage) ask(t *testing.T, question string) {
	s.bucket.Timeline = timeline.Build(s.bucket.Listing)
	s.bucket.Proofs = s.proofs(t)
	plan, err := Decide(s.bucket, s.policy, s.now, immutability.DeleteMargin)
	switch {
	case err != nil:
		fmt.Fprintln(&s.answers, err)
	case question == "plan":
		for line := range strings.Lines(plan.Table()) {
			s.answers.WriteString(strings.TrimRight(line, " \n") + "\n")
		}
	case question == "order":
		for _, d := range plan.Deletions() {
			fmt.Fprintf(&s.answers, "%s %s\n", d.Kind, d.object())
		}
	default:
		t.Fatalf("no such question: %s", question)
	}
}

// proofs are those of the lines that begin with proven.
func (s *stage) proofs(t *testing.T) []Proof {
	t.Helper()
	if s.proven == nil {
		return proveAll(s.bucket.Timeline)
	}
	number := func(text string) snapshot.Revision {
		return snapshot.Revision(must[int64](t)(strconv.ParseInt(text, 10, 64)))
	}
	var proofs []Proof
	for _, line := range s.proven {
		if line["last"] == "none" {
			continue
		}
		l, is := s.bucket.Timeline.Lineage(snapshot.LineageID(line["lineage"]))
		if !is {
			t.Fatalf("there is no lineage %q", line["lineage"])
		}
		for _, c := range l.Chains() {
			if c.Base.Name().Last != number(line["last"]) {
				continue
			}
			if line.has("end") {
				c.End = number(line["end"])
				c.Deltas = slices.DeleteFunc(c.Deltas, func(d timeline.Link) bool { return d.Last > c.End })
			}
			proofs = append(proofs, proofOf(c))
		}
	}
	if proofs == nil && s.proven[0]["last"] != "none" {
		t.Fatal("no such full")
	}
	return proofs
}
