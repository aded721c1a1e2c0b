package operator_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/agentapi/httpserver"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/operator/desired"
)

// town is the etcd cluster of one namespace: members that join, vote, move and leave as the sidecars
// have them do it. It notes what must never happen.
type town struct {
	namespace string
	class     string // of its volumes

	mu       sync.Mutex
	view     *view
	lodgers  map[int]*lodger // pods whose containers run
	members  map[int]*citizen
	data     map[types.UID]bool // of which claims there are data
	volumes  map[int]types.UID  // claims that were bound, by ordinal
	taken    bool               // a snapshot was, since the specification changed last
	proven   bool               // and was found to be good
	looked   bool               // and a run of the extension found it
	begun    int                // clusters
	leader   int
	revision int64
	awake    bool                // there was a majority since it slept
	linked   bool                // clients have connections from when they found the members
	readOnly types.UID           // a claim whose volume cannot be written to
	foreign  types.UID           // a pod at which another volume than its claim's is
	road     *road               // nil, or what calls of an operator come by
	fulls    []agentapi.Snapshot // that were taken
	corrupt  int                 // so many of the first of them cannot be restored
	ahead    time.Duration       // is the clock of the node that all members are on
	hold     chan struct{}       // nil, or what snapshots wait for to be closed
	told     map[string]string
	made     map[types.UID]bool // of which claims there is a volume
	wrong    []string
	leaves   bool   // its Etcd is deleted
	refused  string // why the store takes nothing of this cluster, until it is to take the prefix over
}

// citizen is a member as etcd lists it.
type citizen struct{ voter, tls bool }

func majority(n int) int { return n/2 + 1 }

// runs: the containers of a member run, with its volume, which can be written to.
func (w *town) runs(n int) bool {
	p := w.lodgers[n]
	return p != nil && p.claim != w.readOnly && p.uid != w.foreign
}

// votes: the member has data and a vote, and is there.
func (w *town) votes(n int) bool {
	c := w.members[n]
	return c != nil && c.voter && w.runs(n) && w.data[w.lodgers[n].claim]
}

func (w *town) counts() (voters, up int) {
	for n, c := range w.members {
		if c.voter {
			voters++
		}
		if w.votes(n) {
			up++
		}
	}
	return voters, up
}

func (w *town) quorate() bool {
	voters, up := w.counts()
	return voters > 0 && up >= majority(voters)
}

// sick: a volume that cannot be written to is still somebody's, a wrong one at a pod, or nobody looked yet.
func (w *town) sick() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.view == nil {
		return true
	}
	for _, c := range w.view.claims {
		if c.UID == w.readOnly {
			return true
		}
	}
	for _, p := range w.lodgers {
		if p.uid == w.foreign {
			return true
		}
	}
	return false
}

// goes: its Etcd is deleted.
func (w *town) goes() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.leaves
}

func (w *town) takesPart(n int) bool { return w.votes(n) && w.quorate() }

// keeps notes volumes that went, of a class whose volumes are never replaced.
func (w *town) keeps() {
	if e := w.view.etcd; e.Spec.Replicas == 0 && !e.KeepsVolumes() {
		clear(w.volumes) // those that come with the pods are others
		return
	}
	for n, c := range w.view.claims {
		if w.volumes[n] == "" {
			w.volumes[n] = c.UID
		}
	}
	for n, was := range w.volumes {
		if c := w.view.claims[n]; w.class == "grows" && (c == nil || c.UID != was || c.DeletionTimestamp != nil) {
			w.noteLocked("the volume of member %d went", n)
		}
	}
}

