package e2e

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"sort"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/test/sites"
)

var (
	soak  = flag.Bool("soak", false, "go on for ever with new seeds")
	kills = flag.Int("kills", len(moments), "how often the snapshotter is killed")
	seed  = flag.Int64("seed", 1, "of the random history")
)

// moments are where the snapshotter is killed, in turn. A full is due at the first start and
// whenever etcd has compacted what was not yet backed up, which the test makes happen.
var moments = []moment{
	{"list", 1, false}, {"list", 1, true},
	{"put Owner", 1, false}, {"put Owner", 1, true},
	{"put Full", 1, false}, {"put Full", 1, true},
	{"put Manifest", 1, false}, {"put Manifest", 1, true},
	{"put Incr", 1, false}, {"put Incr", 1, true},
	{"put Incr", 2, false}, {"put Incr", 2, true},
	{"put Incr", 3, false}, {"put Incr", 3, true},
	{"read Manifest", 1, false}, {"read Manifest", 1, true},
	{"read Incr", 1, false}, {"read Incr", 2, true},
	{"read Owner", 1, false}, {"read Owner", 1, true},
	{"inspect", 1, true},
}

// TestPropertyWhateverIsUploadedComesBackAfterAnyKill writes a random history, kills the
// snapshotter with SIGKILL before or after a request to the store, again and again, and after each kill
// restores to a random revision and compares with the source's own history.
func TestPropertyWhateverIsUploadedComesBackAfterAnyKill(t *testing.T) {
	t.Parallel()
	minio := fleet.Get(t, "MinIO")
	for s := *seed; ; s++ {
		t.Run(fmt.Sprintf("seed %d", s), func(t *testing.T) {
			w, a := hunted(t, minio, sites.Governance, s)
			killAndRestore(t, w, a, rand.New(rand.NewSource(s)), moments, *kills)
		})
		if !*soak || t.Failed() {
			return
		}
	}
}

// hunted is a world whose backup lies in a bucket of a site behind an assassin.
func hunted(t *testing.T, s sites.Site, k sites.Kind, seed int64) (*world, *assassin) {
	t.Helper()
	a := &assassin{Gate: gateTo(t, s), site: s}
	w := newWorld(t, seed, 150)
	w.place = inSite(t, s, a.Endpoint, fleet.Bucket(t, s, k), sites.Owner)
	return w, a
}

func killAndRestore(t *testing.T, w *world, a *assassin, r *rand.Rand, moments []moment, kills int) {
	tally := map[string]int{}
	var uploaded int64 // everything up to here was in the bucket after an earlier kill
	for i := range kills {
		m := moments[i%len(moments)]
		if aboutFulls(m) || r.Intn(8) == 0 {
			forceFull(t, w)
		}
		if m.kind == "put Owner" && i >= len(moments) {
			m = moment{"put Incr", 1 + r.Intn(4), r.Intn(2) == 0} // the prefix has its owner by now
		}
		if struck := session(t, w, a, m); struck {
			tally[m.String()]++
		} else {
			tally["not reached: "+m.String()]++
		}
		a.Heal()
		uploaded = verify(t, w, r, uploaded)
		if t.Failed() {
			t.Fatalf("after kill %d, %s", i+1, m)
		}
		if i%25 == 24 {
			t.Logf("%d kills, revision %d, %d in the bucket", i+1, w.history.Last(), uploaded)
		}
	}
	var names []string
	reached := 0
	for n, c := range tally {
		names = append(names, fmt.Sprintf("%4d  %s", c, n))
		if n[:3] != "not" {
			reached += c
		}
	}
	sort.Strings(names)
	for _, n := range names {
		t.Log(n)
	}
	if reached < kills*9/10 {
		t.Errorf("only %d of %d moments were reached", reached, kills)
	}
}

// aboutFulls tells whether a moment comes only where a full is taken.
func aboutFulls(m moment) bool {
	return m.kind == "put Manifest" || strings.HasSuffix(m.kind, " Full") || m.kind == "part" || m.kind == "finish"
}

