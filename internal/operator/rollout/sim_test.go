package rollout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// world is a cluster as simple as can be: pods that their StatefulSet makes, and etcds that join,
// vote, are removed and change their scheme as the sidecars have them do it.
type world struct {
	t   *testing.T
	r   *rand.Rand
	now time.Time
	log []string

	want      int32
	wantTLS   bool
	wantRev   int // of the specification
	badRev    map[int]bool
	backup    bool
	listed    int32
	listedTLS bool
	replicas  int32
	rev       int // of the template
	mounted   bool

	pods    map[int]*simPod
	volumes map[int]bool // there are data
	lived   map[int]bool // it is written down that they are members
	voters  map[int]bool // false: a learner
	tls     map[int]bool
	leader  int
	born    bool
	uids    int
}

type simPod struct {
	uid         int
	rev         int
	mounted     bool
	up          bool
	since       time.Time // up or down
	terminating bool
}

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

func (w *world) runs(i int) bool { p := w.pods[i]; return p != nil && p.up && !p.terminating }

// participates says that i votes and is up; without a majority nobody sees a leader.
func (w *world) up() (n int) {
	for i, voter := range w.voters {
		if voter && w.runs(i) {
			n++
		}
	}
	return n
}

func (w *world) count() (n int) {
	for _, voter := range w.voters {
		if voter {
			n++
		}
	}
	return n
}

func (w *world) quorate() bool { return w.count() > 0 && w.up() >= quorum(w.count()) }

// live lets everything that is not the operator make a step.
func (w *world) live() {
	w.now = w.now.Add(10 * time.Second)
	for i, p := range w.pods {
		if p.terminating || i >= int(w.replicas) {
			delete(w.pods, i)
		} else if bad := w.badRev[p.rev]; !p.up && !bad && w.now.Sub(p.since) >= 10*time.Second {
			p.up, p.since = true, w.now
		}
	}
	for i := range int(w.replicas) {
		if w.pods[i] == nil {
			w.uids++
			w.pods[i] = &simPod{uid: w.uids, rev: w.rev, mounted: w.mounted, since: w.now}
			w.volumes[i] = true
		}
	}
	if !w.born {
		all := w.listed > 0
		for i := range int(w.listed) {
			all = all && w.runs(i)
		}
		if all {
			w.born, w.leader = true, 0
			for i := range int(w.listed) {
				w.voters[i], w.tls[i] = true, w.listedTLS
			}
		}
		return
	}
	if !w.quorate() {
		return
	}
	if !w.voters[w.leader] || !w.runs(w.leader) {
		for i := range 9 {
			if w.voters[i] && w.runs(i) {
				w.leader = i
			}
		}
	}
	w.sidecars()
}

// sidecars change at most one member.
func (w *world) sidecars() {
	for i := range 9 {
		voter, member := w.voters[i]
		switch {
		case member && i >= int(w.listed):
			voters, up := w.count(), w.up()
			if voter {
				voters--
				if w.runs(i) {
					up--
				}
			}
			if up >= quorum(voters) && up > 0 && (i != w.leader || voters > 0) {
				delete(w.voters, i)
				w.logf("sidecars removed %d", i)
				return
			}
		case !member && i < int(w.listed) && w.runs(i):
			if !slices.Contains(w.learners(), true) {
				w.voters[i], w.tls[i] = false, w.listedTLS
				w.logf("sidecars added %d", i)
				return
			}
		case member && !voter && w.runs(i):
			w.voters[i] = true
			return
		}
	}
	for i := range int(w.listed) {
		if !w.voters[i] || !w.runs(i) {
			return
		}
	}
	for i := range int(w.listed) {
		if w.tls[i] != w.listedTLS {
			if w.listedTLS && !w.pods[i].mounted {
				w.fail("member %d is to use certificates that its pod has not", i)
			}
			w.tls[i] = w.listedTLS
			w.logf("sidecars moved %d", i)
			return
		}
	}
}

func (w *world) learners() (out []bool) {
	for _, voter := range w.voters {
		out = append(out, !voter)
	}
	return out
}