// live makes one step of the cluster.
func (w *town) live() {
	w.keeps()
	live := desired.ReadConfigMap(w.view.etcd, w.view.config)
	listed, replicas := int(live.Members), 0
	if s := w.view.set; s != nil && s.Spec.Replicas != nil {
		replicas = int(*s.Spec.Replicas)
	}
	sleeps := w.view.etcd.Spec.Replicas == 0 || w.view.etcd.DeletionTimestamp != nil || w.leaves
	if sleeps {
		w.awake = false
	}
	if w.begun == 0 {
		w.begin(listed, live.PeerTLS)
		return
	}
	if !w.quorate() && !w.remains() && len(w.fulls) > 0 {
		w.restore(listed, live.PeerTLS)
		return
	}
	if !w.quorate() {
		w.linked = false
		if voters, up := w.counts(); w.awake && voters > 1 {
			w.noteLocked("the majority was lost: %d of %d members that vote are there", up, voters)
		}
		return
	}
	if !w.awake && !sleeps {
		w.anotherLife()
	}
	w.awake = !sleeps
	if w.linked = w.linked || w.open(); w.writes() {
		w.revision++
	}
	if !w.votes(w.leader) {
		for n := range 9 {
			if w.votes(n) {
				w.leader = n
			}
		}
	}
	if w.view.set != nil && w.view.set.DeletionTimestamp == nil && !sleeps && replicas > 0 {
		for n := range w.members {
			if n >= replicas {
				w.noteLocked("no pod is wanted any more for member %d, which is one", n)
			}
		}
	}
	w.upkeep(listed, live.PeerTLS)
}

// writes: clients do, all the time, as long as they have a connection to a member that serves them.
func (w *town) writes() bool {
	for n := range w.members {
		if w.linked && w.votes(n) && w.lodgers[n].serves() {
			return true
		}
	}
	return false
}

// open: clients find the members.
func (w *town) open() bool {
	s := w.view.clients
	return s != nil && slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == "client" })
}

// remains: there is a volume with data.
func (w *town) remains() bool {
	for _, c := range w.view.claims {
		if w.data[c.UID] {
			return true
		}
	}
	return len(w.view.claims) == 0
}

// restore begins anew from the newest full when everybody who is listed is there.
func (w *town) restore(listed int, tls bool) {
	if newest := w.fulls[len(w.fulls)-1]; newest.LastRevision != w.revision {
		w.noteLocked("the cluster begins anew with revision %d, and clients were told %d", newest.LastRevision, w.revision)
	}
	w.members = map[int]*citizen{}
	if w.begin(listed, tls); w.awake {
		w.anotherLife()
	}
}

// anotherLife: the backup leader begins, and takes a full if the newest is a final one.
func (w *town) anotherLife() {
	if w.newest().IsFinal {
		w.full(false)
	}
}

// begin begins a cluster when everybody who is listed is there.
func (w *town) begin(listed int, tls bool) {
	for n := range listed {
		if !w.runs(n) {
			return
		}
	}
	if listed == 0 {
		return
	}
	w.begun++
	for n := range listed {
		w.members[n], w.data[w.lodgers[n].claim] = &citizen{voter: true, tls: tls}, true
	}
	w.awake = true
}

// upkeep changes at most one member, as sidecars do.
func (w *town) upkeep(listed int, tls bool) {
	voters, up := w.counts()
	for n := range 9 {
		c := w.members[n]
		switch {
		case c != nil && n >= listed && listed > 0:
			if w.votes(n) {
				voters, up = voters-1, up-1
			} else if c.voter {
				voters--
			}
			if voters > 0 && up >= majority(voters) {
				delete(w.members, n)
				return
			}
		case c != nil && w.runs(n) && !w.data[w.lodgers[n].claim] && c.voter:
			delete(w.members, n) // it comes again, without its data
			return
		case c == nil && n < listed && w.runs(n):
			w.members[n] = &citizen{tls: tls}
			return
		case c != nil && !c.voter && w.runs(n):
			w.data[w.lodgers[n].claim], c.voter = true, true
			return
		}
	}
	for n, c := range w.members {
		if c.tls != tls && n < listed && w.votes(n) && up == voters && voters == len(w.members) {
			if tls && !w.lodgers[n].certificates {
				w.noteLocked("member %d is to use certificates that its pod has not", n)
			}
			c.tls = tls
			return
		}
	}
}

func memberID(n int) string { return fmt.Sprintf("%016x", 0xa0+n) }

