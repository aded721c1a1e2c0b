package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/config"
)

// Setup serves the webhook from the manager's server.
func Setup(mgr manager.Manager, p config.EtcdComponentProtection, log *slog.Logger) {
	h := &handler{
		cache: mgr.GetClient(), live: mgr.GetAPIReader(), log: log, exempt: p.ExemptServiceAccounts,
		operator: &identity{client: mgr.GetClient(), user: p.Reconciler()},
	}
	mgr.GetWebhookServer().Register(Path, &admission.Webhook{Handler: h})
}

type handler struct {
	cache, live client.Reader
	operator    *identity
	exempt      []string
	log         *slog.Logger
}

// Handle answers a request of the API server. What cannot be judged is refused.
func (h *handler) Handle(ctx context.Context, asked admission.Request) admission.Response {
	r, err := requestOf(asked.AdmissionRequest)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	operator, err := h.operator.name(ctx)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	etcds, err := h.etcds(ctx, r)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	v := Decide(r, etcds, Policy{Operator: operator, Exempt: h.exempt})
	if v.Allowed {
		return admission.Allowed(v.Reason)
	}
	h.log.Info("a change is refused", "user", r.User, "operation", asked.Operation, "kind", r.Kind, "namespace", r.Namespace, "name", r.Name, "reason", v.Reason)
	return admission.Denied(v.Reason)
}

// etcds are those that the request names and that exist. One that the cache does not know yet is asked for.
func (h *handler) etcds(ctx context.Context, r Request) ([]*druidv1alpha1.Etcd, error) {
	var all []*druidv1alpha1.Etcd
	for _, name := range r.Etcds() {
		e, key := &druidv1alpha1.Etcd{}, types.NamespacedName{Namespace: r.Namespace, Name: name}
		err := h.cache.Get(ctx, key, e)
		if apierrors.IsNotFound(err) {
			err = h.live.Get(ctx, key, e)
		}
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("read Etcd %s, whose object it is: %w", name, err)
		default:
			all = append(all, e)
		}
	}
	return all, nil
}

// requestOf is a request as it is judged.
func requestOf(asked admissionv1.AdmissionRequest) (Request, error) {
	r := Request{
		User: asked.UserInfo.Username, Update: asked.Operation == admissionv1.Update,
		Resource: asked.Resource.Resource, Kind: asked.Kind.Kind, Namespace: asked.Namespace, Name: asked.Name,
	}
	read := headOf
	if asked.SubResource == "scale" {
		r.Resource, r.Kind, read = r.Resource+"/scale", "the scale of StatefulSet", selectedBy
	}
	var err error
	if r.Old, err = read(asked.OldObject.Raw); err != nil {
		return Request{}, fmt.Errorf("read the object as it is: %w", err)
	}
	if r.New, err = read(asked.Object.Raw); err != nil {
		return Request{}, fmt.Errorf("read the object as it would be: %w", err)
	}
	if r.Name == "" && r.Old != nil { // of many that are deleted at once
		r.Name = r.Old.Name
	}
	return r, nil
}

func headOf(raw []byte) (*metav1.ObjectMeta, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, err
	}
	return &o.ObjectMeta, nil
}

// selectedBy is the head of a scale with the labels by which pods are selected.
func selectedBy(raw []byte) (*metav1.ObjectMeta, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var o autoscalingv1.Scale
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, err
	}
	selector, err := labels.ConvertSelectorToLabelsMap(o.Status.Selector)
	if err != nil {
		return nil, err
	}
	o.Labels = selector
	return &o.ObjectMeta, nil
}

// identity is who the operator is for the API server.
type identity struct {
	client client.Writer

	mu   sync.Mutex
	user string
}

// name asks the API server once, unless the configuration says it.
func (i *identity) name(ctx context.Context) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.user != "" {
		return i.user, nil
	}
	review := &authenticationv1.SelfSubjectReview{}
	if err := i.client.Create(ctx, review); err != nil {
		return "", fmt.Errorf("ask the API server who the operator is: %w; webhooks.etcdComponentProtection.serviceAccountInfo can tell it as well", err)
	}
	i.user = review.Status.UserInfo.Username
	return i.user, nil
}
