package webhook

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

var reachedNowhere = admissionregistrationv1.WebhookClientConfig{}

// holds is a cache or an API server with some Etcds of one namespace.
type holds struct {
	client.Reader
	etcds []*druidv1alpha1.Etcd
	fails error
	asked int
}

func (h *holds) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	h.asked++
	if h.fails != nil {
		return h.fails
	}
	for _, e := range h.etcds {
		if e.Name == key.Name && e.Namespace == key.Namespace {
			e.DeepCopyInto(into.(*druidv1alpha1.Etcd))
			return nil
		}
	}
	return apierrors.NewNotFound(druidv1alpha1.GroupVersion().WithResource("etcds").GroupResource(), key.Name)
}

// tells is an API server that says who asks.
type tells struct {
	client.Writer
	user  string
	fails error
	asked int
}

func (t *tells) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	t.asked++
	o.(*authenticationv1.SelfSubjectReview).Status.UserInfo.Username = t.user
	return t.fails
}

func asked(user string, operation admissionv1.Operation, resource, sub, before, after string) admission.Request {
	r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Operation: operation, Namespace: "shop", Name: "it", SubResource: sub,
		Kind: metav1.GroupVersionKind{Kind: "Thing"}, Resource: metav1.GroupVersionResource{Resource: resource},
		UserInfo:  authenticationv1.UserInfo{Username: user},
		OldObject: runtime.RawExtension{Raw: []byte(before)}, Object: runtime.RawExtension{Raw: []byte(after)},
	}}
	return r
}

const ours = `{"metadata":{"name":"it","labels":{"app.kubernetes.io/managed-by":"etcd-druid","app.kubernetes.io/part-of":"main"}},"data":{"a":"b"}}`

func TestRequestsOfTheAPIServerAreJudged(t *testing.T) {
	main := etcd("main")
	scale := `{"kind":"Scale","metadata":{"name":"main"},"spec":{"replicas":1},"status":{"replicas":3,"selector":"app.kubernetes.io/managed-by=etcd-druid,app.kubernetes.io/part-of=main"}}`
	many := asked(person, admissionv1.Delete, "configmaps", "", strings.Replace(ours, `"it"`, `"one-of-many"`, 1), "")
	many.Name = ""
	elsewhere := asked(person, admissionv1.Delete, "configmaps", "", ours, "")
	elsewhere.Namespace = "elsewhere"
	for name, c := range map[string]struct {
		request     admission.Request
		cache, live *holds
		who         *tells
		want        string // in the message of the refusal; empty: it is granted
	}{
		"a change":                             {asked(person, admissionv1.Update, "configmaps", "", ours, ours), &holds{etcds: []*druidv1alpha1.Etcd{main}}, &holds{}, &tells{user: operator}, "Thing it belongs to Etcd main"},
		"a deletion":                           {asked(person, admissionv1.Delete, "configmaps", "", ours, ""), &holds{etcds: []*druidv1alpha1.Etcd{main}}, &holds{}, &tells{user: operator}, "Thing it belongs to Etcd main"},
		"one of many deletions":                {many, &holds{etcds: []*druidv1alpha1.Etcd{main}}, &holds{}, &tells{user: operator}, "Thing one-of-many belongs to Etcd main"},
		"a label is removed":                   {asked(person, admissionv1.Update, "configmaps", "", ours, `{"metadata":{"name":"it"}}`), &holds{etcds: []*druidv1alpha1.Etcd{main}}, &holds{}, &tells{user: operator}, "Thing it belongs to Etcd main"},
		"a scale":                              {asked(person, admissionv1.Update, "statefulsets", "scale", scale, scale), &holds{etcds: []*druidv1alpha1.Etcd{main}}, &holds{}, &tells{user: operator}, "the scale of StatefulSet it belongs to Etcd main"},
		"the cache does not know it yet":       {asked(person, admissionv1.Delete, "configmaps", "", ours, ""), &holds{}, &holds{etcds: []*druidv1alpha1.Etcd{main}}, &tells{user: operator}, "belongs to Etcd main"},
		"there is none":                        {asked(person, admissionv1.Delete, "configmaps", "", ours, ""), &holds{}, &holds{}, &tells{user: operator}, ""},
		"one of that name is elsewhere":        {elsewhere, &holds{etcds: []*druidv1alpha1.Etcd{main}}, &holds{}, &tells{user: operator}, ""},
		"the operator":                         {asked(operator, admissionv1.Delete, "configmaps", "", ours, ""), &holds{etcds: []*druidv1alpha1.Etcd{main}}, &holds{}, &tells{user: operator}, ""},
		"an exempt account":                    {asked(exempt, admissionv1.Delete, "configmaps", "", ours, ""), &holds{etcds: []*druidv1alpha1.Etcd{main}}, &holds{}, &tells{user: operator}, ""},
		"Etcds cannot be read":                 {asked(person, admissionv1.Delete, "configmaps", "", ours, ""), &holds{fails: errors.New("down")}, &holds{}, &tells{user: operator}, "read Etcd main, whose object it is: down"},
		"nobody says who the operator is":      {asked(person, admissionv1.Delete, "configmaps", "", ours, ""), &holds{}, &holds{}, &tells{fails: errors.New("down")}, "ask the API server who the operator is: down"},
		"what is no object":                    {asked(person, admissionv1.Update, "configmaps", "", ours, `[]`), &holds{}, &holds{}, &tells{user: operator}, "read the object as it would be"},
		"what is no selector":                  {asked(person, admissionv1.Update, "statefulsets", "scale", `{"status":{"selector":"=,="}}`, ""), &holds{}, &holds{}, &tells{user: operator}, "read the object as it is"},
		"what was no object, but would be one": {asked(person, admissionv1.Update, "configmaps", "", `1`, ours), &holds{}, &holds{}, &tells{user: operator}, "read the object as it is"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &handler{cache: c.cache, live: c.live, operator: &identity{client: c.who}, exempt: []string{exempt}, log: slog.New(slog.DiscardHandler)}
			got := h.Handle(t.Context(), c.request)
			if got.Allowed != (c.want == "") || !strings.Contains(got.Result.Message, c.want) {
				t.Errorf("allowed %t: %v, want %q", got.Allowed, got.Result, c.want)
			}
		})
	}
}

func TestTheAPIServerIsAskedOnceWhoTheOperatorIs(t *testing.T) {
	who := &tells{fails: errors.New("down")}
	i := &identity{client: who}
	if _, err := i.name(t.Context()); err == nil {
		t.Fatal("a failure is taken for an answer")
	}
	*who = tells{user: operator}
	for range 2 {
		if name, err := i.name(t.Context()); name != operator || err != nil {
			t.Errorf("it is %q (%v)", name, err)
		}
	}
	if who.asked != 1 {
		t.Errorf("asked %d times", who.asked)
	}
	told := &identity{client: &tells{fails: errors.New("down")}, user: "told"}
	if name, err := told.name(t.Context()); name != "told" || err != nil {
		t.Errorf("the configuration says it, and it is %q (%v)", name, err)
	}
}
