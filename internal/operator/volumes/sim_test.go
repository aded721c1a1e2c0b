package volumes

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// world is a cluster as simple as can be: a StatefulSet that makes claims and pods, volumes with data, and
// etcds that join, vote and fail. Whoever works on it holds no memory.
type world struct {
	t   *testing.T
	r   *rand.Rand
	now time.Time
	log []string

	want, template resource.Quantity
	wrong          int // the members below this have somebody else's data mounted, whatever is done
	badVolumes     int // so many volumes that are made next are read-only, too
	set, setGoing  bool
	n, uids        int
	claims         map[int]*simClaim
	pods           map[int]*simPod
	voters         map[int]bool // false: a learner
	records        map[int]Record
	worked         map[int]time.Time
	said           map[int]Trouble // what stands in the EtcdMember, true or not any more
	deaf           map[int]int     // for so long an etcd does not answer
	rests          map[int]bool    // the StatefulSet's controller does not look at a pod that is missing
	reminded       string

	gone     map[string]int // how often the volume of a claim was deleted, by the name of the volume
	restarts map[int]int    // how often a pod was deleted for a wrong volume
	steps    int
}

type simClaim struct {
	uid, volume     string
	size            resource.Quantity
	going           bool
	data, unwritten bool // there are data; nothing can be written
}

type simPod struct {
	uid   string
	going bool
}

func newWorld(t *testing.T, seed uint64, n int) *world {
	w := &world{
		t: t, r: rand.New(rand.NewPCG(seed, 7)), now: testNow, n: n, want: size("10Gi"), template: size("10Gi"), set: true,
		claims: map[int]*simClaim{}, pods: map[int]*simPod{}, voters: map[int]bool{}, records: map[int]Record{}, worked: map[int]time.Time{},
		said: map[int]Trouble{}, deaf: map[int]int{}, rests: map[int]bool{}, gone: map[string]int{}, restarts: map[int]int{},
	}
	w.live()
	for i := range n {
		w.claims[i].data, w.voters[i], w.worked[i] = true, true, w.now
	}
	return w
}

func (w *world) uid() string { w.uids++; return fmt.Sprint(w.uids) }

func (w *world) logf(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, l := range w.log[max(0, len(w.log)-40):] {
		w.t.Log(l)
	}
	w.t.Fatalf(format, args...)
}

func (w *world) trouble(i int) Trouble {
	switch c := w.claims[i]; {
	case w.pods[i] == nil || w.pods[i].going || c == nil:
		return ""
	case i < w.wrong:
		return Mismatch
	case c.unwritten:
		return ReadOnly
	}
	return ""
}

// up says that an etcd with data runs and votes.
func (w *world) up(i int) bool {
	return w.voters[i] && w.pods[i] != nil && !w.pods[i].going && w.claims[i] != nil && w.claims[i].data && w.trouble(i) == "" && w.deaf[i] == 0
}

func (w *world) quorate() bool {
	n := 0
	for i := range w.n {
		if w.up(i) {
			n++
		}
	}
	return n >= quorum(len(w.voters))
}

// live lets everything that is not the operator make a step.
func (w *world) live() {
	w.now = w.now.Add(10 * time.Second)
	if w.setGoing {
		w.set, w.setGoing = false, false
	}
	for i := range w.n {
		if p := w.pods[i]; p != nil && p.going {
			delete(w.pods, i)
		}
		if c := w.claims[i]; c != nil && c.going && w.pods[i] == nil {
			delete(w.claims, i)
			w.gone[c.volume]++
			w.rests[i] = w.r.IntN(2) == 0 // after it tried in vain
			continue                      // its controller sees that a moment later
		}
		if w.rests[i] {
			continue
		}
		if w.set && w.claims[i] == nil {
			w.claims[i] = &simClaim{uid: w.uid(), volume: "pv-" + w.uid(), size: w.template, unwritten: w.badVolumes > 0}
			w.badVolumes = max(0, w.badVolumes-1)
		}
		if w.set && w.pods[i] == nil && !w.claims[i].going {
			w.pods[i] = &simPod{uid: w.uid()}
		}
		w.deaf[i] = max(0, w.deaf[i]-1)
		w.say(i)
		w.join(i)
	}
}

