package cluster

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/health"
	"druid.internal/druid/internal/operator/kube"
)

// statusOf is the status after a plan was carried out. It depends on its arguments alone.
func statusOf(o *Observed, p Plan, out outcome, run string, now time.Time) druidv1alpha1.EtcdStatus {
	e := o.Etcd
	s := e.Status // of which fields are replaced, and nothing within them is changed
	s.Conditions = p.Conditions
	if out.set && e.NoMembers() == "" {
		s.Conditions = health.TemplateChanged(p.Conditions, e.Status.Conditions, now)
	}
	s.MemberRefs = refs(o)
	s.LastKnownRevision, s.LastBackup = revision(o), lastBackup(o)
	s.Replicas, s.CurrentReplicas, s.ReadyReplicas, s.UpdatedReplicas, s.Etcd = 0, 0, 0, 0, nil
	if set := o.StatefulSet; set != nil {
		s.Etcd = &druidv1alpha1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: set.Name}
		s.Replicas, s.ReadyReplicas = set.Status.Replicas, set.Status.ReadyReplicas
		s.UpdatedReplicas = s.Replicas - int32(len(outdated(o)))
		// A StatefulSet that replaces no pods by itself does not count them; here they are those of
		// the newest revision.
		s.CurrentReplicas = s.UpdatedReplicas
	}
	ready := holds(s.Conditions, druidv1alpha1.ConditionAllMembersReady)
	s.Ready = &ready
	selector := labels.SelectorFromSet(e.MemberPodLabels()).String()
	s.Selector = &selector
	s.PeerUrlTLSEnabled = peerTLS(o)
	if found := health.Backup(o.Observation); found != nil {
		s.Backup = &druidv1alpha1.EtcdBackupStatus{BackupStatus: *found, Proof: health.Proof(o.Observation), Identities: identities(e, p)}
	} else {
		s.Backup = nil
	}
	s.Hibernation = p.Hibernation
	s.BootstrapWithExistingCluster = joined(s, e)
	report(&s, e, p, out, run, now)
	forFormerReaders(&s, o, p)
	return s
}

// identities is how far they are apart. What is not applied, or refused, changes nothing.
func identities(e *druidv1alpha1.Etcd, p Plan) druidv1alpha1.BackupIdentities {
	if b := e.Status.Backup; b != nil && b.Identities != "" && (p.Mode == ModeWatch || p.Mode == ModeTend || len(p.Refused) > 0) {
		return b.Identities
	}
	return e.Identities()
}

// forFormerReaders writes what is deprecated: for readers, not for us.
//
//nolint:staticcheck // as it says
func forFormerReaders(s *druidv1alpha1.EtcdStatus, o *Observed, p Plan) {
	size := o.Etcd.Spec.Replicas
	s.Members, s.ClusterSize, s.ServiceName, s.LastError = p.Members, &size, nil, nil
	s.LabelSelector = &metav1.LabelSelector{MatchLabels: o.Etcd.MemberPodLabels()}
	if o.StatefulSet != nil {
		name := o.Etcd.ClientServiceName()
		s.ServiceName = &name
	}
	if len(s.LastErrors) > 0 {
		s.LastError = &s.LastErrors[0].Description
	}
}