// forceFull makes etcd forget what is not backed up yet, so that the next session needs a full.
func forceFull(t *testing.T, w *world) {
	rev := w.write(30)
	if _, err := w.client.Compact(context.Background(), rev, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
}

// session runs the snapshotter under load until the assassin strikes, and reports whether it did.
func session(t *testing.T, w *world, a *assassin, m moment) bool {
	cmd := w.command("snapshot", "--endpoints="+w.etcd.Endpoint(), "--data-dir="+w.etcd.DataDir(), "--delta-snapshot-period=1s", "--schedule=", "--delta-snapshot-memory-limit=20000")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	a.arm(m, func() { cmd.Process.Kill() })
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	giveUp := time.After(waitAtMost)
	for writes := 0; ; writes++ {
		if writes > 200 { // a moment that does not come is no reason to fill the etcd
			select {
			case <-ended:
			case <-time.After(50 * time.Millisecond):
			}
		}
		select {
		case <-ended:
			if !a.struck.Load() {
				t.Fatalf("the snapshotter ended by itself, waiting for %s:\n%s", m, log.String())
			}
			return true
		case <-giveUp:
			cmd.Process.Kill()
			<-ended
			t.Logf("%s was not reached; the log ends:\n%s", m, tail(log.Bytes()))
			return false
		default:
			w.write(20)
		}
	}
}

func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }

// verify restores the newest revision or a random one and compares. What was once in the bucket
// must stay restorable.
func verify(t *testing.T, w *world, r *rand.Rand, uploaded int64) int64 {
	l := w.list()
	newest, windows := int64(0), 0
	var from, to int64
	if len(l.Lineages) > 0 {
		newest = l.Lineages[0].Newest
		for _, win := range l.Lineages[0].Restorable {
			windows++
			if to < win.To {
				from, to = win.From, win.To
			}
		}
	}
	if len(l.Lineages) > 2 { // the unnamed one holds a full whose manifest was never written
		t.Errorf("%d lineages after kills: histories were taken for different ones", len(l.Lineages))
	}
	if windows == 0 {
		if uploaded > 0 {
			t.Errorf("revision %d was in the bucket and nothing can be restored any more", uploaded)
		}
		return uploaded
	}
	if to < uploaded {
		t.Errorf("revision %d was in the bucket, now it ends at %d", uploaded, to)
	}
	if to < newest {
		t.Errorf("the newest known revision is %d, restorable is %d", newest, to)
	}
	if err := w.history.Reach(to); err != nil {
		t.Fatal(err)
	}
	var lineage []string
	if orphan := len(l.Lineages) == 2 && l.Lineages[1].Newest > to; orphan {
		// Killed between a full and its manifest: a plain restore of the latest asks which is meant.
		if dir, err := w.restore(); err == nil {
			t.Errorf("a full without its manifest is beyond revision %d, and the restore did not ask (%s)", to, dir)
		}
		lineage = []string{"--lineage=" + l.Lineages[0].ID}
	}
	dir, err := w.restore(lineage...)
	if err != nil {
		t.Error(err)
		return uploaded
	}
	defer func() { os.RemoveAll(dir) }() // hundreds of them would fill the disk
	if l.Lineages[0].ID == "" {
		// Nothing but a full whose manifest was never written: it holds its revision or later ones.
		_, last := keySpace(t, dir)
		if err := w.history.Reach(last); err != nil {
			t.Fatal(err)
		}
		w.check(dir, max(to, last))
		return to
	}
	w.check(dir, to)
	os.RemoveAll(dir)
	target := from + r.Int63n(to-from+1)
	if dir, err = w.restore(append(lineage, fmt.Sprintf("--to-revision=%d", target))...); err != nil {
		t.Error(err)
		return uploaded
	}
	w.check(dir, target)
	if r.Intn(40) == 0 {
		w.boots(dir, target)
	}
	return to
}
