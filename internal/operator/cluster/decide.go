package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/adoption"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/health"
	"druid.internal/druid/internal/operator/hibernation"
	"druid.internal/druid/internal/operator/kube"
	"druid.internal/druid/internal/operator/rollout"
	"druid.internal/druid/internal/operator/volumes"
)

// Settings are what the operator was told for all Etcds.
type Settings struct {
	Images           desired.Images
	AutoReconcile    bool // every change of a specification is acted on
	DisableAutomount bool // of the clusters' ServiceAccounts
	Thresholds       health.Thresholds
}

// Identity is a digest of what makes the pods' template, besides the specification. Templates that
// another operator made, before an upgrade perhaps, are changed only when somebody asks for it.
func (s Settings) Identity() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%+v %t", s.Images, s.DisableAutomount))
	return hex.EncodeToString(sum[:8])
}

// Mode is how much of the specification is acted on.
type Mode string

// The modes.
const (
	// ModeApply: everything is made as the specification says.
	ModeApply Mode = "apply"
	// ModeRepair: everything is made as the specification said when it was applied last, which it
	// still says.
	ModeRepair Mode = "repair"
	// ModeTend: the pods' template and configuration stay as they are, and the number of members; what is
	// missing is made, and the PodDisruptionBudget follows the health of the cluster. If the template or the
	// configuration is missing itself, both are made as the specification says: what it said is not known any more.
	ModeTend Mode = "tend"
	// ModeWatch: nothing is changed, only the status is written.
	ModeWatch Mode = "watch"
)

// modeOf says how much is done, and why. held is the reason of the condition ReconcileHeld; empty: nothing is.
func modeOf(o *Observed, s Settings) (mode Mode, held, why string) {
	e := o.Etcd
	applied := e.Status.ObservedGeneration
	const ask = ", annotate the Etcd with " + druidv1alpha1.AnnotationOperation + "=" + druidv1alpha1.OperationReconcile
	switch {
	case e.Suspended():
		why := "suspended by the annotation " + druidv1alpha1.AnnotationSuspendReconcile
		if c, is := o.Live[Key{"Service", e.ClientServiceName()}].(*corev1.Service); is && !desired.Serves(c) && o.replicas() > 0 {
			why += fmt.Sprintf(", and clients find no member: the Service %s has none of etcd's ports since the cluster began to fall asleep; take the annotation off to have it go on, or serve again with replicas above 0", c.Name)
		}
		return ModeWatch, druidv1alpha1.ReasonSuspended, why
	case e.ReconcileRequested() != "":
		return ModeApply, "", "asked for by the annotation " + e.ReconcileRequested()
	case applied == nil:
		return ModeApply, "", "never applied before"
	case s.AutoReconcile:
		return ModeApply, "", "every change is applied"
	case o.foreign():
		return ModeWatch, druidv1alpha1.ReasonNotTakenOver, "the objects are the original's; to take the cluster over" + ask
	case *applied != e.Generation:
		return ModeTend, druidv1alpha1.ReasonNotRequested, "the specification has changed; to apply it" + ask
	case o.StatefulSet != nil && o.StatefulSet.Annotations[druidv1alpha1.AnnotationAppliedBy] != s.Identity():
		return ModeTend, druidv1alpha1.ReasonOperatorChanged, "the operator has changed; to apply what follows from that" + ask
	}
	return ModeRepair, "", "the specification was applied"
}

// Plan is what is done about an Etcd, in the order of its fields, with the reasons.
type Plan struct {
	Mode Mode
	Held string // the reason of the condition ReconcileHeld; empty: the specification is applied
	Why  string // the mode

	// Sleep is what is done because no member is wanted, or was. Hibernation is status.hibernation as it has to
	// be written before anything else is done; nil: there is none.
	Sleep       hibernation.Step
	Hibernation *druidv1alpha1.HibernationStatus

	Size    rollout.ScaleStep
	Objects []client.Object // that shall be as they are here, in this order but for those of a new cluster
	// Joining are the names of those EtcdMembers in Objects that join a cluster that runs.
	Joining []string
	Remove  []Removal
	// Adoption is what comes before the objects of the original are changed into ours.
	Adoption adoption.Verdict
	// Remount are pods whose kubelet shall mount the ConfigMap anew, which is Configuration.
	Remount       []corev1.Pod
	Configuration string
	// Snapshot must be in the bucket before a step of Size or Pod; nil: none, or it is there.
	Snapshot *Snapshot
	// NoUpgrade: no pod is to get another image of etcd, so a snapshot that was proven for that counts no more.
	NoUpgrade bool
	Pod       rollout.Step // the zero value: every pod has the newest template
	Volumes   volumes.Action

	// Refused is what the specification wants and is not done, with the remedy.
	Refused []string

	Members    []druidv1alpha1.EtcdMemberStatus
	Conditions []druidv1alpha1.Condition

	safe              safety
	healthy           bool     // all members that there are to be now, for the PodDisruptionBudget
	sustained         bool     // though it is refused, what a running cluster needs is kept
	schedules, images []string // that are not as the specification says
}