// say writes the EtcdMember, unless the API server is not reached.
func (w *world) say(i int) {
	if w.r.IntN(3) == 0 {
		return
	}
	w.said[i] = w.trouble(i)
	if w.up(i) {
		w.worked[i] = w.now
	}
}

// join has a member with an empty volume join as a learner, and then vote.
func (w *world) join(i int) {
	c := w.claims[i]
	if c == nil || w.pods[i] == nil || w.pods[i].going || w.trouble(i) != "" || !w.quorate() {
		return
	}
	voter, listed := w.voters[i]
	switch {
	case !c.data && voter:
		delete(w.voters, i)
	case !listed:
		w.voters[i] = false
	case !voter && !c.data:
		c.data = true
	case !voter:
		w.voters[i] = true
	}
}

func (w *world) facts() Facts {
	f := Facts{Now: w.now, Acts: true, Want: w.want, Template: w.template, Wanted: w.n, SetGoing: w.setGoing, Reminded: w.reminded, BackupHealthy: true, MembersKnown: w.quorate()}
	if w.set {
		f.SetUID = "set " + w.template.String()
	}
	leader := -1
	for i := range w.n {
		if w.up(i) {
			leader = i
		}
	}
	for i := range w.n {
		m := Member{Ordinal: i, Name: fmt.Sprint(i), Voter: w.voters[i], Healthy: w.up(i), Leader: i == leader, Why: fmt.Sprintf("%d takes no part", i),
			Trouble: w.said[i], Confirmed: w.said[i] == w.trouble(i), Found: "somebody", Worked: w.worked[i]}
		var err error
		if m.Record, err = ParseRecord(w.records[i].String()); err != nil {
			w.fail("%v", err)
		}
		if p := w.pods[i]; p != nil {
			m.Pod, m.PodUID, m.PodGoing = fmt.Sprint(i), p.uid, p.going
		}
		if c := w.claims[i]; c != nil {
			m.Claim = &Claim{Name: fmt.Sprint(i), UID: c.uid, Volume: c.volume, Asks: c.size, Has: c.size, Class: "fixed", Makes: true, Going: c.going}
		}
		if w.voters[i] {
			f.Voters++
		}
		f.Members = append(f.Members, m)
	}
	return f
}

// take carries an action out, if its preconditions hold.
func (w *world) take(a Action) {
	if a.Acts() {
		w.steps++
		w.logf("%s %s: %s", a.Rule, did(a), a.Reason)
	}
	switch a.Kind {
	case WriteDown:
		var i int
		fmt.Sscan(a.Member, &i)
		w.records[i] = a.Record
	case ReplaceTemplate:
		if w.set && !w.setGoing && a.UID == "set "+w.template.String() {
			w.setGoing = true
		}
	case Remind:
		if a.UID == "set "+w.template.String() {
			w.reminded = a.Claim
			clear(w.rests)
		}
	case DeleteClaim:
		for i, c := range w.claims {
			if c.uid == a.UID && !c.going {
				w.checkOthers(i)
				c.going = true
			}
		}
	case DeletePod:
		for i, p := range w.pods {
			if p.uid == a.UID && !p.going {
				w.checkOthers(i)
				p.going = true
				if i < w.wrong {
					w.restarts[i]++
				}
			}
		}
	}
}

// checkOthers: who loses something leaves a majority behind, and nobody else has lost anything.
func (w *world) checkOthers(i int) {
	w.t.Helper()
	n := 0
	for j := range w.n {
		if j != i && w.up(j) && !w.claims[j].going {
			n++
		}
	}
	if n < w.n/2+1 && w.n > 1 {
		w.fail("%d loses something while %d others of %d work", i, n, w.n)
	}
}

// operate is a look of the operator, which also makes a StatefulSet that is missing.
func (w *world) operate(seen Facts) Action {
	if !w.set {
		w.set, w.template = true, w.want
	}
	a := Decide(seen)
	w.take(a)
	return a
}

