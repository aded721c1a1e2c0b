package operator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

func TestWhoeverSetsAFormerAnnotationIsTold(t *testing.T) {
	together(t, light)
	s := withoutOperator(t)
	s.admit(t, "spellings.yaml")
	s.namespace(t, "shop")
	s.apply(t, etcdYAML("shop", "main", 1))
	heard := &warnings{}
	config := rest.CopyConfig(s.Config)
	config.WarningHandler = heard
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	annotate := func(ctx context.Context, name, value string) ([]string, error) {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, name, value)
		_, err := client.Resource(resources["Etcd"]).Namespace("shop").Patch(ctx, "main", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return heard.take(), err
	}
	told := func(got []string, want string) error {
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
			return fmt.Errorf("warnings %q, want %q", got, want)
		}
		return nil
	}
	for former, now := range map[string]string{
		"gardener.cloud/operation":                         "druid.gardener.cloud/operation",
		"druid.gardener.cloud/disable-resource-protection": "druid.gardener.cloud/disable-etcd-component-protection",
	} {
		want := fmt.Sprintf("the annotation %s is deprecated, use %s", former, now)
		// The API server learns of policies a moment later.
		await(t, func(ctx context.Context) error {
			if _, err := annotate(ctx, former, "null"); err != nil {
				return err
			}
			got, err := annotate(ctx, former, `"reconcile"`)
			if err != nil {
				return err
			}
			return told(got, want)
		})
		for _, c := range []struct{ name, value, of string }{
			{"others", `"1"`, "another change while it is set"},
			{former, "null", "its removal"},
			{now, `"reconcile"`, "the new spelling"},
		} {
			got, err := annotate(t.Context(), c.name, c.value)
			if err != nil {
				t.Fatal(err)
			}
			if err := told(got, ""); err != nil {
				t.Errorf("%s, %s: %v", former, c.of, err)
			}
			if _, err := annotate(t.Context(), "others", "null"); err != nil {
				t.Fatal(err)
			}
		}
	}
}
