package webhook

import (
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// Path is where the API server finds the webhook.
const Path = "/webhooks/etcdcomponents"

// ConfigurationName is that of the ValidatingWebhookConfiguration.
const ConfigurationName = "etcd-druid-components"

// timeout is how long the API server waits for an answer, in seconds.
const timeout = 10

// Webhooks are those of the ValidatingWebhookConfiguration. operator is the user name of the operator, to
// how it is reached.
//
// They fail when nobody answers: what is protected stays so. That holds up nobody who does not touch a
// protected object, because of what is sent:
//
//   - Of objects, those with our label. The API server compares the selector with the object as it was and as
//     it would be, and sends what either of them fits: who removes the label is asked, and so is who
//     deletes, where there is no other object than the one that was.
//   - Of /scale, where objects have no labels, those whose selector has our label. No selector of a StatefulSet
//     can be changed.
func Webhooks(operator string, to admissionregistrationv1.WebhookClientConfig) []admissionregistrationv1.ValidatingWebhook {
	hook := func(name string, h admissionregistrationv1.ValidatingWebhook) admissionregistrationv1.ValidatingWebhook {
		fail, none, seconds := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, int32(timeout)
		equivalent := admissionregistrationv1.Equivalent
		h.Name, h.ClientConfig = name+"."+druidv1alpha1.Group, to
		h.FailurePolicy, h.SideEffects, h.MatchPolicy, h.TimeoutSeconds = &fail, &none, &equivalent, &seconds
		h.AdmissionReviewVersions = []string{"v1"}
		return h
	}
	return []admissionregistrationv1.ValidatingWebhook{
		hook("components", admissionregistrationv1.ValidatingWebhook{
			Rules: []admissionregistrationv1.RuleWithOperations{
				on("", changed, "configmaps", "secrets", "serviceaccounts", "services"),
				// Kubernetes itself updates claims, and they only grow: below is asked whose they become.
				on("", deleted, "persistentvolumeclaims"),
				on("apps", changed, "statefulsets"),
				on("coordination.k8s.io", changed, "leases"),
				on("policy", changed, "poddisruptionbudgets"),
				on("rbac.authorization.k8s.io", changed, "rolebindings", "roles"),
				on(druidv1alpha1.Group, changed, "etcdmembers"),
			},
			ObjectSelector:  &metav1.LabelSelector{MatchLabels: map[string]string{druidv1alpha1.LabelManagedBy: druidv1alpha1.ManagedBy}},
			MatchConditions: append(byOthers(operator), noHeartbeat),
		}),
		// Whoever could take labels or owners away past the first of them could delete the object afterwards.
		hook("belonging", admissionregistrationv1.ValidatingWebhook{
			Rules: []admissionregistrationv1.RuleWithOperations{
				on("", updated, "persistentvolumeclaims", "persistentvolumeclaims/status", "services/status"),
				on("apps", updated, "statefulsets/status"),
				on("policy", updated, "poddisruptionbudgets/status"),
			},
			ObjectSelector:  &metav1.LabelSelector{MatchLabels: map[string]string{druidv1alpha1.LabelManagedBy: druidv1alpha1.ManagedBy}},
			MatchConditions: append(byOthers(operator), becomesAnothers),
		}),
		hook("scale", admissionregistrationv1.ValidatingWebhook{
			Rules:           []admissionregistrationv1.RuleWithOperations{on("apps", updated, "statefulsets/scale")},
			MatchConditions: append(byOthers(operator), ofOurPods),
		}),
	}
}

var (
	changed = []admissionregistrationv1.OperationType{admissionregistrationv1.Update, admissionregistrationv1.Delete}
	updated = changed[:1]
	deleted = changed[1:]
)

func on(group string, operations []admissionregistrationv1.OperationType, resources ...string) admissionregistrationv1.RuleWithOperations {
	namespaced := admissionregistrationv1.NamespacedScope
	return admissionregistrationv1.RuleWithOperations{
		Operations: operations,
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: resources, Scope: &namespaced},
	}
}

// byOthers leaves out whom [Decide] grants everything.
func byOthers(operator string) []admissionregistrationv1.MatchCondition {
	quoted := make([]string, 0, len(controllers))
	for _, user := range controllers {
		quoted = append(quoted, strconv.Quote(user))
	}
	return []admissionregistrationv1.MatchCondition{
		{Name: "not-by-the-operator", Expression: "request.userInfo.username != " + strconv.Quote(operator)},
		{Name: "not-by-controllers-of-kubernetes", Expression: "!(request.userInfo.username in [" + strings.Join(quoted, ", ") + "])"},
	}
}

// noHeartbeat is the opposite of Request.heartbeat.
var noHeartbeat = admissionregistrationv1.MatchCondition{
	Name: "not-by-a-member-of-itself",
	Expression: `!(request.operation == "UPDATE" && request.resource.resource in ["leases", "etcdmembers"]` +
		` && has(oldObject.metadata.labels) && "` + druidv1alpha1.LabelPartOf + `" in oldObject.metadata.labels` +
		` && request.userInfo.username == "system:serviceaccount:" + request.namespace + ":" + oldObject.metadata.labels["` + druidv1alpha1.LabelPartOf + `"]` +
		` && has(object.metadata.labels) && object.metadata.labels == oldObject.metadata.labels` +
		` && has(object.metadata.ownerReferences) == has(oldObject.metadata.ownerReferences)` +
		` && (!has(object.metadata.ownerReferences) || object.metadata.ownerReferences == oldObject.metadata.ownerReferences))`,
}

// becomesAnothers: an update takes labels away or changes owners. Everything else that Kubernetes and people write there is not asked about.
var becomesAnothers = admissionregistrationv1.MatchCondition{
	Name: "becomes-anothers",
	Expression: `["` + druidv1alpha1.LabelManagedBy + `", "` + druidv1alpha1.LabelPartOf + `"].exists(label,` +
		` (has(object.metadata.labels) && label in object.metadata.labels ? object.metadata.labels[label] : "")` +
		` != (has(oldObject.metadata.labels) && label in oldObject.metadata.labels ? oldObject.metadata.labels[label] : ""))` +
		` || has(object.metadata.ownerReferences) != has(oldObject.metadata.ownerReferences)` +
		` || has(object.metadata.ownerReferences) && object.metadata.ownerReferences != oldObject.metadata.ownerReferences`,
}

var ofOurPods = admissionregistrationv1.MatchCondition{
	Name: "of-our-pods",
	Expression: `has(oldObject.status) && has(oldObject.status.selector)` +
		` && oldObject.status.selector.split(",").exists(label, label == "` + druidv1alpha1.LabelManagedBy + `=` + druidv1alpha1.ManagedBy + `")`,
}