// Removal is an object that is superfluous.
type Removal struct {
	Object client.Object
	Kind   string
	Reason string
}

// Done says that everything was carried out that the specification wants: nothing is on its way.
func (p Plan) Done() bool {
	return len(p.Refused) == 0 && p.Size.Done && !p.Sleep.DeleteClaims && !p.Sleep.Admit && (p.Pod.Kind == "" || p.Pod.Kind == rollout.Done) && p.Volumes.Done()
}

// Waits says what has to happen before the next step; empty: nothing, or the next look does it.
func (p Plan) Waits() string {
	switch {
	case len(p.Refused) > 0:
		return strings.Join(p.Refused, "; ")
	case p.Size.Waits != "":
		return p.Size.Reason + ": waits for " + p.Size.Waits
	case p.Sleep.Waits != "":
		return p.Sleep.Waits
	case p.Pod.Kind == rollout.Wait:
		return p.Pod.Reason
	case p.Volumes.Kind == volumes.Wait, p.Volumes.Kind == volumes.Report && p.Volumes.Unmet:
		return p.Volumes.Reason
	}
	return ""
}

// Decide says what is done. It depends on its arguments alone.
func Decide(o *Observed, s Settings, now time.Time) (Plan, error) {
	p := Plan{}
	p.Mode, p.Held, p.Why = modeOf(o, s)
	p.Members = health.Members(o.Observation, s.Thresholds, now)
	seen := o.Observation
	if p.Mode == ModeWatch && o.Extension == nil {
		seen.NoExtension = cmp.Or(o.NoExtension, "the operator makes none, "+p.Why)
	}
	p.Conditions = health.Conditions(seen, p.Members, now)
	p.safe = safetyOf(o, p.Conditions)
	p.distrust(o)
	p.healthy = p.allReady(o, now)
	if q := o.Quiet; q != nil && q.healthy == p.healthy && q.backedUp == p.safe.backedUp {
		p.Mode, p.Why, p.Size, p.schedules, p.images = q.mode, q.why, q.size, q.schedules, q.images
		p.hibernate(o, sizeOf(o), now)
		if p.Volumes = q.volumes; p.Volumes.Kind != volumes.None {
			p.decideVolumes(o, now)
		}
		p.conclude(o, now)
		return p, nil
	}
	size := sizeOf(o)
	p.hibernate(o, size, now)
	p.resize(o, size, now)
	in := input(o, s, &p)
	in.OthersLeave = o.othersRun(p.Size.Members, now)
	if p.Mode != ModeWatch && !o.TokenGoing {
		p.refuse(o, in)
		p.distrust(o)
	}
	p.steps(o, size, now)
	p.conclude(o, now)
	if p.Mode == ModeWatch {
		return p, nil
	}
	if o.TokenGoing {
		p.Size = size.keep("the cluster begins")
		p.Pod, p.Volumes, p.Snapshot, p.Sleep, p.Hibernation = rollout.Step{}, volumes.Action{}, nil, hibernation.Step{}, health.Hibernation(o.Observation)
		p.Size.Done, p.Size.Waits = false, "the Secret "+o.Etcd.TokenSecretName()+" of the former Etcd of this name to be gone, which Kubernetes takes away"
		return p, nil
	}
	if len(p.Refused) > 0 {
		p.Hibernation, p.Snapshot = health.Hibernation(o.Observation), nil // nothing begins, and nothing is written down
		p.stayOpen(o)
		p.keepLocked(o)
		return p, p.sustain(o, size, in, now)
	}
	in.MinAvailable = health.MinAvailable(p.Size.Replicas, p.healthy, p.safe.backedUp)
	if p.Mode == ModeTend {
		p.stayOpen(o)
		asRunning(o, in)
	}
	set, err := desired.Objects(in)
	if err != nil {
		return p, err
	}
	p.choose(o, size, in, set, s.Identity())
	p.superfluous(o, size)
	if p.Mode != ModeTend { // which decides nothing about a hibernation
		p.standingTasks(o)
		p.deleteClaims(o)
	} else {
		p.keepLocked(o)
	}
	p.goBy(o, in.Etcd)
	return p, nil
}