// memberStatus is what the sidecar of a member writes: its EtcdMember, and the holder of its Lease.
func (w *town) memberStatus(n int) (druidv1alpha1.MemberReport, string) {
	id, cluster, c := memberID(n), "00000000000000c1", w.members[n]
	leads := w.leader == n && w.takesPart(n)
	role, sub := druidv1alpha1.EtcdRoleMember, druidv1alpha1.MemberFollower
	if leads {
		role, sub = druidv1alpha1.EtcdRoleLeader, druidv1alpha1.MemberLeader
	}
	s := druidv1alpha1.MemberReport{ID: &id, ClusterID: &cluster, State: druidv1alpha1.MemberStarted, SubState: sub, Revision: w.revision, BackupLeader: leads}
	since := metav1.NewTime(w.view.etcd.CreationTimestamp.Add(w.ahead))
	t := druidv1alpha1.MemberTransition{State: s.State, SubState: sub, TransitionTime: since, Reason: "Story", Message: "as the story goes"}
	switch {
	case w.lodgers[n].claim == w.readOnly:
		s.State, s.SubState, t.State, t.SubState, t.Reason = "Starting", "", "Starting", "", druidv1alpha1.MemberReasonVolumeReadOnly
	case w.lodgers[n].uid == w.foreign:
		s.State, s.SubState, t.State, t.SubState, t.Reason = "Starting", "", "Starting", "", druidv1alpha1.MemberReasonVolumeMismatch
		s.VolumeMismatches = []druidv1alpha1.VolumeMismatch{{IdentifiedAt: since, VolumeID: "somebody's"}}
	case c == nil || !w.takesPart(n):
		s.State, s.SubState, t.State, t.SubState = "Starting", "", "Starting", ""
	}
	if c != nil {
		s.PeerTLSEnabled = &c.tls
	}
	s.Transitions = []druidv1alpha1.MemberTransition{t}
	if leads && w.view.etcd.BackupsEnabled() {
		now := metav1.NewTime(w.clock().Truncate(10 * time.Second))
		s.Snapshots = &druidv1alpha1.MemberSnapshots{LastFull: &druidv1alpha1.MemberSnapshot{Timestamp: now, Name: "Full", EndRevision: w.revision, Taken: true}, NothingNew: &now}
		if newest := w.newest(); newest.SnapName != "" {
			s.Snapshots.LastFull = &druidv1alpha1.MemberSnapshot{Timestamp: metav1.NewTime(newest.CreatedOn), Name: newest.SnapName, EndRevision: newest.LastRevision, Taken: true}
		}
		if store := w.view.etcd.Spec.Backup.Store; store != nil && store.Immutability != nil {
			until := metav1.NewTime(now.Add(locked))
			s.Snapshots.Bucket = &druidv1alpha1.BackupStatus{LookedAt: now, ProtectionLevel: "compliance", ProtectedUntil: &until, Protection: "locked"}
		}
		if w.refused != "" {
			s.Snapshots = &druidv1alpha1.MemberSnapshots{Failure: &druidv1alpha1.SnapshotFailure{Since: since, Reason: druidv1alpha1.ReasonStoreOwnedByAnother, Message: w.refused}}
		}
	}
	return s, fmt.Sprintf("%s:%s:%s", id, "c1", role)
}

