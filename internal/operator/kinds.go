package operator

import (
	"net/http"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// kinds knows the resources that are cached, so that the operator starts without an API server that
// answers. Others are looked for when they are used.
func kinds(to *rest.Config, c *http.Client) (meta.RESTMapper, error) {
	known := meta.NewDefaultRESTMapper(nil)
	for _, k := range []string{druidv1alpha1.KindEtcd, druidv1alpha1.KindEtcdMember, druidv1alpha1.KindEtcdCopyBackupsTask, druidv1alpha1.KindEtcdOperatorTask, druidv1alpha1.KindEtcdOpsTask} {
		known.Add(druidv1alpha1.Kind(k), meta.RESTScopeNamespace)
	}
	for _, k := range []string{"ConfigMap", "Service", "ServiceAccount", "Secret", "Pod", "PersistentVolumeClaim", "Event"} {
		known.Add(corev1.SchemeGroupVersion.WithKind(k), meta.RESTScopeNamespace)
	}
	known.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	known.Add(batchv1.SchemeGroupVersion.WithKind("Job"), meta.RESTScopeNamespace)
	known.Add(batchv1.SchemeGroupVersion.WithKind("CronJob"), meta.RESTScopeNamespace)
	known.Add(appsv1.SchemeGroupVersion.WithKind("StatefulSet"), meta.RESTScopeNamespace)
	known.Add(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), meta.RESTScopeNamespace)
	known.Add(rbacv1.SchemeGroupVersion.WithKind("Role"), meta.RESTScopeNamespace)
	known.Add(rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), meta.RESTScopeNamespace)
	known.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), meta.RESTScopeNamespace)
	known.Add(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"), meta.RESTScopeRoot)
	known.Add(authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"), meta.RESTScopeRoot)
	others, err := apiutil.NewDynamicRESTMapper(to, c)
	if err != nil {
		return nil, err
	}
	return meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{known, others}}, nil
}
