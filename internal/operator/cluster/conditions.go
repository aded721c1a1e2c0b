package cluster

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/health"
)

// ownConditions puts the conditions about the specification itself among the others: schedules that
// cannot be read, images that are replaced, fields without effect, and why it is not applied. Those that do not apply
// are taken out. all is changed.
func ownConditions(all []druidv1alpha1.Condition, o *Observed, p Plan, now time.Time) []druidv1alpha1.Condition {
	put := func(of druidv1alpha1.ConditionType, there bool, status druidv1alpha1.ConditionStatus, reason, message string) {
		if !there {
			all = slices.DeleteFunc(all, func(c druidv1alpha1.Condition) bool { return c.Type == of })
			return
		}
		all = druidv1alpha1.SetCondition(all, druidv1alpha1.Condition{Type: of, Status: status, Reason: reason, Message: message}, metav1.NewTime(now))
	}
	if len(p.schedules) > 0 {
		put(druidv1alpha1.ConditionSchedulesValid, true, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonScheduleInvalid, strings.Join(p.schedules, "; "))
	} else {
		put(druidv1alpha1.ConditionSchedulesValid, true, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonSchedulesValid, "every schedule can be read")
	}
	put(druidv1alpha1.ConditionImagesReplaced, len(p.images) > 0, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonImagesOfOriginal,
		"replaced by the operator's own image, as the original's programs do not know our flags; remove or change: "+strings.Join(p.images, ", "))
	reason, idle := withoutEffect(o.Etcd)
	put(druidv1alpha1.ConditionFieldsWithoutEffect, len(idle) > 0, druidv1alpha1.ConditionTrue, reason,
		"this version of the operator does not act on "+strings.Join(idle, ", "))
	put(druidv1alpha1.ConditionReconcileHeld, p.Held != "", druidv1alpha1.ConditionTrue, p.Held, p.Why)
	if i := slices.IndexFunc(all, func(c druidv1alpha1.Condition) bool { return c.Type == druidv1alpha1.ConditionAllMembersReady }); i >= 0 && all[i].Status == druidv1alpha1.ConditionFalse {
		all[i] = withSecrets(all[i], o).After(health.Former(o.Etcd.Status.Conditions, all[i]), metav1.NewTime(now))
	}
	return all
}

// withSecrets has a condition that is not true say first which Secrets are the reason.
func withSecrets(c druidv1alpha1.Condition, o *Observed) druidv1alpha1.Condition {
	switch {
	case len(o.MissingSecrets)+len(o.LackingSecrets) > 0:
		c.Reason = druidv1alpha1.ReasonSecretMissing
	case len(o.FaultySecrets) > 0:
		c.Reason = druidv1alpha1.ReasonSecretInvalid
	}
	c.Message = strings.Join(slices.DeleteFunc([]string{missing(o.MissingSecrets), lacking(o.LackingSecrets), faulty(o.FaultySecrets), c.Message}, func(s string) bool { return s == "" }), "; ")
	return c
}

// missing names Secrets by their fields.
func missing(uses []druidv1alpha1.SecretUse) string {
	if len(uses) == 0 {
		return ""
	}
	var parts []string
	for _, u := range uses {
		parts = append(parts, u.Name+" ("+u.Field+")")
	}
	return "Secrets that are not there, without which no pod starts: " + strings.Join(parts, ", ") + "; make them in the namespace of the Etcd, or correct the fields"
}

// lacking names the keys that Secrets have not got.
func lacking(all []LackingSecret) string {
	if len(all) == 0 {
		return ""
	}
	var parts []string
	for _, l := range all {
		parts = append(parts, l.Name+" has no "+strings.Join(l.Keys, ", ")+" ("+l.Field+")")
	}
	return "Secrets without keys that they must have: " + strings.Join(parts, "; ") + "; add them"
}

// faulty says what is wrong with what Secrets hold.
func faulty(all []FaultySecret) string {
	if len(all) == 0 {
		return ""
	}
	var parts []string
	fields := map[string][]string{} // of which there is the same to say
	for _, f := range all {
		what := f.Name + ": " + f.Why
		if len(fields[what]) == 0 {
			parts = append(parts, what)
		}
		fields[what] = append(fields[what], f.Field)
	}
	for i, what := range parts {
		parts[i] = what + " (" + strings.Join(fields[what], ", ") + ")"
	}
	return "Secrets that cannot be used: " + strings.Join(parts, "; ") + "; correct them"
}

// withoutEffect are fields that are set and that nothing acts on, with what counts instead.
func withoutEffect(e *druidv1alpha1.Etcd) (reason string, fields []string) {
	reason = druidv1alpha1.ReasonControllerNotPresent
	if e.Spec.Backup.SnapshotCompaction != nil {
		fields = append(fields, "spec.backup.snapshotCompaction")
	}
	if e.Spec.Backup.CompactionResources != nil { //nolint:staticcheck // whoever still uses it is told
		fields = append(fields, "spec.backup.compactionResources")
	}
	unused := e.UnusedSecrets()
	if len(fields) == 0 && len(unused) > 0 {
		reason = druidv1alpha1.ReasonFieldsNotUsed
	}
	for _, u := range unused {
		switch u.Field {
		case druidv1alpha1.FieldPeerClientSecret:
			fields = append(fields, u.Field+" (members show each other the certificate in serverTLSSecretRef)")
		case druidv1alpha1.FieldStoreSecret:
			fields = append(fields, u.Field+" of a local store (the backups are below "+desired.DefaultHostPath+" of the node, and not where the key hostPath of the Secret says)")
		}
	}
	return reason, fields
}