// sidecar answers as the one of a member.
func (w *town) sidecar(n int) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		road, hold := w.road, w.hold
		w.mu.Unlock()
		if road != nil && road.isDead() {
			panic(http.ErrAbortHandler)
		}
		goes, answered := true, true
		if r.Method == http.MethodPost && road != nil {
			if road.turnsAway("POST " + r.URL.Path) {
				out.Header().Set("Retry-After", "1")
				httpserver.Text(out, http.StatusServiceUnavailable, agentapi.ErrUnavailable.Error())
				return
			}
			goes, answered = road.enter("POST "+r.URL.Path, "")
		}
		if !goes {
			panic(http.ErrAbortHandler)
		}
		if !answered {
			defer road.over()
		}
		if hold != nil && r.Method == http.MethodPost && r.URL.Path != agentapi.Clients {
			select {
			case <-hold:
			case <-r.Context().Done():
				return
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		answer := func(v any) {
			if !answered {
				panic(http.ErrAbortHandler)
			}
			_ = json.NewEncoder(out).Encode(v)
		}
		now := w.clock()
		switch r.URL.Path {
		case agentapi.MemberPath:
			answer(w.memberAnswer(n))
		case agentapi.Full:
			w.taken = true
			answer(w.full(r.FormValue("final") == "true"))
		case agentapi.Delta:
			answer(nil)
		case agentapi.Latest:
			var l agentapi.LatestSnapshots
			if n := len(w.fulls); n > 0 {
				l.FullSnapshot = &w.fulls[n-1]
			}
			answer(l)
		case agentapi.Verify:
			op := agentapi.Operation{Kind: "verify", Status: agentapi.Success, Start: now}
			switch newest := w.newest(); {
			case len(w.fulls) <= w.corrupt:
				op.Status, op.Message = agentapi.Failed, newest.SnapName+" is damaged"
			default:
				w.proven = w.taken
				op.Proved = &agentapi.Proved{Base: newest.SnapName, EndRevision: newest.LastRevision}
			}
			answer(op)
		case agentapi.Clients:
			d, err := agentapi.ParseRefuse(r.FormValue("refuse"))
			if p := w.lodgers[n]; err != nil || p == nil {
				http.Error(out, fmt.Sprint(err), http.StatusBadRequest)
			} else {
				answer(p.refuse(d))
			}
		case agentapi.Operations:
			answer([]agentapi.Operation{{Kind: "verify", Status: agentapi.Success, Start: now}})
		default:
			http.NotFound(out, r)
		}
	})
}

// clock is that of the members' node.
func (w *town) clock() time.Time { return time.Now().Add(w.ahead) }

// locked is for how long each full is.
const locked = 96 * time.Hour

// full takes one. As with sidecars its name tells a later time than that of the one before.
func (w *town) full(final bool) agentapi.Snapshot {
	now := w.clock().Truncate(time.Second)
	if last := w.newest().CreatedOn; !now.After(last) {
		now = last.Add(time.Second)
	}
	w.looked = false
	name := snapshot.Name{Kind: snapshot.Full, Last: snapshot.Revision(w.revision), Created: now.Unix(), Compression: snapshot.Zstd, Final: final}
	w.fulls = append(w.fulls, agentapi.Snapshot{
		SnapName: name.String(), CreatedOn: now, LastRevision: w.revision, Size: 4096, IsFinal: final,
		ContentRevision: w.revision, ImmutableUntil: now.Add(locked),
	})
	return w.newest()
}

// newest is the full that was taken last; without a name: none was.
func (w *town) newest() agentapi.Snapshot {
	if len(w.fulls) == 0 {
		return agentapi.Snapshot{}
	}
	return w.fulls[len(w.fulls)-1]
}

func (w *town) memberAnswer(n int) agentapi.Member {
	e, c := w.view.etcd, w.members[n]
	m := agentapi.Member{Name: e.MemberName(n), BackupLeader: w.leader == n && w.takesPart(n), Data: agentapi.Data{State: agentapi.DataMissing}}
	if p := w.lodgers[n]; p != nil && w.data[p.claim] {
		m.ID, m.ClusterID, m.Data.State = memberID(n), "00000000000000c1", agentapi.DataValid
	}
	m.Refusal = &agentapi.Refusal{}
	if p := w.lodgers[n]; p != nil {
		*m.Refusal = p.refusal()
	}
	switch p := w.lodgers[n]; {
	case p == nil:
	case p.claim == w.readOnly:
		m.Transitions = []agentapi.Transition{{Reason: agentapi.VolumeReadOnly}}
	case p.uid == w.foreign:
		m.Transitions = []agentapi.Transition{{Reason: agentapi.VolumeMismatch}}
	}
	if c == nil || !w.takesPart(n) {
		return m
	}
	m.PeerTLSEnabled = c.tls
	m.Etcd = &agentapi.Etcd{Version: "3.6.16", Revision: w.revision, Leader: memberID(w.leader), Learner: !c.voter}
	for i, c := range w.members {
		scheme := "http"
		if c.tls {
			scheme = "https"
		}
		m.Etcd.Members = append(m.Etcd.Members, agentapi.Listed{ID: memberID(i), Name: e.MemberName(i), Learner: !c.voter, PeerURLs: []string{scheme + "://" + e.PeerHost(i) + ":2380"}})
	}
	return m
}