// report writes what became of the plan.
func report(s *druidv1alpha1.EtcdStatus, e *druidv1alpha1.Etcd, p Plan, out outcome, run string, now time.Time) {
	if p.Mode == ModeWatch {
		return
	}
	for _, refused := range p.Refused {
		err := fmt.Errorf("%s", refused)
		told := slices.ContainsFunc(e.Status.LastErrors, func(b druidv1alpha1.LastError) bool { return b.Code == codeRefused && b.Description == message(err) })
		if p.Mode != ModeTend || told || refused == tokenTaken(e) { // what nobody has asked for is refused when somebody does
			out.fail(codeRefused, err)
		}
	}
	s.LastErrors = lastErrors(s.LastErrors, out.failures, now)
	if unheardOf(out.failures) {
		s.LastErrors = nil
	}
	if p.Mode == ModeTend {
		s.LastErrors = append(s.LastErrors, p.untried(e.Status.LastErrors)...)
		s.LastErrors = s.LastErrors[:min(len(s.LastErrors), mostErrors)]
		return
	}
	kind := druidv1alpha1.LastOperationReconcile
	if last := e.Status.LastOperation; e.Status.ObservedGeneration == nil || last != nil && last.Type == druidv1alpha1.LastOperationCreate && last.State != druidv1alpha1.LastOperationSucceeded {
		kind = druidv1alpha1.LastOperationCreate
	}
	op := druidv1alpha1.LastOperation{Type: kind, RunID: run, LastUpdateTime: metav1.NewTime(now)}
	switch waits := p.Waits(); {
	case unheardOf(out.failures):
		op.State, op.Description = druidv1alpha1.LastOperationRequeue, "the definition of Etcds is new, and the API server takes up to half a minute until it lets objects belong to them"
	case len(out.failures) > 0:
		op.State, op.Description = druidv1alpha1.LastOperationError, "not everything could be made as the specification wants it: "+s.LastErrors[0].Description
	case waits != "":
		op.State, op.Description = druidv1alpha1.LastOperationRequeue, waits
	case !p.Done():
		op.State, op.Description = druidv1alpha1.LastOperationProcessing, cmp.Or(p.Pod.Reason, p.Volumes.Reason, p.Size.Reason)
	case out.set && kind == druidv1alpha1.LastOperationReconcile && (*e.Status.ObservedGeneration != e.Generation || e.ReconcileRequested() != ""):
		op.State, op.Description = druidv1alpha1.LastOperationProcessing, "the StatefulSet was changed, and pods with a former template follow one at a time"
	default:
		op.State, op.Description = druidv1alpha1.LastOperationSucceeded, "everything is made as the specification wants it"
	}
	op.Description = druidv1alpha1.Cut(op.Description, druidv1alpha1.MaxMessage)
	if len(out.failures) == 0 {
		s.ObservedGeneration = &e.Generation
	}
	last := s.LastOperation
	again := last != nil && last.Type == op.Type && last.State == op.State && last.Description == op.Description
	// The good end of another operation is told anew, even if it ended like the one before. What has not ended well is tried again at
	// each look, and told when that changes.
	another := e.Status.ObservedGeneration != nil && *e.Status.ObservedGeneration != e.Generation || e.ReconcileRequested() != ""
	if again && (op.State != druidv1alpha1.LastOperationSucceeded || !another) {
		return
	}
	// That everything is as it was, or was put back, is no operation.
	if last != nil && last.State == druidv1alpha1.LastOperationSucceeded && op.State == druidv1alpha1.LastOperationSucceeded &&
		e.Status.ObservedGeneration != nil && *e.Status.ObservedGeneration == e.Generation && e.ReconcileRequested() == "" {
		return
	}
	s.LastOperation = &op
}

// codeBudget is that of an error with the PodDisruptionBudget.
const codeBudget druidv1alpha1.ErrorCode = "ERR_SYNC_POD_DISRUPTION_BUDGET"

// untried are errors of before with objects that a look which only tends leaves as they are: whether they are over is known when
// somebody asks for the specification to be applied.
func (p Plan) untried(before []druidv1alpha1.LastError) (all []druidv1alpha1.LastError) {
	tried := map[druidv1alpha1.ErrorCode]bool{}
	for _, object := range p.Objects {
		tried[codeOf("SYNC", object)] = true
	}
	for _, b := range before {
		// The budget follows the health of a cluster that runs at each look. Of one after which nothing was to be done it is not among
		// the objects.
		followed := b.Code == codeBudget && (len(p.Refused) == 0 || p.sustained)
		if strings.HasPrefix(string(b.Code), "ERR_SYNC_") && !tried[b.Code] && !followed {
			all = append(all, b)
		}
	}
	return all
}

// mostErrors are told of one operation.
const mostErrors = 10

// lastErrors are the failures; one that lasts keeps the time when it was seen first.
func lastErrors(before []druidv1alpha1.LastError, failures []failure, now time.Time) (all []druidv1alpha1.LastError) {
	for _, f := range failures[:min(len(failures), mostErrors)] {
		e := druidv1alpha1.LastError{Code: f.code, Description: message(f.err), ObservedAt: metav1.NewTime(now)}
		if i := slices.IndexFunc(before, func(b druidv1alpha1.LastError) bool { return b.Code == e.Code && b.Description == e.Description }); i >= 0 {
			e.ObservedAt = before[i].ObservedAt
		}
		all = append(all, e)
	}
	return all
}

// unheardOf: nothing failed but that an admission of the API server has not heard of the definition of Etcds, which it asks for every half
// minute: objects cannot have an owner of that kind until then.
func unheardOf(failures []failure) bool {
	return len(failures) > 0 && !slices.ContainsFunc(failures, func(f failure) bool {
		return !apierrors.IsForbidden(f.err) || !strings.Contains(f.err.Error(), "cannot find RESTMapping for APIVersion "+druidv1alpha1.GroupVersion().String())
	})
}

