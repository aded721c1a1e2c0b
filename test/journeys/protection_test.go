package journeys_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"druid.internal/druid/internal/operator/webhook"
)

// The API server asks the operator through its Service whether somebody may change what belongs to an
// Etcd. Nobody else may, but who is exempt.
func protection(t *testing.T, s *site) {
	const namespace = "protection"
	s.namespace(t, namespace)
	for _, who := range []string{"healer", "visitor"} {
		s.apply(t, fmt.Sprintf(`
{apiVersion: v1, kind: ServiceAccount, metadata: {name: %[1]s, namespace: %[2]s}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: %[1]s, namespace: %[2]s},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}, subjects: [{kind: ServiceAccount, name: %[1]s, namespace: %[2]s}]}`, who, namespace))
	}
	p := s.open(t, namespace, spec(1, nil))

	hooks, err := s.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), webhook.ConfigurationName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hooks.Webhooks {
		if h.ClientConfig.Service == nil || h.ClientConfig.URL != nil {
			t.Errorf("%s is asked at %+v, want a Service", h.Name, h.ClientConfig)
		}
	}
	const refused = "belongs to Etcd main, so only the operator"
	// Until the certificates are known on both sides, the API server refuses with another message.
	s.await(t, "the webhook answers", func(ctx context.Context) error {
		_, err := s.Kubectl(ctx, "--namespace="+namespace, "delete", "configmap", name+"-config", "--dry-run=server")
		return says(err, refused)
	})
	for _, object := range []string{"service/main-client", "statefulset/main", "poddisruptionbudget/main", "secret/main-sidecar-token", "lease/main-0", "persistentvolumeclaim/main-main-0"} {
		_, err := s.Kubectl(t.Context(), "--namespace="+namespace, "delete", object, "--wait=false")
		if err := says(err, refused); err != nil {
			t.Errorf("the administrator deletes %s: %v", object, err)
		}
	}
	_, err = s.Kubectl(t.Context(), "--namespace="+namespace, "scale", "statefulset/main", "--replicas=0")
	if err := says(err, refused); err != nil {
		t.Errorf("the administrator scales the StatefulSet: %v", err)
	}
	edit := func(who string) error {
		config, err := s.ServiceAccountConfig(t.Context(), namespace, who)
		if err != nil {
			t.Fatal(err)
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.CoreV1().ConfigMaps(namespace).Patch(t.Context(), name+"-config", types.MergePatchType, []byte(`{"metadata":{"annotations":{"by":"`+who+`"}}}`), metav1.PatchOptions{})
		return err
	}
	if err := says(edit("visitor"), refused); err != nil {
		t.Errorf("a visitor with all rights edits the ConfigMap: %v", err)
	}
	if err := edit("healer"); err != nil {
		t.Errorf("who is exempt edits the ConfigMap: %v", err)
	}

	before := p.uids(t)
	s.kubectl(t, "--namespace="+namespace, "annotate", "etcd", name, "druid.gardener.cloud/disable-etcd-component-protection=")
	s.await(t, "who has lifted the protection deletes a Service", func(ctx context.Context) error {
		_, err := s.Kubectl(ctx, "--namespace="+namespace, "delete", "service", "main-client")
		return err
	})
	s.await(t, "the Service is made again", func(ctx context.Context) error {
		_, err := s.Client.CoreV1().Services(namespace).Get(ctx, "main-client", metav1.GetOptions{})
		return err
	})
	for object, edit := range map[string]string{
		"service/main-peer":                          `{"spec":{"publishNotReadyAddresses":false}}`,
		"serviceaccount/main":                        `{"automountServiceAccountToken":false}`,
		"rolebinding/druid.gardener.cloud:etcd:main": `{"subjects":null}`,
	} {
		get := []string{"--namespace=" + namespace, "get", object, "-o=jsonpath={.spec}{.automountServiceAccountToken}{.subjects}"}
		want := s.kubectl(t, get...)
		s.kubectl(t, "--namespace="+namespace, "patch", object, "--type=merge", "--patch="+edit)
		s.await(t, object+" is put back", func(ctx context.Context) error {
			got, err := s.Kubectl(ctx, get...)
			if err == nil && got != want {
				err = fmt.Errorf("it is %s, and was %s", got, want)
			}
			return err
		})
	}
	s.await(t, "an event says so", p.told("ChangeUndone", "main"))
	s.await(t, "the Etcd is whole", p.whole)
	if after := p.uids(t); strings.Join(after, " ") != strings.Join(before, " ") {
		t.Error("its pod was replaced on the way")
	}
}

// says is nil if somebody was refused with these words.
func says(err error, words string) error {
	if err == nil {
		return fmt.Errorf("it is allowed, want a refusal with %q", words)
	}
	if !strings.Contains(err.Error(), words) {
		return fmt.Errorf("the refusal is %w, want %q", err, words)
	}
	return nil
}
