package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/cluster"
)

// How often members report, as their sidecars do by default.
const (
	heartbeat    = 10 * time.Second
	leaderTells  = 10 // every so many heartbeats the one that leads writes that there is nothing new
	anybodyTells = 30 // every so many heartbeats everybody writes what did not change
)

// bindVolumes makes volumes for the claims of the members, which nobody provisions here.
func (s *site) bindVolumes(ctx context.Context, etcds int) error {
	return each(ctx, etcds*membersOfEtcd, func(ctx context.Context, i int) error {
		e := druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(i / membersOfEtcd), Name: nameOf(i / membersOfEtcd)}}
		name := e.VolumeClaimName(i % membersOfEtcd)
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("volume-%d", i)}, Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("100Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:    &corev1.ObjectReference{Namespace: e.Namespace, Name: name},

			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
		}}
		_, err := s.Client.CoreV1().PersistentVolumes().Create(ctx, v, metav1.CreateOptions{})
		return err
	})
}

// volumesBound waits until every claim has its volume, which takes the controllers of Kubernetes longer than members take to report.
func (s *site) volumesBound(ctx context.Context, etcds int) error {
	return cluster.Await(ctx, untilTimeout, func(ctx context.Context) error {
		claims, err := s.Client.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		bound := 0
		for i := range claims.Items {
			if claims.Items[i].Status.Phase == corev1.ClaimBound && len(claims.Items[i].Status.Capacity) > 0 {
				bound++
			}
		}
		if want := etcds * membersOfEtcd; bound < want {
			return errors.Join(wait(ctx, time.Second), fmt.Errorf("%d of %d claims are bound", bound, want))
		}
		return nil
	})
}

// beats are members that live: they renew their Leases, and write the status of their EtcdMembers.
type beats struct {
	site    *site
	members int
	begun   time.Time
	renewed atomic.Int64 // Leases so far
}

func newBeats(s *site, etcds int) *beats {
	return &beats{site: s, members: etcds * membersOfEtcd, begun: time.Now()}
}

// run has all members report until ctx ends. Each has a moment of its own within the period.
func (b *beats) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	workers := min(atOnce, b.members)
	for w := range workers {
		g.Go(func() error {
			for round := 0; ; round++ {
				for i := w; i < b.members; i += workers {
					due := b.begun.Add(heartbeat * time.Duration(round)).Add(heartbeat * time.Duration(i) / time.Duration(b.members))
					if err := wait(ctx, time.Until(due)); err != nil {
						return err
					}
					if err := b.report(ctx, i, round); err != nil {
						return err
					}
				}
			}
		})
	}
	return g.Wait()
}

// report is what member i does in a round.
func (b *beats) report(ctx context.Context, i, round int) error {
	etcd, ordinal := i/membersOfEtcd, i%membersOfEtcd
	e := druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(etcd), Name: nameOf(etcd)}}
	leads, role := ordinal == 0, "Member"
	if leads {
		role = "Leader"
	}
	now := time.Now()
	lease := map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{druidv1alpha1.AnnotationPeerTLSEnabled: "false"}},
		"spec":     map[string]any{"holderIdentity": fmt.Sprintf("%016x:%016x:%s", 0xa0+ordinal, 0xc000+etcd, role), "renewTime": metav1.NewMicroTime(now)},
	}
	body, err := json.Marshal(lease)
	if err != nil {
		return err
	}
	if _, err := b.site.Client.CoordinationV1().Leases(e.Namespace).Patch(ctx, e.MemberLeaseName(ordinal), types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		return err
	}
	b.renewed.Add(1)
	turn := round + i
	if round > 0 && turn%anybodyTells != 0 && (!leads || turn%leaderTells != 0) {
		return nil
	}
	if body, err = json.Marshal(map[string]any{"status": b.status(etcd, ordinal, leads, now)}); err != nil {
		return err
	}
	_, err = b.site.objects.Resource(druidResource("etcdmembers")).Namespace(e.Namespace).
		Patch(ctx, e.MemberName(ordinal), types.MergePatchType, body, metav1.PatchOptions{}, "status")
	return err
}

// status is that of a member with which nothing is wrong.
func (b *beats) status(etcd, ordinal int, leads bool, now time.Time) druidv1alpha1.MemberReport {
	id, clusterID, plain, size := fmt.Sprintf("%016x", 0xa0+ordinal), fmt.Sprintf("%016x", 0xc000+etcd), false, resource.MustParse("104857600")
	s := druidv1alpha1.MemberReport{
		ID: &id, ClusterID: &clusterID, PeerTLSEnabled: &plain, PeerURLs: []string{fmt.Sprintf("http://%s-%d:2380", nameOf(etcd), ordinal)},
		State: druidv1alpha1.MemberStarted, SubState: druidv1alpha1.MemberFollower, Version: "3.6.16", Revision: 1000, DBSize: &size, DBSizeInUse: &size,
	}
	begun := metav1.NewTime(b.begun)
	if leads {
		nothing := metav1.NewTime(now)
		s.SubState, s.BackupLeader = druidv1alpha1.MemberLeader, true
		s.Snapshots = &druidv1alpha1.MemberSnapshots{NothingNew: &nothing, LastFull: &druidv1alpha1.MemberSnapshot{Timestamp: begun, Name: "Full-00000000-00001000-1700000000.zst", Size: &size, EndRevision: 1000}}
	}
	s.Transitions = []druidv1alpha1.MemberTransition{{State: s.State, SubState: s.SubState, Reason: druidv1alpha1.MemberReasonDetectedPreviousCleanExit, TransitionTime: begun}}
	return s
}