// allReady says whether all members are ready: those that there are, as long as nobody asks for more or fewer.
func (p *Plan) allReady(o *Observed, now time.Time) bool {
	n := o.replicas()
	if p.Mode != ModeTend && len(p.Refused) == 0 || n == 0 || n == o.Etcd.Spec.Replicas {
		return holds(p.Conditions, druidv1alpha1.ConditionAllMembersReady)
	}
	applied, e := o.Observation, *o.Etcd
	e.Spec.Replicas = n
	applied.Etcd = &e
	return holds(health.Conditions(applied, p.Members, now), druidv1alpha1.ConditionAllMembersReady)
}

// resize decides how many members there are.
func (p *Plan) resize(o *Observed, size size, now time.Time) {
	if p.Mode == ModeWatch {
		p.Size = size.keep(p.Why)
		return
	}
	if o.foreign() {
		p.Size = size.keep("the cluster of the original is taken over")
		p.Size.Done = false
		return
	}
	p.safe.sleep = p.Sleep.Hold
	switch {
	case p.Mode == ModeTend && o.incomplete():
		p.Size = size.present().step(now, p.safe)
	case p.Mode == ModeTend:
		p.Size = size.keep(p.Why)
	default:
		p.Size = size.step(now, p.safe)
	}
	if p.Size.Waits != "" && o.Unasked != "" {
		p.Size.Waits += " (" + o.Unasked + ")"
	}
}

// steps decides which pod is replaced, what is done about the volumes, and which snapshot comes before that.
func (p *Plan) steps(o *Observed, size size, now time.Time) {
	if p.Mode == ModeWatch || o.foreign() {
		return
	}
	hold := p.Size.Hold
	before := beforeUpgrade(o, p.safe)
	switch p.NoUpgrade = before == nil; {
	case before == nil:
	case size.want == 0: // the next life begins with the image, unless the last full needs what comes with it
		if before = nil; !movesBackup(o) && !slices.ContainsFunc(o.Pods, func(p *corev1.Pod) bool { return !podReady(p) }) {
			hold = cmp.Or(hold, "falling asleep, with the image of etcd that the members have,")
		}
	default:
		hold = cmp.Or(hold, o.Snapshots[before.For].hold("the snapshot before the change of etcd's image"))
	}
	if p.Pod = podStep(o, hold, p.safe, now); p.Pod.Kind == rollout.Wait {
		waits := o.Observation
		waits.RolloutWaits = p.rolloutWaits()
		p.Conditions = health.Conditions(waits, p.Members, now)
	}
	p.decideVolumes(o, now)
	switch {
	case p.Sleep.Take != "":
		p.Snapshot = &Snapshot{For: finalFor(o.Etcd), Final: true, Purpose: p.Sleep.Take}
	case before != nil && o.Snapshots[before.For].due(now):
		p.Snapshot = before
	}
}

// rolloutWaits is why no pod with a former template is replaced; empty: one is, or there is none.
func (p *Plan) rolloutWaits() string {
	if p.Pod.Kind != rollout.Wait {
		return ""
	}
	if named, is := strings.CutPrefix(p.Pod.Reason, "pods with a former template: "); is { // as the condition itself says
		_, why, _ := strings.Cut(named, "; ")
		return why
	}
	return p.Pod.Reason
}

