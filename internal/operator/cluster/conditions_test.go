package cluster

import (
	"strings"
	"testing"
	"time"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/health"
)

func TestMissingSecretsAreTheReasonWhyMembersAreNotReady(t *testing.T) {
	uses := []druidv1alpha1.SecretUse{{Name: "ca", Field: "spec.etcd.peerUrlTls.tlsCASecretRef"}, {Name: "keys", Field: "spec.backup.store.secretRef"}}
	for name, c := range map[string]struct {
		status     druidv1alpha1.ConditionStatus
		missing    []druidv1alpha1.SecretUse
		lacking    []LackingSecret
		wantReason string
		wantText   string
	}{
		"two are missing": {druidv1alpha1.ConditionFalse, uses, nil, druidv1alpha1.ReasonSecretMissing,
			"ca (spec.etcd.peerUrlTls.tlsCASecretRef), keys (spec.backup.store.secretRef); make them in the namespace of the Etcd, or correct the fields; members that are ready: 0 of 3"},
		"one lacks keys": {druidv1alpha1.ConditionFalse, nil, []LackingSecret{{uses[1], []string{"region", "accessKeyID"}}}, druidv1alpha1.ReasonSecretMissing,
			"Secrets without keys that they must have: keys has no region, accessKeyID (spec.backup.store.secretRef); add them; members that are ready: 0 of 3"},
		"one is missing, another lacks a key": {druidv1alpha1.ConditionFalse, uses[:1], []LackingSecret{{uses[1], []string{"region"}}}, druidv1alpha1.ReasonSecretMissing,
			"or correct the fields; Secrets without keys that they must have: keys has no region (spec.backup.store.secretRef); add them; members that are ready: 0 of 3"},
		"none is":                  {druidv1alpha1.ConditionFalse, nil, nil, druidv1alpha1.ReasonNotAllMembersReady, "members that are ready: 0 of 3"},
		"all members work without": {druidv1alpha1.ConditionTrue, uses, []LackingSecret{{uses[1], []string{"region"}}}, druidv1alpha1.ReasonNotAllMembersReady, "members that are ready: 0 of 3"},
	} {
		before := []druidv1alpha1.Condition{{Type: druidv1alpha1.ConditionAllMembersReady, Status: c.status, Reason: druidv1alpha1.ReasonNotAllMembersReady, Message: "members that are ready: 0 of 3"}}
		o := &Observed{Observation: health.Observation{Etcd: &druidv1alpha1.Etcd{}}, MissingSecrets: c.missing, LackingSecrets: c.lacking}
		got := druidv1alpha1.FindCondition(ownConditions(before, o, Plan{}, time.Unix(0, 0)), druidv1alpha1.ConditionAllMembersReady)
		if got == nil || got.Status != c.status || got.Reason != c.wantReason || !strings.HasSuffix(got.Message, c.wantText) {
			t.Errorf("%s: %+v, want %s %s ...%s", name, got, c.status, c.wantReason, c.wantText)
		}
	}
}
