package journeys_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"druid.internal/druid/internal/operator/webhook"
	"druid.internal/druid/test/chart"
	"druid.internal/druid/test/cluster"
	"druid.internal/druid/test/process"
)

// The certificates of the webhook come to be a real cert-manager's, are renewed by it, and come to be the operator's own again. With
// each of them the API server asks the operator, which is not restarted when one is renewed.
func certManager(t *testing.T, s *site) {
	const namespace = "cert-manager"
	theirs := s.runCertManager(t)
	values := s.values(s.image)
	settings := values["webhook"].(map[string]any)
	settings["certificates"], settings["issuerRef"] = "cert-manager", map[string]any{"kind": "ClusterIssuer", "name": "somebody-elses"}
	s.takesStrictly(t, values, "Certificate")
	delete(settings, "issuerRef")
	s.takesStrictly(t, values, "Certificate", "Issuer")

	s.namespace(t, namespace)
	s.apply(t, fmt.Sprintf(`
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: healer, namespace: %s},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %q}]}`, namespace, healer))
	p := s.found(t, namespace, spec(1, nil))
	t.Cleanup(func() {
		if t.Failed() { // others still have a webhook
			s.certify(t, s.values(s.image))
		}
	})
	s.certify(t, values)
	p.opens(t)
	asks := func(with string) {
		t.Helper()
		s.await(t, "the webhook answers with "+with, func(ctx context.Context) error {
			_, err := s.Kubectl(ctx, "--namespace="+namespace, "delete", "service", name+"-client", "--dry-run=server")
			return says(err, "belongs to Etcd main, so only the operator")
		})
		s.kubectl(t, "--namespace="+namespace, "annotate", "configmap", name+"-config", "--overwrite", "with="+with, "--as="+healer)
	}
	trusted := func(former []byte) (now []byte) {
		t.Helper()
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err := theirs.Await(ctx, func(ctx context.Context) (err error) {
			if now, err = s.trusted(ctx); err == nil && bytes.Equal(now, former) {
				err = errors.New("it is the former")
			}
			return err
		})
		if err != nil {
			t.Fatalf("wait until a certificate of cert-manager's is served and trusted: %v", err)
		}
		t.Logf("cert-manager's certificate was served and trusted after %s", time.Since(begun).Round(time.Second))
		return now
	}
	first := trusted(nil)
	asks("the first")
	s.kubectl(t, "--namespace="+namespace, "create", "configmap", "another")
	s.kubectl(t, "--namespace="+namespace, "delete", "configmap", "another")

	before := s.operator(t)
	// This is what cmctl renew does, and cert-manager itself when a third of the time is left.
	s.kubectl(t, "--namespace="+chart.Namespace, "patch", "certificate.cert-manager.io", "etcd-druid-webhook", "--subresource=status", "--type=json",
		`--patch=[{"op": "add", "path": "/status/conditions/-", "value": {"type": "Issuing", "status": "True", "reason": "Asked", "message": "", "lastTransitionTime": "`+time.Now().UTC().Format(time.RFC3339)+`"}}]`)
	trusted(first)
	asks("the second")
	if after := s.operator(t); after != before {
		t.Errorf("the operator is %s, and was %s", after, before)
	}
	if warnings := s.kubectl(t, "--namespace="+chart.Namespace, "get", "events", "--field-selector=type=Warning", "-o=jsonpath={range .items[?(@.involvedObject.apiVersion==\"cert-manager.io/v1\")]}{.reason}: {.message}{end}"); warnings != "" {
		t.Errorf("cert-manager warns: %s", warnings)
	}

	s.certify(t, s.values(s.image))
	asks("the operator's own")
	if rest := s.kubectl(t, "--namespace="+chart.Namespace, "get", "certificates.cert-manager.io,issuers.cert-manager.io", "-o=name"); rest != "" {
		t.Errorf("left is %s", rest)
	}
}