func (w *world) scaleFacts() ScaleFacts {
	f := ScaleFacts{Want: w.want, WantPeerTLS: w.wantTLS, Listed: w.listed, PeerTLS: w.listedTLS, Replicas: w.replicas,
		MembersKnown: w.quorate(), Unborn: !w.born, Mounted: w.mounted, BackupHealthy: w.backup}
	for i := range w.volumes {
		f.Volumes = max(f.Volumes, int32(i)+1)
	}
	for i := range w.lived {
		f.Lived = max(f.Lived, int32(i)+1)
	}
	f.Pods, f.Idle = len(w.pods), len(w.pods) > 0
	for i, p := range w.pods {
		if w.voters[i] && w.runs(i) && w.quorate() || w.now.Sub(p.since) < IdleGrace {
			f.Idle = false
		}
		if !p.mounted {
			f.Uncertified = append(f.Uncertified, fmt.Sprint(i))
		}
	}
	for i, voter := range w.voters {
		if f.MembersKnown {
			f.Members = append(f.Members, Member{Ordinal: i, Name: fmt.Sprint(i), Voter: voter, Healthy: voter && w.runs(i),
				Down: !w.runs(i) && (w.pods[i] == nil || w.now.Sub(w.pods[i].since) >= IdleGrace), PeerTLS: w.tls[i]})
		}
	}
	return f
}

func (w *world) facts(s ScaleStep) Facts {
	f := Facts{Now: w.now, Replicas: w.replicas, Observed: true, MembersHealthy: true, BackupHealthy: w.backup, Hold: s.Hold}
	if w.quorate() {
		f.Voters = w.count()
	}
	for i, p := range w.pods {
		voter := w.voters[i] && w.runs(i) && w.quorate()
		q := Pod{Name: fmt.Sprint(i), UID: fmt.Sprint(p.uid), Ordinal: i, UpToDate: p.rev == w.rev, Ready: voter, Alive: p.up,
			Participating: voter, Leader: voter && w.leader == i, Terminating: p.terminating}
		if !voter && w.r.IntN(4) > 0 { // else nobody knows
			q.IdleSince = p.since
		}
		f.Pods = append(f.Pods, q)
		f.MembersHealthy = f.MembersHealthy && voter
	}
	return f
}

// note writes down who is a member, and who is none any more.
func (w *world) note() {
	if w.want == 0 && w.replicas == 0 && len(w.pods) == 0 {
		clear(w.lived)
	}
	if !w.quorate() {
		return
	}
	for i := range w.voters {
		w.lived[i] = true
	}
	for i := range w.lived {
		if _, member := w.voters[i]; !member && i >= max(int(w.listed), int(w.replicas)) {
			delete(w.lived, i)
		}
	}
}

