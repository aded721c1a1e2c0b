package operator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"druid.internal/druid/config/crd"
	"druid.internal/druid/config/crd/crdtest"
	"druid.internal/druid/test/cluster"
)

// The same cases as config/crd/crdtest has without a server: what the API server's libraries say
// there, a real one says here.
func TestAnAPIServerKeepsTheRulesOfTheResources(t *testing.T) {
	together(t, light)
	c := cluster.Run(t, cluster.Options{Pin: *pin, Progress: t.Output()})
	s := served(t, c)

	t.Run("every default is filled in", s.defaults)
	t.Run("manifests of the original are applied unchanged", s.samples)
	t.Run("scale", s.scale)
	t.Run("a status is written apart from the specification", s.status)
	for _, c := range crdtest.Cases() {
		t.Run(c.Name, func(t *testing.T) { s.try(t, c) })
	}
}

type server struct{ client dynamic.Interface }

// served installs the definitions and waits until their resources are served.
func served(t *testing.T, c *cluster.Cluster) server {
	t.Helper()
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	files, err := fs.Glob(crd.Files, "bases/*.yaml")
	if err != nil || len(files) != 5 {
		t.Fatalf("the definitions are %q (%v), want five", files, err)
	}
	for _, file := range files {
		text, err := crd.Files.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		definition := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &definition.Object); err != nil {
			t.Fatal(err)
		}
		if _, err := definitions.Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s := server{client}
	for _, plural := range []string{"etcds", "etcdmembers", "etcdcopybackupstasks", "etcdoperatortasks", "etcdopstasks"} {
		err := cluster.Await(t.Context(), time.Minute, func(ctx context.Context) error {
			_, err := s.of(plural, "default").List(ctx, metav1.ListOptions{})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s server) of(plural, namespace string) dynamic.ResourceInterface {
	if plural == "" {
		plural = "etcds"
	}
	return s.client.Resource(schema.GroupVersionResource{Group: "druid.gardener.cloud", Version: "v1alpha1", Resource: plural}).Namespace(namespace)
}

// namespace makes one of its own for a test.
func (s server) namespace(t *testing.T) string {
	t.Helper()
	namespaces := s.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "schema-"}}}
	made, err := namespaces.Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made.GetName()
}

// strict: a field that the definition does not know is an error and not a warning.
var strict = metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}

func (s server) try(t *testing.T, c crdtest.Case) {
	resources := s.of(c.Plural, s.namespace(t))
	old, object := c.Objects()
	var err error
	if old == nil {
		_, err = resources.Create(t.Context(), &unstructured.Unstructured{Object: object}, strict)
	} else {
		made, makeErr := resources.Create(t.Context(), &unstructured.Unstructured{Object: old}, strict)
		if makeErr != nil {
			t.Fatalf("what is there before is refused itself: %v", makeErr)
		}
		if status, ok := old["status"]; ok {
			made.Object["status"] = status
			if made, makeErr = resources.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); makeErr != nil {
				t.Fatalf("the status before is refused itself: %v", makeErr)
			}
		}
		changed := &unstructured.Unstructured{Object: object}
		changed.SetResourceVersion(made.GetResourceVersion())
		var subresource []string
		if c.OfStatus() {
			subresource = []string{"status"}
		}
		_, err = resources.Update(t.Context(), changed, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict}, subresource...)
	}
	switch {
	case c.Says == "" && err != nil:
		t.Errorf("it is refused: %v", err)
	case c.Says != "" && !refused(err, c):
		t.Errorf("it is refused with %v, want %s: ... %s", err, c.Field, c.Says)
	}
}

// refused: one of the causes names the field and says what is wanted, and so does the message, which
// is all that kubectl shows.
func refused(err error, c crdtest.Case) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || !strings.Contains(err.Error(), c.Field) || !strings.Contains(err.Error(), c.Says) {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		named := cause.Field == c.Field || strings.HasPrefix(c.Field, "metadata.") && strings.Contains(cause.Message, c.Field+":")
		if named && strings.Contains(cause.Message, c.Says) {
			return true
		}
	}
	return false
}