// Whatever happens between any two steps, and however old what the operator sees is: never are fewer than
// a majority of the members without their data, each volume is given up once at most, and at the end
// everybody has a volume of the wanted size that can be written to.
func TestItConvergesWhateverHappensBetweenTwoSteps(t *testing.T) {
	for seed := range uint64(100) {
		w := newWorld(t, seed, 3+2*int(seed%2))
		w.want = size("20Gi")
		if seed%3 == 0 {
			w.claims[w.r.IntN(w.n)].unwritten = true
		}
		if seed%5 == 0 {
			w.badVolumes = 20 // whatever is made, until a person looks at it
		}
		old := w.facts()
		for step := range 300 {
			if w.r.IntN(10) == 0 && step < 150 && w.quorate() {
				// One etcd does not answer for a while, and nobody else fails meanwhile.
				if i := w.r.IntN(w.n); w.healthyBut(i) {
					w.deaf[i] = 1 + w.r.IntN(3)
					w.logf("%d fails", i)
				}
			}
			seen := w.facts()
			if w.r.IntN(4) == 0 {
				seen.Members, seen.Template, seen.SetUID = stale(seen, old), old.Template, old.SetUID // claims, pods and records are the cache's
			}
			old = w.facts()
			if w.r.IntN(5) > 0 { // else it was killed before the step
				w.operate(seen)
			}
			if a := Decide(w.facts()); a.Rule == "2.5" && step > 200 {
				w.mend() // as a person was told to
			}
			w.live()
		}
		w.checkEnd(seed)
	}
}

// mend makes every volume writable.
func (w *world) mend() {
	for _, c := range w.claims {
		c.unwritten = false
	}
	w.badVolumes = 0
}

// stale is what a cache that is behind gives: claims, pods and records as they were. The sidecars are asked.
func stale(now, old Facts) []Member {
	out := make([]Member, len(now.Members))
	for i, m := range now.Members {
		o := old.Members[i]
		m.Claim, m.Pod, m.PodUID, m.PodGoing, m.Record = o.Claim, o.Pod, o.PodUID, o.PodGoing, o.Record
		out[i] = m
	}
	return out
}

func (w *world) healthyBut(i int) bool {
	for j := range w.n {
		if j != i && !w.up(j) {
			return false
		}
	}
	return true
}

func (w *world) checkEnd(seed uint64) {
	w.t.Helper()
	for volume, n := range w.gone {
		if n > 1 {
			w.fail("seed %d: the volume %s was given up %d times", seed, volume, n)
		}
	}
	if len(w.gone) > 2*w.n {
		w.fail("seed %d: %d volumes of %d members were given up", seed, len(w.gone), w.n)
	}
	a := Decide(w.facts())
	for i := range w.n {
		if !w.up(i) || w.claims[i].size.Cmp(w.want) != 0 {
			w.fail("seed %d: at the end %d has %+v, works %t, and the next is %s %q", seed, i, w.claims[i], w.up(i), a.Rule, a.Reason)
		}
	}
	if a.Kind != None || a.Unmet {
		w.fail("seed %d: at the end the next is %s %q", seed, a.Rule, a.Reason)
	}
}

func TestAWrongVolumeRestartsItsPodOnceWhateverHappens(t *testing.T) {
	for seed := range uint64(100) {
		w := newWorld(t, seed, 3)
		w.wrong = 1
		byOthers := 0
		for range 200 {
			if w.r.IntN(3) > 0 {
				w.operate(w.facts())
			}
			if w.r.IntN(20) == 0 && w.pods[0] != nil {
				w.pods[0].going = true // by a person, or a drain
				byOthers++
			}
			w.live()
		}
		if n := w.restarts[0]; n > 1 || n+byOthers == 0 || len(w.gone) > 0 || w.steps > 2 {
			w.fail("seed %d: the pod was restarted %d times in %d steps, volumes given up: %d; want once, in two, none", seed, n, w.steps, len(w.gone))
		}
	}
}

// Killed after each single step, with each step carried out twice: it goes on where it was.
func TestItGoesOnAfterEachStep(t *testing.T) {
	for kill := 1; ; kill++ {
		w := newWorld(t, 1, 3)
		w.want = size("20Gi")
		w.claims[0].unwritten = true
		for range 200 {
			a := w.operate(w.facts())
			if w.steps == kill {
				w.take(a) // it was done, and nobody remembers
				for range w.r.IntN(5) {
					w.live()
				}
			}
			w.live()
		}
		w.checkEnd(uint64(kill))
		if w.steps < kill {
			if kill < 10 {
				t.Errorf("all was done in %d steps, want at least those of three members", w.steps)
			}
			return
		}
	}
}