// runCertManager brings cert-manager's definitions, of the version of ../cmd/certmanager, and runs that until the journey ends.
func (s *site) runCertManager(t *testing.T) *process.Process {
	t.Helper()
	const source = "../cmd/certmanager"
	program := filepath.Join(t.TempDir(), "certmanager")
	begun := time.Now()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-C", source, "-o", program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("cert-manager was built in %s", time.Since(begun).Round(time.Second))
	module, err := exec.CommandContext(t.Context(), "go", "list", "-C", source, "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager").Output()
	if err != nil {
		t.Fatal(err)
	}
	definitions := filepath.Join(strings.TrimSpace(string(module)), "deploy", "crds")
	s.kubectl(t, "apply", "--server-side", "--filename="+definitions)
	s.kubectl(t, "wait", "--for=condition=Established", "--filename="+definitions)
	p, err := process.Start("cert-manager", program, []string{s.Kubeconfig}, process.BareEnvironment(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil || t.Failed() {
			t.Errorf("cert-manager ended with %v and printed: %s", err, p.Log())
		}
	})
	return p
}

// takesStrictly has the API server look at what the chart has of cert-manager's kinds: these and no others, without a field that is
// not known.
func (s *site) takesStrictly(t *testing.T, values map[string]any, kinds ...string) {
	t.Helper()
	all, err := chart.Render(values)
	if err != nil {
		t.Fatal(err)
	}
	var theirs []string
	for _, document := range strings.Split(all, "\n---\n") {
		if strings.Contains(document, "\napiVersion: cert-manager.io/") {
			theirs = append(theirs, document)
		}
	}
	out, err := s.KubectlWith(t.Context(), strings.Join(theirs, "\n---\n"), "apply", "--dry-run=server", "--validate=strict", "--filename=-", "--output=name")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, kind := range kinds {
		fmt.Fprintf(&want, "%s.cert-manager.io/etcd-druid-webhook\n", strings.ToLower(kind))
	}
	if out != want.String() {
		t.Errorf("of cert-manager's kinds the chart has %q, want %q", out, want.String())
	}
}

// certify gives the operator the chart with these values, which take it the rights to certificates or give it them.
func (s *site) certify(t *testing.T, values map[string]any) {
	t.Helper()
	begun := time.Now()
	if err := chart.Upgrade(context.WithoutCancel(t.Context()), s.Kubeconfig, values, patience, quiet); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Await(context.WithoutCancel(t.Context()), patience, func(ctx context.Context) error {
		_, err := s.onlyOperator(ctx)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s.ends = append(s.ends, period{begun, time.Now()})
	t.Logf("the operator was replaced in %s", time.Since(begun).Round(time.Second))
}

// operator is which one runs, and how often it was started anew.
func (s *site) operator(t *testing.T) string {
	t.Helper()
	pod, err := s.onlyOperator(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s, restarted %d times", pod.Name, pod.Status.ContainerStatuses[0].RestartCount)
}

// onlyOperator is the pod of the operator, if it is ready and there is no other.
func (s *site) onlyOperator(ctx context.Context) (corev1.Pod, error) {
	list, err := s.Client.CoreV1().Pods(chart.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=" + chart.Release})
	if err != nil {
		return corev1.Pod{}, err
	}
	if len(list.Items) != 1 || !ready(list.Items[0]) {
		return corev1.Pod{}, fmt.Errorf("there are %d operators, want one that is ready", len(list.Items))
	}
	return list.Items[0], nil
}

// trusted is the certificate of the webhook, once the operator serves that of the Secret and the API server trusts it for every webhook.
func (s *site) trusted(ctx context.Context) ([]byte, error) {
	secret, err := s.Client.CoreV1().Secrets(chart.Namespace).Get(ctx, "etcd-druid-webhook-cert-manager", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		return nil, errors.New("the Secret has no certificate")
	}
	service, err := s.Client.CoreV1().Services(chart.Namespace).Get(ctx, "etcd-druid-webhook", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	hooks, err := s.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, webhook.ConfigurationName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	for _, h := range hooks.Webhooks {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(h.ClientConfig.CABundle)
		dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: service.Name + "." + service.Namespace + ".svc"}}
		connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(service.Spec.ClusterIP, "443"))
		if err != nil {
			return nil, fmt.Errorf("as %s: %w", h.Name, err)
		}
		defer connection.Close()
		if served := connection.(*tls.Conn).ConnectionState().PeerCertificates[0]; !bytes.Equal(served.Raw, block.Bytes) {
			return nil, errors.New("another certificate is served than that of the Secret")
		}
	}
	return block.Bytes, nil
}