func (s server) defaults(t *testing.T) {
	wantMinimal, wantParts, err := crdtest.Defaulted()
	if err != nil {
		t.Fatal(err)
	}
	resources := s.of("etcds", s.namespace(t))
	for name, c := range map[string]struct{ object, want map[string]any }{
		"the minimal Etcd":    {crdtest.Minimal("etcds"), wantMinimal},
		"with optional parts": {crdtest.Parts(), wantParts},
	} {
		got, err := resources.Create(t.Context(), &unstructured.Unstructured{Object: c.object}, strict)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want["spec"], got.Object["spec"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func (s server) samples(t *testing.T) {
	all, err := crdtest.Samples()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 6 {
		t.Fatalf("there are %d samples", len(all))
	}
	for name, object := range all {
		t.Run(name, func(t *testing.T) {
			plural := strings.ToLower(object["kind"].(string)) + "s"
			o := &unstructured.Unstructured{Object: object}
			text, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			force := true
			got, err := s.of(plural, s.namespace(t)).Patch(t.Context(), o.GetName(), types.ApplyPatchType, text,
				metav1.PatchOptions{FieldManager: "kubectl", Force: &force, FieldValidation: metav1.FieldValidationStrict})
			if err != nil {
				t.Fatal(err)
			}
			if lost := missing("spec", object["spec"], got.Object["spec"]); len(lost) > 0 {
				t.Errorf("lost: %q", lost)
			}
		})
	}
}

// missing are the paths in want that got lacks or has otherwise.
func missing(path string, want, got any) []string {
	var lost []string
	switch want := want.(type) {
	case map[string]any:
		got, _ := got.(map[string]any)
		for key := range want {
			lost = append(lost, missing(path+"."+key, want[key], got[key])...)
		}
	case []any:
		got, _ := got.([]any)
		for i := range want {
			var same any
			if i < len(got) {
				same = got[i]
			}
			lost = append(lost, missing(fmt.Sprintf("%s[%d]", path, i), want[i], same)...)
		}
	default:
		if !cmp.Equal(want, got) {
			lost = append(lost, path)
		}
	}
	return lost
}

func (s server) scale(t *testing.T) {
	resources := s.of("etcds", s.namespace(t))
	made, err := resources.Create(t.Context(), &unstructured.Unstructured{Object: crdtest.Minimal("etcds")}, strict)
	if err != nil {
		t.Fatal(err)
	}
	made.Object["status"] = map[string]any{"replicas": int64(1), "selector": "app.kubernetes.io/part-of=etcd-main"}
	if _, err := resources.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	to := func(replicas int) error {
		_, err := resources.Patch(t.Context(), "etcd-main", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{}, "scale")
		return err
	}
	for _, replicas := range []int{5, 1, 0, 3} {
		if err := to(replicas); err != nil {
			t.Errorf("to %d: %v", replicas, err)
		}
	}
	if err := to(2); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.replicas") || !strings.Contains(err.Error(), "take one more or one fewer") {
		t.Errorf("to 2: %v, want the reason why not", err)
	}
	got, err := resources.Get(t.Context(), "etcd-main", metav1.GetOptions{}, "scale")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"spec": map[string]any{"replicas": int64(3)}, "status": map[string]any{"replicas": int64(1), "selector": "app.kubernetes.io/part-of=etcd-main"}}
	if diff := cmp.Diff(want, map[string]any{"spec": got.Object["spec"], "status": got.Object["status"]}); diff != "" {
		t.Errorf("the scale (-want +got):\n%s", diff)
	}
}

func (s server) status(t *testing.T) {
	namespace := s.namespace(t)
	for plural, status := range map[string]map[string]any{
		"etcds":                {"lastKnownRevision": int64(42), "memberRefs": []any{map[string]any{"kind": "EtcdMember", "name": "etcd-main-0"}}},
		"etcdmembers":          {"id": "4c37667312a3912b", "dbSize": "6Gi", "snapshots": map[string]any{"nothingNew": "2024-05-01T12:00:00Z"}},
		"etcdcopybackupstasks": {"observedGeneration": int64(1)},
		"etcdoperatortasks":    {"state": "Pending"},
		"etcdopstasks":         {"state": "Pending"},
	} {
		resources := s.of(plural, namespace)
		object := crdtest.Minimal(plural)
		object["status"] = status
		made, err := resources.Create(t.Context(), &unstructured.Unstructured{Object: object}, strict)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := made.Object["status"]; ok {
			t.Errorf("%s are made with the status %v, want none", plural, got)
		}
		made.Object["status"] = status
		got, err := resources.UpdateStatus(t.Context(), made, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(any(status), got.Object["status"]); diff != "" {
			t.Errorf("the status of %s (-want +got):\n%s", plural, diff)
		}
	}
}
