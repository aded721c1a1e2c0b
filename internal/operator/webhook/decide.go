package webhook

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// Request is what somebody wants to do to an object.
type Request struct {
	User      string
	Update    bool // otherwise it is deleted
	Resource  string
	Kind      string
	Namespace string
	Name      string
	// Old is the object as it is, New as it would be; nil: it would not be. Of /scale they have the
	// labels by which the pods are selected.
	Old, New *metav1.ObjectMeta
}

// Policy says who may change all protected objects.
type Policy struct {
	Operator string   // its user name
	Exempt   []string // user names that may while the operator is not working on the Etcd
}

// Verdict is whether a request is granted, and why.
type Verdict struct {
	Allowed bool
	Reason  string
}

// controllers are those of Kubernetes that must be able to do their work.
var controllers = []string{
	"system:kube-controller-manager", // where they have no accounts of their own
	"system:serviceaccount:kube-system:generic-garbage-collector",
	"system:serviceaccount:kube-system:namespace-controller", // it deletes in terminated namespaces alone
	"system:serviceaccount:kube-system:statefulset-controller",
	"system:serviceaccount:kube-system:storage-version-migrator-controller",
}

// Etcds are the names of those whose object it is or would become, in order. Both count: an edit of a
// label changes neither whose an object was nor that it is given to another.
func (r Request) Etcds() []string {
	var names []string
	for _, m := range []*metav1.ObjectMeta{r.Old, r.New} {
		if m == nil {
			continue
		}
		if name := m.Labels[druidv1alpha1.LabelPartOf]; name != "" && m.Labels[druidv1alpha1.LabelManagedBy] == druidv1alpha1.ManagedBy {
			names = append(names, name)
		}
		if owner := metav1.GetControllerOfNoCopy(m); owner != nil && owner.Kind == druidv1alpha1.KindEtcd && groupOf(owner) == druidv1alpha1.Group {
			names = append(names, owner.Name)
		}
	}
	slices.SortFunc(names, cmp.Compare)
	return slices.Compact(names)
}

func groupOf(owner *metav1.OwnerReference) string {
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return ""
	}
	return version.Group
}

// Decide judges a request by the Etcds that it names and that exist.
func Decide(r Request, etcds []*druidv1alpha1.Etcd, p Policy) Verdict {
	switch {
	case r.User == p.Operator:
		return Verdict{true, "it is the operator"}
	case slices.Contains(controllers, r.User):
		return Verdict{true, "it is a controller of Kubernetes"}
	case r.heartbeat():
		return Verdict{true, "a member writes its own"}
	}
	exempt := slices.Contains(p.Exempt, r.User)
	for _, e := range etcds {
		switch {
		case e.ProtectionDisabled():
		case exempt && working(e):
			return Verdict{false, fmt.Sprintf("%s, on which the operator is working: try again when its status.lastOperation is %s",
				r.whose(e), druidv1alpha1.LastOperationSucceeded)}
		case !exempt:
			return Verdict{false, fmt.Sprintf("%s, so only the operator (%s) may do this: change the Etcd instead, or annotate it with %s first",
				r.whose(e), p.Operator, druidv1alpha1.AnnotationDisableProtection)}
		}
	}
	return Verdict{true, "nobody protects it"}
}

// heartbeat: the account of the Etcd's pods writes a Lease or an EtcdMember, and leaves alone whose it is.
// That each pod writes its own only is the business of an admission policy.
func (r Request) heartbeat() bool {
	if !r.Update || r.Old == nil || r.New == nil || r.Resource != "leases" && r.Resource != "etcdmembers" {
		return false
	}
	account, ok := strings.CutPrefix(r.User, "system:serviceaccount:"+r.Namespace+":")
	return ok && account == r.Old.Labels[druidv1alpha1.LabelPartOf] &&
		equality.Semantic.DeepEqual(r.Old.Labels, r.New.Labels) && equality.Semantic.DeepEqual(r.Old.OwnerReferences, r.New.OwnerReferences)
}

func (r Request) whose(e *druidv1alpha1.Etcd) string {
	return fmt.Sprintf("%s %s belongs to Etcd %s", r.Kind, r.Name, e.Name)
}

// working: the operator is in the middle of changing the Etcd's objects, which includes waiting for the next pod of a rollout. It is
// not while reconciliation is held, whatever it told last.
func working(e *druidv1alpha1.Etcd) bool {
	op, held := e.Status.LastOperation, druidv1alpha1.FindCondition(e.Status.Conditions, druidv1alpha1.ConditionReconcileHeld)
	return op != nil && (held == nil || held.Status != druidv1alpha1.ConditionTrue) && op.State != druidv1alpha1.LastOperationSucceeded
}