// conclude puts the conditions about the specification beside those about the cluster.
func (p *Plan) conclude(o *Observed, now time.Time) {
	p.Conditions = health.Merge(o.Etcd.Status.Conditions, p.Conditions)
	p.Conditions = ownConditions(p.Conditions, o, *p, now)
	if c, applies := p.hibernated(); applies {
		p.Conditions = druidv1alpha1.SetCondition(p.Conditions, c, metav1.NewTime(now))
	} else if p.Mode == ModeApply || p.Mode == ModeRepair {
		p.Conditions = slices.DeleteFunc(p.Conditions, func(c druidv1alpha1.Condition) bool { return c.Type == druidv1alpha1.ConditionHibernated })
	}
}

// immutabilityOf is what the specification says of locks; nil: nothing.
func immutabilityOf(e *druidv1alpha1.Etcd) *druidv1alpha1.ImmutabilitySpec {
	if !e.BackupsEnabled() {
		return nil
	}
	return e.Spec.Backup.Store.Immutability
}

// safetyOf is what the conditions say about losing a copy of the data.
func safetyOf(o *Observed, conditions []druidv1alpha1.Condition) safety {
	if !o.Etcd.BackupsEnabled() {
		return safety{backedUp: true, noStore: true}
	}
	c := druidv1alpha1.FindCondition(conditions, druidv1alpha1.ConditionBackupReady)
	switch {
	case c == nil:
		return safety{why: "nothing is known of them"}
	case c.Status != druidv1alpha1.ConditionTrue:
		return safety{why: c.Message}
	}
	return safety{backedUp: true}
}

func holds(conditions []druidv1alpha1.Condition, of druidv1alpha1.ConditionType) bool {
	c := druidv1alpha1.FindCondition(conditions, of)
	return c != nil && c.Status == druidv1alpha1.ConditionTrue
}

// input is what the objects are made of: the specification, but for what it says that cannot be, which
// the plan then names.
func input(o *Observed, s Settings, p *Plan) desired.Input {
	e, step := o.Etcd.DeepCopy(), p.Size
	e.SetDefaults()
	var configMap map[string]string
	if o.ConfigMap != nil {
		configMap = o.ConfigMap.Data
	}
	p.schedules = schedules(e, configMap)
	if e.Spec.Etcd.PeerUrlTLS == nil && (step.PeerTLS || step.PeerCertificates) && o.StatefulSet != nil {
		e.Spec.Etcd.PeerUrlTLS = desired.PeerTLSInUse(desired.ReadConfigMap(e, o.ConfigMap), o.StatefulSet.Spec.Template.Spec)
	}
	in := desired.Input{
		Etcd:    e,
		Members: step.Members, Replicas: step.Replicas, PeerTLS: step.PeerTLS, PeerCertificates: step.PeerCertificates,
		Owner:    ownerOf(o),
		TakeOver: e.TakesOverBackups(), Token: o.NewToken, ClaimTemplate: o.keptTemplate(e),
		Original:                       o.foreign() || o.originals(),
		Closed:                         p.Sleep.Closed,
		AtLeast:                        max(atLeast(o.Etcd, p.Hibernation), heldBefore(o.Etcd)),
		LastKnown:                      known(o.Etcd) / knownStep * knownStep,
		FullFirst:                      fullFirst(o.Etcd, p.Hibernation),
		DisableServiceAccountAutomount: s.DisableAutomount,
	}
	in.Images, p.images = desired.ImagesFor(e, s.Images)
	return in
}

// choose takes those objects of the set that the mode allows to be changed.
func (p *Plan) choose(o *Observed, size size, in desired.Input, set desired.Set, identity string) {
	if set.StatefulSet.Annotations == nil {
		set.StatefulSet.Annotations = map[string]string{}
	}
	set.StatefulSet.Annotations[druidv1alpha1.AnnotationAppliedBy] = identity
	for annotation, d := range map[string]string{
		druidv1alpha1.AnnotationBackupChecksum:      backupChecksum(in.Etcd, in.Owner),
		druidv1alpha1.AnnotationBackupMeansChecksum: meansChecksum(in.Etcd),
	} {
		if d != "" {
			set.StatefulSet.Spec.Template.Annotations[annotation] = d
		}
	}
	if p.Size.Replicas == 0 && o.StatefulSet != nil {
		// What lets members stop was decided from this version, and from no older one than there is.
		set.StatefulSet.ResourceVersion = o.StatefulSet.ResourceVersion
	}
	p.pick(o, size, set, p.Mode == ModeTend)
	p.Configuration = configuration(set.ConfigMap)
	p.remount(o)
}

