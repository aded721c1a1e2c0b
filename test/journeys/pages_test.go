package journeys_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/chart"
)

// section is the text below a heading of a page of docs/operations.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations", page))
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", page, heading)
	}
	before, _, _ := strings.Cut(after, "\n## ")
	return before
}

// inText are commands in a sentence, and on lines of their own, indented or between fences.
var inText = regexp.MustCompile("(?m)`(kubectl [^`…]+)`|^(?: {4,})?(kubectl [^#\n]+)")

// types has a person type commands of a page, one after the other, with the name and the namespace of the Etcd. It returns what they
// said, on both streams.
func (p *shop) types(t *testing.T, commands ...string) (said string) {
	t.Helper()
	dir := t.TempDir()
	for _, c := range commands {
		c = strings.NewReplacer("NAME", name).Replace(strings.TrimSpace(c))
		t.Log(c)
		out, err := p.Shell(t.Context(), dir, `exec 2>&1; test -e config || cp "$KUBECONFIG" config; export KUBECONFIG=$PWD/config; kubectl config set-context --current --namespace=`+p.namespace+` >/dev/null; `+c)
		if err != nil {
			t.Fatalf("%s: %v\n%s", c, err, out)
		}
		t.Log(out)
		said += out
	}
	return said
}

// typed are the commands of a section, in their order.
func typed(t *testing.T, page, heading string, atLeast int) (commands []string) {
	t.Helper()
	for _, found := range inText.FindAllStringSubmatch(section(t, page, heading), -1) {
		commands = append(commands, found[1]+found[2])
	}
	if len(commands) < atLeast {
		t.Fatalf("%s, %s: %d commands are found, of %d: %q", page, heading, len(commands), atLeast, commands)
	}
	return commands
}

// A majority lost its volumes, and there is no operator: docs/operations/recovering.md brings the cluster back all the same.
func withoutOperator(t *testing.T, s *site) {
	const namespace = "without-operator"
	s.namespace(t, namespace)
	p := s.open(t, namespace, spec(3, backed(s.bucket(t, namespace, namespace, "shop"))))
	p.write(t, p.client)
	p.writers.Stop()
	s.await(t, "all is uploaded", p.uploaded(p.writers.Ledger.Newest()))
	p.loseMajority(t)
	p.await(t, "it is told that the quorum is lost", p.says(druidv1alpha1.ConditionQuorumLost, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonQuorumLost, ""))
	p.verifies(t)

	commands := typed(t, "recovering.md", "Without the operator", 9)
	last := len(commands) - 1
	p.types(t, commands[:last]...)
	p.connect(t)
	p.holds(t, p.client)
	p.types(t, commands[last])
	p.await(t, "the operator finds the Etcd whole", p.whole)
	if err := chart.Upgrade(t.Context(), s.Kubeconfig, s.values(s.image), patience, quiet); err != nil {
		t.Fatal(err)
	}
	s.kubectl(t, "get", "validatingwebhookconfiguration", "etcd-druid-components")
	p.write(t, p.client)
	p.nothingIsLost(t, p.client)
	s.await(t, "what is written afterwards is uploaded", p.uploaded(p.writers.Ledger.Newest()))
	p.close(t)
}

// verifies has the Job of docs/operations/recovering.md read the newest chain, as somebody does before volumes go.
func (p *shop) verifies(t *testing.T) {
	t.Helper()
	e, err := p.etcd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	store := e.Spec.Backup.Store
	text := section(t, "recovering.md", "etcdbrctl without a pod")
	at := strings.Index(text, "    apiVersion: batch/v1\n")
	if at < 0 {
		t.Fatal("the page has no Job")
	}
	manifest, _, _ := strings.Cut(text[at:], "\n\n")
	replace := []string{"NAME", name, "IMAGE", p.image, "BUCKET", *store.Container, "PREFIX", store.Prefix, "SECRET", store.SecretRef.Name}
	if endpoint := store.EndpointOverride; endpoint != nil {
		const comment = "# - --store-endpoint-override=https://minio.example:9000     as spec.backup.store.endpointOverride"
		if !strings.Contains(manifest, comment) {
			t.Fatalf("the Job has no endpoint: %s", manifest)
		}
		replace = append([]string{comment, "- --store-endpoint-override=" + *endpoint}, replace...)
	}
	manifest = strings.ReplaceAll(strings.NewReplacer(replace...).Replace(manifest), "\n    ", "\n")
	if _, err := p.KubectlWith(t.Context(), strings.TrimSpace(manifest), "--namespace="+p.namespace, "create", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, found := range inText.FindAllStringSubmatch(text[at:], -1) {
		if c := found[2]; c != "" && !strings.HasPrefix(c, "kubectl create") {
			commands = append(commands, c)
		}
	}
	if len(commands) != 4 {
		t.Fatalf("commands around the Job: %q", commands)
	}
	p.types(t, commands[:1]...)
	told := p.kubectl(t, "--namespace="+p.namespace, "logs", "job/look")
	if code := p.kubectl(t, "--namespace="+p.namespace, "get", "pods", "-l", "batch.kubernetes.io/job-name=look", "-o", `jsonpath={.items[0].status.containerStatuses[0].state.terminated.exitCode}`); code != "0" || !strings.Contains(told, "restorable") {
		t.Errorf("the Job ends with %s and says %s", code, told)
	}
	p.types(t, commands[1:]...)
}

// A move into Kubernetes is given up half-way, as docs/operations/moving-in.md has it: the cluster outside goes on with everything.
func giveTheMoveUp(t *testing.T, s *site) {
	const namespace = "move-given-up"
	p, _, old, joins := s.outside(t, namespace)
	p.make(t, spec(3, map[string]any{"etcd": joins}))
	s.await(t, "all six vote", p.votes(old, "main-0", "main-1", "main-2", "old-0", "old-1", "old-2"))

	commands := typed(t, "moving-in.md", "Giving the move up", 3)
	p.types(t, commands[0])
	for i := 2; i >= 0; i-- {
		p.types(t, strings.Replace(commands[1], "--replicas=2", "--replicas="+strconv.Itoa(i), 1))
		p.await(t, fmt.Sprintf("the pod main-%d is gone", i), func(ctx context.Context) error {
			pods, err := p.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: druidv1alpha1.LabelComponent + "=" + druidv1alpha1.ComponentStatefulSet})
			if err == nil && len(pods.Items) > i {
				err = fmt.Errorf("there are %d pods", len(pods.Items))
			}
			return err
		})
		p.await(t, fmt.Sprintf("main-%d is removed", i), func(ctx context.Context) error {
			list, err := old.MemberList(ctx)
			if err != nil {
				return err
			}
			for _, m := range list.Members {
				if m.Name == name+"-"+strconv.Itoa(i) {
					_, err = old.MemberRemove(ctx, m.ID)
					return errors.Join(err, errors.New("it was listed"))
				}
			}
			return nil
		})
	}
	s.await(t, "those outside are the cluster", p.votes(old, "old-0", "old-1", "old-2"))
	p.types(t, commands[len(commands)-1])
	p.await(t, "the Etcd is gone", func(ctx context.Context) error {
		left, err := p.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d pods are left", len(left.Items))
		}
		return err
	})
	p.nothingIsLost(t, old)
}