// operate is one reconciliation, which may be killed after any step, and carries steps out twice.
func (w *world) operate() {
	w.note()
	s := Scale(w.scaleFacts())
	w.check(s)
	killed := func() bool { return w.r.IntN(6) == 0 }
	if s.Members != w.listed || s.PeerTLS != w.listedTLS || s.Replicas != w.replicas {
		w.logf("scale: want %d/%t: list %d, tls %t, replicas %d->%d: %s; %s", w.want, w.wantTLS, s.Members, s.PeerTLS, w.replicas, s.Replicas, s.Reason, s.Waits)
	}
	w.listed, w.listedTLS = s.Members, s.PeerTLS
	if killed() {
		return
	}
	w.replicas = s.Replicas
	if w.rev != w.wantRev*2+one(s.PeerCertificates) {
		w.rev, w.mounted = w.wantRev*2+one(s.PeerCertificates), s.PeerCertificates
	}
	if killed() {
		return
	}
	f := w.facts(s)
	for range 1 + w.r.IntN(2) { // the second time with what was the case before
		step := Next(f)
		if step.Kind == Delete {
			w.logf("%s %s: %s", step.Kind, step.Pod, step.Reason)
			w.remove(step)
		}
		if w.r.IntN(3) == 0 {
			w.live()
		}
	}
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// check is what holds of every change of size.
func (w *world) check(s ScaleStep) {
	if s.Replicas > max(s.Members, w.replicas) {
		w.fail("%d pods, but %d members are listed", s.Replicas, s.Members)
	}
	if s.Replicas < w.replicas && w.want > 0 {
		for i := range w.voters {
			if i >= int(s.Replicas) {
				w.fail("the pod of member %d goes while it is a member", i)
			}
		}
	}
	if s.PeerTLS && !w.listedTLS && w.born && w.replicas > 0 {
		for i, p := range w.pods {
			if !p.mounted && w.voters[i] && w.want > 0 {
				w.fail("https is listed while pod %d has no certificates", i)
			}
		}
	}
}

// remove deletes a pod under the step's precondition, and is what holds of every deletion.
func (w *world) remove(s Step) {
	var i int
	_, _ = fmt.Sscan(s.Pod, &i)
	p := w.pods[i]
	if p == nil || fmt.Sprint(p.uid) != s.UID || p.terminating {
		return // a precondition
	}
	before, voters, leads := w.quorate(), w.count(), w.quorate() && w.leader == i && w.voters[i] && w.runs(i)
	p.terminating, p.up = true, false
	if before && voters > 1 && !w.quorate() {
		w.fail("the deletion of %d broke the quorum of %d: %s", i, voters, s.Reason)
	}
	n := 0
	for j, o := range w.pods {
		if o.terminating {
			n++
		}
		if leads && voters > 1 && o.rev != w.rev && j != i {
			w.fail("the leader %d was replaced before %d", i, j)
		}
	}
	if n > 1 {
		w.fail("%d pods are replaced at once", n)
	}
}

// disturb lets something happen that nobody asked for, or somebody change his mind.
func (w *world) disturb() {
	switch w.r.IntN(14) {
	case 0, 1: // a minority fails
		for i, p := range w.pods {
			if w.voters[i] && p.up && w.up()-1 < quorum(w.count()) && w.count() > 1 {
				continue
			}
			p.up, p.since = false, w.now
			w.logf("%d fails", i)
			return
		}
	case 2:
		w.backup = !w.backup
	case 3:
		w.want = []int32{0, 1, 3, 3, 5}[w.r.IntN(5)]
	case 4:
		w.wantTLS = !w.wantTLS
	case 5:
		w.wantRev++
	case 6:
		w.wantRev++
		w.badRev[w.wantRev*2], w.badRev[w.wantRev*2+1] = true, true
		w.logf("revision %d will not run", w.wantRev)
	case 7: // somebody has fewer pods
		if w.born && w.replicas > 0 {
			w.replicas = w.r.Int32N(w.replicas)
			w.logf("somebody wants %d replicas", w.replicas)
		}
	}
}

func TestWhateverHappensTheQuorumIsKeptAndTheEndIsReached(t *testing.T) {
	for seed := range uint64(1000) {
		w := &world{t: t, r: rand.New(rand.NewPCG(seed, 5)), now: testNow, want: []int32{1, 3, 5}[seed%3], wantTLS: seed%2 == 0, backup: true,
			badRev: map[int]bool{}, pods: map[int]*simPod{}, volumes: map[int]bool{}, voters: map[int]bool{}, tls: map[int]bool{}, lived: map[int]bool{}}
		for range 60 {
			if w.r.IntN(3) == 0 {
				w.disturb()
			}
			w.operate()
			if w.r.IntN(4) > 0 {
				w.live()
			}
		}
		// Then whatever was wrong is put right, and nothing happens any more.
		w.logf("-- calm")
		w.want, w.backup = []int32{0, 1, 3, 5}[w.r.IntN(4)], true
		w.wantRev++
		for range 400 {
			w.operate()
			w.live()
			if w.converged() {
				break
			}
		}
		if !w.converged() {
			s := Scale(w.scaleFacts())
			w.fail("seed %d: it does not end: %+v\n%+v\n%+v", seed, w.scaleFacts(), s, Next(w.facts(s)))
		}
	}
}

func (w *world) converged() bool {
	s := Scale(w.scaleFacts())
	if !s.Done || len(w.pods) != int(w.want) || w.want > 0 && (w.count() != int(w.want) || len(w.voters) != int(w.want)) {
		return false
	}
	for i, p := range w.pods {
		if p.rev/2 != w.wantRev || w.tls[i] != w.wantTLS || p.mounted != w.wantTLS {
			return false
		}
	}
	return w.want == 0 || Next(w.facts(s)).Kind == Done
}