// judge notes a step of the operator that must not be taken.
func (w *town) judge(step, body string) {
	method, what, _ := strings.Cut(step, " ")
	kind, name, _ := strings.Cut(what, "/")
	w.mu.Lock()
	defer w.mu.Unlock()
	if method == http.MethodPatch && kind == "statefulsets" && strings.Contains(body, `"replicas":0,`) {
		h := w.view.etcd.Status.Hibernation
		switch newest := w.newest(); {
		case !w.proven:
			w.noteLocked("the last pods are to go without a snapshot that was found to be good")
		case newest.LastRevision != w.revision:
			w.noteLocked("the last pods are to go with revision %d, and the final snapshot has %d", w.revision, newest.LastRevision)
		case w.open(), w.writes():
			w.noteLocked("the last pods are to go while clients write")
		case h != nil && h.FinalSnapshot != nil && slices.ContainsFunc(w.fulls[:min(w.corrupt, len(w.fulls))], func(s agentapi.Snapshot) bool { return s.SnapName == h.FinalSnapshot.Name }):
			w.noteLocked("the last pods are to go with a final snapshot that is damaged")
		}
	}
	if method == http.MethodPost && w.leaves {
		w.noteLocked("%s is made while the Etcd is deleted", what)
	}
	if method != http.MethodDelete || w.view == nil {
		return
	}
	if (kind == "etcdoperatortasks" || kind == "cronjobs") && w.newest().IsFinal && !w.leaves {
		w.noteLocked("%s was deleted, and nothing is newer than %s", what, w.newest().SnapName)
	}
	if w.leaves || w.view.etcd.DeletionTimestamp != nil || w.view.etcd.Spec.Replicas == 0 {
		if kind == "persistentvolumeclaims" && (w.leaves || w.view.etcd.KeepsVolumes() || !w.proven || w.view.set == nil || *w.view.set.Spec.Replicas > 0) {
			w.noteLocked("%s was deleted, of which only the volumes stay", what)
		}
		if store := w.view.etcd.Spec.Backup.Store; kind == "persistentvolumeclaims" && !w.looked && store != nil && store.Immutability != nil {
			w.noteLocked("%s was deleted by the word of a member", what)
		}
		return // the pods go with their StatefulSet, and nobody is asked
	}
	e := w.view.etcd
	switch kind {
	case "pods":
		n, _ := e.PodOrdinal(name)
		w.farewell(n, "the pod "+name)
		for i := range w.members {
			if i != n && w.lodgers[i] == nil {
				w.noteLocked("%s was deleted while the pod of member %d was away", name, i)
			}
		}
	case "persistentvolumeclaims":
		for n, c := range w.view.claims {
			if c.Name == name {
				w.farewell(n, "the claim "+name)
			}
		}
	case "statefulsets":
		if !strings.Contains(body, `"Orphan"`) {
			w.noteLocked("the StatefulSet was deleted with its pods: %s", body)
		}
	case "etcdmembers":
		if n, _ := e.MemberOrdinal(name); w.members[n] != nil {
			w.noteLocked("the EtcdMember %s was deleted, which is a member", name)
		}
	case "leases", "etcdoperatortasks", "cronjobs":
	default:
		w.noteLocked("%s was deleted", what)
	}
}

// farewell notes that a cluster of several members cannot do without one for a while.
func (w *town) farewell(n int, what string) {
	voters, up := w.counts()
	if w.votes(n) {
		up--
	}
	if voters > 1 && up < majority(voters) {
		w.noteLocked("%s was deleted, without which %d of %d members that vote are there", what, up, voters)
	}
}
