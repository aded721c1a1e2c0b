package operator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestThePagesCommandsHaveBackupsWrittenForTheOriginal runs what handing-back.md says first. There are no pods here
// that could be updated, so its wait ends in vain.
func TestThePagesCommandsHaveBackupsWrittenForTheOriginal(t *testing.T) {
	together(t, light)
	s := newSite(t)
	s.grant(t)
	s.namespace(t, "shop")
	s.secret(t, "shop", "credentials")
	s.apply(t, `
apiVersion: druid.gardener.cloud/v1alpha1
kind: Etcd
metadata: {name: main, namespace: shop}
spec:
  labels: {}
  replicas: 3
  etcd: {}
  backup: {store: {provider: aws, container: backups, prefix: p, secretRef: {name: credentials}}}
`)
	p := s.operate(t, "operator", "")
	writes := func(want ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			c, err := s.Client.CoreV1().ConfigMaps("shop").Get(ctx, "main-config", metav1.GetOptions{})
			for _, w := range want {
				if err == nil && !strings.Contains(c.Data["backup-restore.conf.yaml"], w) {
					err = fmt.Errorf("the sidecars are told\n%s\nwant %q", c.Data["backup-restore.conf.yaml"], w)
				}
			}
			return err
		}
	}
	p.await(t, writes("policy: zstd"))
	run := func(begin string, change ...string) error {
		t.Helper()
		commands := pageCommands(t, "handing-back.md", begin)
		if len(commands) != 1 {
			t.Fatalf("the page has the commands %q", commands)
		}
		args := slices.Clone(commands[0])
		for i, a := range args {
			args[i] = strings.NewReplacer(append([]string{"NAME", "main"}, change...)...).Replace(a)
		}
		out, err := s.Kubectl(t.Context(), append(args, "-n=shop")...)
		if err != nil {
			err = fmt.Errorf("kubectl %q: %w: %s", args, err, out)
		}
		return err
	}
	for _, begin := range []string{"patch etcd", "annotate etcd"} {
		if err := run(begin); err != nil {
			t.Fatal(err)
		}
	}
	p.await(t, writes("policy: gzip", "snapshotFormat: v2-json"))
	p.await(t, func(ctx context.Context) error { // before, the status is that of the former specification
		out, err := s.Kubectl(ctx, "get", "etcd", "main", "-n=shop", `-o=jsonpath={.status.conditions[?(@.type=="AllMembersUpdated")].status}`)
		if err == nil && string(out) != "False" {
			err = fmt.Errorf("AllMembersUpdated is %s", out)
		}
		return err
	})
	if err := run("wait etcd NAME --for=condition=AllMembersUpdated", "15m", "1s"); err == nil || !strings.Contains(err.Error(), "timed out") {
		t.Error(errors.Join(errors.New("want the wait to be in vain"), err))
	}
}