// refs are the EtcdMembers of the Etcd.
func refs(o *Observed) (all []druidv1alpha1.CrossVersionObjectReference) {
	for i := range o.Members {
		if m := &o.Members[i]; m.DeletionTimestamp == nil {
			all = append(all, druidv1alpha1.CrossVersionObjectReference{APIVersion: druidv1alpha1.GroupVersion().String(), Kind: druidv1alpha1.KindEtcdMember, Name: m.Name})
		}
	}
	slices.SortFunc(all, func(a, b druidv1alpha1.CrossVersionObjectReference) int {
		x, _ := o.Etcd.MemberOrdinal(a.Name)
		y, _ := o.Etcd.MemberOrdinal(b.Name)
		return cmp.Compare(x, y)
	})
	return all
}

// revisionStep is by how much the highest revision must have grown to be written: the status of a busy
// cluster would else be written at every look. What is destroyed is written exactly before.
const revisionStep = 10_000

// revision is the highest one that any member was ever seen at.
func revision(o *Observed) *int64 {
	before := o.Etcd.Status.LastKnownRevision
	highest := known(o.Etcd)
	for i := range o.Members {
		highest = max(highest, o.Members[i].Status.Revision)
	}
	for _, m := range o.Sidecars {
		if m.Etcd != nil {
			highest = max(highest, m.Etcd.Revision)
		}
	}
	switch {
	case highest == 0:
		return before
	case before != nil && highest-*before < revisionStep && !exact(o):
		return before
	}
	return &highest
}

// knownStep is how exactly members are told of the last known revision, so that their configuration changes rarely. A restore raises
// revisions by 10⁹ at least, and by a fifth more than what lies between, which is beyond what is left out here.
const knownStep = 100_000_000

// known is the highest revision that the status remembers.
func known(e *druidv1alpha1.Etcd) int64 {
	if r := e.Status.LastKnownRevision; r != nil {
		return *r
	}
	return 0
}

// exact: members are on their way out, so that what they know counts.
func exact(o *Observed) bool {
	return o.replicas() == 0 || int(o.replicas()) != len(o.Members) || o.Etcd.Spec.Replicas != o.replicas() || o.Etcd.DeletionTimestamp != nil
}

// peerTLS is whether all members have TLS between each other, nil if that is not known of any.
func peerTLS(o *Observed) *bool {
	all, known := true, false
	for i := range o.Members {
		if t := o.Members[i].Status.PeerTLSEnabled; t != nil {
			all, known = all && *t, true
		}
	}
	if !known { // sidecars of the original tell in their Leases alone
		for i := range o.Leases {
			if t, ok := o.Leases[i].Annotations[druidv1alpha1.AnnotationPeerTLSEnabled]; ok {
				all, known = all && t == "true", true
			}
		}
	}
	if !known {
		return o.Etcd.Status.PeerUrlTLSEnabled
	}
	return &all
}

// backupNews are events about what a look through the bucket found that the one before had not.
func backupNews(before, now *druidv1alpha1.EtcdBackupStatus) (all []news) {
	if now == nil {
		return nil
	}
	if before == nil {
		before = &druidv1alpha1.EtcdBackupStatus{}
	}
	for _, f := range now.TamperFindings {
		if !slices.Contains(before.TamperFindings, f) {
			all = append(all, news{BackupTampered, fmt.Sprintf("in the bucket: %s (%s)", f.Message, f.Code)})
		}
	}
	if len(all) == 0 && now.TamperFindingsCount > before.TamperFindingsCount { // beyond those that are told
		all = append(all, news{BackupTampered, fmt.Sprintf("in the bucket: %d findings, and there were %d; status.backup tells the first %d, etcdbrctl list all", now.TamperFindingsCount, before.TamperFindingsCount, len(now.TamperFindings))})
	}
	for _, name := range now.ExcludedSnapshots {
		if !slices.Contains(before.ExcludedSnapshots, name) {
			all = append(all, news{SnapshotExcluded, name + " is excluded from restores"})
		}
	}
	for _, name := range before.ExcludedSnapshots {
		// What is not listed any more may be one of too many.
		if !slices.Contains(now.ExcludedSnapshots, name) && int(now.ExcludedSnapshotsCount) == len(now.ExcludedSnapshots) {
			all = append(all, news{SnapshotIncluded, name + " is not excluded from restores any more"})
		}
	}
	return all
}

// turn is a condition of which an event tells when it comes to be so, or is so for another reason.
type turn struct {
	of     druidv1alpha1.ConditionType
	status druidv1alpha1.ConditionStatus
	kind   Event
	worded bool // another message is told as well
}

