package journeys_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/cluster"
)

// A volume has no room left. The status says so and what to do, the members that have room go on, and a larger
// storageCapacity mends it without a restart.
func fullVolume(t *testing.T, s *site) {
	const namespace, victim = "full-volume", "main-1"
	s.namespace(t, namespace)
	p := s.open(t, namespace, spec(3, map[string]any{"storageCapacity": "512Mi"}))
	p.write(t, p.client)
	before := p.uids(t)
	// Space is taken without being written, down to less than is needed for etcd's log.
	p.onVolume(t, victim, `dir=$1; free=$(df --output=avail -B1M "$dir" | tail -1); fallocate -l $((free - 32))M "$dir/somebody-elses"`)
	p.tells(t, time.Now(), druidv1alpha1.ConditionDataVolumesReady, druidv1alpha1.ReasonVolumeFull, victim+", claim main-"+victim)
	p.tells(t, time.Now(), druidv1alpha1.ConditionDataVolumesReady, druidv1alpha1.ReasonVolumeFull, "raise spec.storageCapacity")
	s.await(t, "an event tells of it", p.told("VolumesNotReady", victim))
	p.more(t)
	p.patch(t, `{storageCapacity: 1Gi}`)
	p.oneAtATime(t, 3, "all volumes have the new size", func(ctx context.Context) error {
		for i := range 3 {
			claim, err := s.Client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, fmt.Sprintf("main-main-%d", i), metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got := claim.Status.Capacity.Storage().String(); got != "1Gi" {
				return fmt.Errorf("claim %s has %s", claim.Name, got)
			}
		}
		return p.whole(ctx)
	})
	s.await(t, "an event tells of it", p.told("VolumesGrow", "1Gi"))
	if after := p.uids(t); strings.Join(after, " ") != strings.Join(before, " ") {
		t.Error("pods were replaced on the way")
	}
	p.nothingIsLost(t, p.client)
}

// A volume becomes read-only under its member, as after an error of the disk. The member gets a new one, once,
// and the data from the others.
func readOnlyVolume(t *testing.T, s *site) {
	const namespace, victim = "readonly-volume", "main-2"
	s.namespace(t, namespace)
	p := s.open(t, namespace, spec(3, backed(s.bucket(t, namespace, namespace, "shop"))))
	p.write(t, p.client)
	claims := s.Client.CoreV1().PersistentVolumeClaims(namespace)
	former, err := claims.Get(t.Context(), "main-"+victim, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.onVolume(t, victim, cluster.MakeReadOnly)
	p.oneAtATime(t, 3, "the operator gives the member another volume", p.told("VolumeReplaced", victim))
	p.oneAtATime(t, 3, "the Etcd is whole", func(ctx context.Context) error {
		claim, err := claims.Get(ctx, "main-"+victim, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if claim.UID == former.UID {
			return fmt.Errorf("%s still has its former claim", victim)
		}
		return p.whole(ctx)
	})
	var m druidv1alpha1.EtcdMember
	if err := p.read(t.Context(), "etcdmembers", victim, &m); err != nil {
		t.Fatal(err)
	}
	if done := m.Annotations["druid.gardener.cloud/volume-actions"]; !strings.Contains(done, string(former.UID)) {
		t.Errorf("what was done to the volumes of %s is %q, want it to name the former claim %s", victim, done, former.UID)
	}
	p.nothingIsLost(t, p.client)
}

// onVolume runs a script on the node of a member's pod.
func (p *shop) onVolume(t *testing.T, member, script string) {
	t.Helper()
	if err := p.OnVolume(t.Context(), p.namespace, member, "main-"+member, script); err != nil {
		t.Fatal(err)
	}
}