// pick takes all objects of the set, or, of a cluster that is only tended, those that are missing and the PodDisruptionBudget.
func (p *Plan) pick(o *Observed, size size, set desired.Set, tend bool) {
	asleep := p.Size.Replicas == 0 && len(o.Pods) == 0
	for _, object := range set.InOrder() {
		key := keyOf(object)
		if asleep && (key.Kind == kindLease || key.Kind == druidv1alpha1.KindEtcdMember) {
			continue // they come with the pods
		}
		switch key.Kind {
		case druidv1alpha1.KindEtcdMember:
			if n, _ := o.Etcd.MemberOrdinal(key.Name); o.Live[key] == nil && size.joins(n) {
				p.Joining = append(p.Joining, key.Name)
			}
		case "ConfigMap", "StatefulSet":
			if tend && !o.incomplete() {
				continue
			}
		case "PodDisruptionBudget":
		default: // beside pods that are made by the specification everything is
			if live := o.Live[key]; tend && live != nil && !o.incomplete() && !o.reopens(live, object) {
				continue
			}
		}
		if o.Etcd.RuntimeComponentsDisabled() && !staysDisabled(key.Kind) {
			continue
		}
		p.Objects = append(p.Objects, object)
	}
}

// backupChecksum is a digest of where the backups go and in whose name, empty without any.
func backupChecksum(e *druidv1alpha1.Etcd, owner string) string {
	if !e.BackupsEnabled() {
		return ""
	}
	where := *e.Spec.Backup.Store
	where.Immutability, where.Roles = nil, nil
	return digest(where, fmt.Sprintf(" %q %t", owner, e.TakesOverBackups()))
}

// meansChecksum is a digest of what may keep the backups from being made where they go; empty without any.
func meansChecksum(e *druidv1alpha1.Etcd) string {
	if !e.BackupsEnabled() {
		return ""
	}
	b := e.Spec.Backup
	return digest(druidv1alpha1.BackupSpec{Image: b.Image, Resources: b.Resources, EtcdSnapshotTimeout: b.EtcdSnapshotTimeout,
		DeltaSnapshotMemoryLimit: b.DeltaSnapshotMemoryLimit, LeaderElection: b.LeaderElection}, "")
}

// digest of a part of a specification, which can always be written as JSON, and of what follows.
func digest(part any, and string) string {
	b, err := json.Marshal(part)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(append(b, and...))
	return hex.EncodeToString(sum[:8])
}

// ownerOf is in whose name the backups are made.
func ownerOf(o *Observed) string {
	return desired.Owner(o.ClusterUID, o.Etcd)
}

// configuration is a digest of what the sidecars read while they run.
func configuration(c *corev1.ConfigMap) string {
	sum := sha256.Sum256(desired.Followed(c))
	return hex.EncodeToString(sum[:8])
}

// remount finds the pods that were made with another list of members. The kubelet brings a changed
// ConfigMap into them with its next sync of the pod, a minute or more later, and the sidecars remove a
// member that their copy does not list when that lasts for thirty seconds. A change of the pod has
// the kubelet sync it at once, so that all sidecars know of new members before the first one joins.
func (p *Plan) remount(o *Observed) {
	if o.ConfigMap == nil || o.ConfigMap.Data == nil || p.Size.Replicas == 0 {
		return
	}
	if configuration(o.ConfigMap) != p.Configuration {
		return // it is changed now; the next look finds the pods
	}
	changed := appliedAt(o.ConfigMap)
	for _, pod := range o.Pods {
		if pod.DeletionTimestamp == nil && pod.CreationTimestamp.Before(&changed) && pod.Annotations[druidv1alpha1.AnnotationConfigMapRead] != p.Configuration {
			p.Remount = append(p.Remount, *pod)
		}
	}
}

// appliedAt is when an object was changed by the operator last.
func appliedAt(o client.Object) (last metav1.Time) {
	for _, m := range o.GetManagedFields() {
		if m.Manager == kube.FieldManager && m.Subresource == "" && m.Time != nil && last.Before(m.Time) {
			last = *m.Time
		}
	}
	return last
}

// keyOf is the key of an object with its type.
func keyOf(o client.Object) Key {
	return Key{o.GetObjectKind().GroupVersionKind().Kind, o.GetName()}
}