func turns() []turn {
	return []turn{
		{druidv1alpha1.ConditionImagesReplaced, druidv1alpha1.ConditionTrue, ImagesReplaced, true},
		{druidv1alpha1.ConditionSchedulesValid, druidv1alpha1.ConditionFalse, ScheduleInvalid, true},
		{druidv1alpha1.ConditionBackupReady, druidv1alpha1.ConditionFalse, BackupFailing, false},
		{druidv1alpha1.ConditionQuorumLost, druidv1alpha1.ConditionTrue, QuorumLost, false},
		{druidv1alpha1.ConditionClusterIDMismatch, druidv1alpha1.ConditionTrue, ClusterIDMismatch, false},
		{druidv1alpha1.ConditionDataVolumesReady, druidv1alpha1.ConditionFalse, VolumesNotReady, false},
		{druidv1alpha1.ConditionBackupsProtected, druidv1alpha1.ConditionFalse, BackupsUnprotected, false},
	}
}

// conditionNews are events about conditions that somebody has to do something about.
func conditionNews(e *druidv1alpha1.Etcd, conditions []druidv1alpha1.Condition) (all []news) {
	for _, w := range turns() {
		was, now := druidv1alpha1.FindCondition(e.Status.Conditions, w.of), druidv1alpha1.FindCondition(conditions, w.of)
		switch {
		case now == nil || now.Status != w.status:
		case now.Reason == druidv1alpha1.ReasonNotChecked: // without members the status is that of before
		case w.kind == BackupsUnprotected && e.NoMembers() != "": // ProtectionEnds tells
		case was != nil && was.Status == now.Status && was.Reason == now.Reason && (!w.worded || was.Message == now.Message):
		default:
			all = append(all, news{w.kind, now.Message})
		}
	}
	return all
}

// news is an event that is to be sent.
type news struct {
	kind Event
	note string
}

// byKind has one event tell of all that is of the same kind: of several about the same version of an Etcd only the first text is kept.
func byKind(all []news) (merged []news) {
	for _, n := range all {
		if i := slices.IndexFunc(merged, func(m news) bool { return m.kind == n.kind }); i >= 0 {
			merged[i].note += "; " + n.note
		} else {
			merged = append(merged, n)
		}
	}
	return merged
}

// write patches the status if it differs from what the API server is known to have.
func (r *Reconciler) write(ctx context.Context, e *druidv1alpha1.Etcd, s druidv1alpha1.EtcdStatus) error {
	if reflect.DeepEqual(e.Status, s) || equality.Semantic.DeepEqual(e.Status, s) { // the first is quick where the parts are those of before, as mostly
		return nil
	}
	if limits := kube.StatusLimits("etcds"); limits.Exceeded(&s) {
		s = *s.DeepCopy() // some of it is the cache's
		if limits.Clip(&s); equality.Semantic.DeepEqual(e.Status, s) {
			return nil
		}
	}
	was, next := &druidv1alpha1.Etcd{Status: e.Status}, &druidv1alpha1.Etcd{Status: s}
	leaveOutSame(&was.Status, &next.Status)
	changes, err := client.MergeFrom(was).Data(next)
	if err != nil {
		return fmt.Errorf("compare the status: %w", err)
	}
	if err := r.client.Status().Patch(ctx, head(e), client.RawPatch(types.MergePatchType, changes), client.FieldOwner(kube.FieldManager)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}

// leaveOutSame takes the fields that are the same out of both: to encode and compare them takes most of the time that a
// change of the status takes.
func leaveOutSame(a, b *druidv1alpha1.EtcdStatus) {
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range x.NumField() {
		if equality.Semantic.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			x.Field(i).SetZero()
			y.Field(i).SetZero()
		}
	}
}

// writeDown writes what is known of a hibernation before anything is done that depends on it: whoever comes after an
// operator that dies decides by that.
func (r *Reconciler) writeDown(ctx context.Context, e *druidv1alpha1.Etcd, h *druidv1alpha1.HibernationStatus) error {
	if equality.Semantic.DeepEqual(e.Status.Hibernation, h) {
		return nil
	}
	s := *e.Status.DeepCopy()
	s.Hibernation = h
	if err := r.write(ctx, e, s); err != nil {
		return fmt.Errorf("write down what is known of the hibernation: %w", err)
	}
	r.log(ctx).Info("what is known of the hibernation was written down", "namespace", e.Namespace, "etcd", e.Name, "hibernation", h)
	return nil
}
