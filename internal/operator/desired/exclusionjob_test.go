package desired

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

func TestAnExclusionHasTheCredentialsOfTheExcluderOrElseTheMembers(t *testing.T) {
	for phrase, c := range map[string]struct {
		roles *druidv1alpha1.StoreRoles
		want  string // the Secret
	}{
		"no roles":     {nil, "backup"},
		"other roles":  {&druidv1alpha1.StoreRoles{CollectorSecretRef: &corev1.SecretReference{Name: "collector"}}, "backup"},
		"an excluder":  {&druidv1alpha1.StoreRoles{ExcluderSecretRef: &corev1.SecretReference{Name: "excluder"}}, "excluder"},
		"all of three": {withRoles(druidv1alpha1.StoreSpec{}).Roles, "excluder"},
	} {
		s := storeSpec("aws", "bucket", "p", "backup")
		s.Roles = c.roles
		pod := ExclusionJob(ExclusionInput{TaskInput: TaskInput{Etcd: stored(s), Task: &druidv1alpha1.EtcdOperatorTask{}}}).Spec.Template.Spec
		use, named := ExclusionSecret(stored(s))
		if got := pod.Volumes[1].Secret.SecretName; got != c.want || !named || use.Name != c.want {
			t.Errorf("%s: the Secret %s, told as %s, want %s", phrase, got, use.Name, c.want)
		}
	}
}

func TestAnExclusionNeedsNoSecretWhereAnotherIdentityCounts(t *testing.T) {
	for phrase, s := range map[string]druidv1alpha1.StoreSpec{
		"the identity of the pod": storeSpec("aws", "bucket", "p", ""), "a directory": storeSpec("local", "", "p", "ignored"),
	} {
		if use, named := ExclusionSecret(stored(s)); named {
			t.Errorf("%s: the Secret %s", phrase, use.Name)
		}
	}
}
