package journeys_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"path"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// handsBack makes an Etcd ready for the original's etcd 3.5 by the commands of docs/operations/handing-back.md, in the pod of a member
// as they stand, and takes it back. Clients write all the while. Members of etcd 3.5 follow in TestAClusterGoesBackToEtcd35WhileItServes
// of test/e2e.
func (p *shop) handsBack(t *testing.T, secure *tls.Config) {
	t.Helper()
	p.write(t, p.client)
	p.types(t, typed(t, "handing-back.md", "First: backups that the original can read", 4)...)
	members := p.updated(t, secure)
	before := p.snapshots(t, p.namespace)

	commands := typed(t, "handing-back.md", "Keep it serving: etcd's downgrade", 3)
	look, begin, end := commands[0], commands[1], commands[2]
	const due, ready = "No downgrade is enabled.", "Each member may be started with etcd 3.5, one after the other."
	p.await(t, "the members have data of etcd 3.6", dataAre(members, "3.6.0", "")) // those restored say so a moment later
	p.isTold(t, look, due)
	told := p.isTold(t, begin, "a full is in the bucket", ready)
	if err := dataAre(members, "3.5.0", "3.5.0")(t.Context()); err != nil {
		t.Errorf("after %s: %v", begin, err)
	}
	p.isTold(t, look, ready)
	p.more(t)
	p.await(t, "the operator finds the Etcd whole", p.whole)

	p.isTold(t, end, "no downgrade is allowed any more")
	p.await(t, "the members have data of etcd 3.6 again", dataAre(members, "3.6.0", ""))
	p.isTold(t, look, due)
	p.nothingIsLost(t, p.client)
	p.await(t, "all is uploaded", p.uploaded(p.writers.Ledger.Newest()))

	full := false
	for key := range p.snapshots(t, p.namespace) {
		if before[key] != nil {
			continue
		}
		if !strings.HasSuffix(key, ".gz") {
			t.Errorf("%s was written after the pods of before were gone, and not with gzip", key)
		}
		object := path.Base(key)
		full = full || strings.HasPrefix(object, "Full-") && strings.Contains(told, object)
	}
	if !full {
		t.Errorf("the full is not in the bucket that is told of: %s", told)
	}
}

// isTold types a command, and looks for what it shall say.
func (p *shop) isTold(t *testing.T, command string, want ...string) (said string) {
	t.Helper()
	said = p.types(t, command)
	for _, w := range want {
		if !strings.Contains(said, w) {
			t.Errorf("%s says %s\nwant %q", command, said, w)
		}
	}
	return said
}

// updated are clients of the members, one for each, all of which have the template of now.
func (p *shop) updated(t *testing.T, secure *tls.Config) (members []*clientv3.Client) {
	t.Helper()
	set, err := p.Client.AppsV1().StatefulSets(p.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := p.pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		if got := pod.Labels["controller-revision-hash"]; got != set.Status.UpdateRevision || pod.Status.PodIP == "" {
			t.Fatalf("when the page's waits have ended, %s is %s at %q, want %s", pod.Name, got, pod.Status.PodIP, set.Status.UpdateRevision)
		}
		members = append(members, p.secured(t, secure, net.JoinHostPort(pod.Status.PodIP, "2379")))
	}
	return members
}

// dataAre is nil if each member, asked itself, says of which etcd the form of its data is, and to which one a downgrade is allowed.
func dataAre(members []*clientv3.Client, version, downgradeTo string) func(context.Context) error {
	return func(ctx context.Context) error {
		for i, m := range members {
			s, err := m.Status(ctx, m.Endpoints()[0])
			if err != nil {
				return err
			}
			to := ""
			if s.DowngradeInfo.GetEnabled() {
				to = s.DowngradeInfo.GetTargetVersion()
			}
			if s.StorageVersion != version || to != downgradeTo {
				return fmt.Errorf("member %d has data of %q and may be downgraded to %q, want %q and %q", i, s.StorageVersion, to, version, downgradeTo)
			}
		}
		return nil
	}
}
