package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"druid.internal/druid/test/cluster"
	"druid.internal/druid/test/cluster/image"
	"druid.internal/druid/test/stores"
)

// The images that the nodes have.
const (
	memberImage = "registry.local/etcd-druid:bench"
	bareImage   = "registry.local/etcd:bench"
)

// nodesPatience is for each thing that is waited for on the nodes.
const nodesPatience = 3 * time.Minute

// onNodes is a cluster of three members on a Kubernetes with three nodes, whoever looks after it.
type onNodes struct {
	*site
	name string // of the cluster, which its pods' names begin with; the namespace has it, too
	pods string // the label selector of its pods

	make    func(context.Context) error
	settled func(context.Context) error                    // nil: nothing is to be done any more
	roll    func(ctx context.Context, leader string) error // has all pods replaced
	remove  func(context.Context) error                    // everything but the volumes
	pace    [3]*measured                                   // by stage
}

// The stages of each round, by their place in onNodes.pace.
const (
	making = iota
	deletion
	rollout
)

// measureNodes has three members started, lost and replaced on real nodes: by the operator, and by
// nobody, which is as fast as pods start and members elect a leader.
func measureNodes(ctx context.Context, b *bench) (_ *result, err error) {
	if _, err := os.Stat(b.operator); err != nil {
		return nil, fmt.Errorf("%w; `make build` builds it", err)
	}
	s, op, err := b.startNodes(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	defer op.Kill()
	bare, ours := newPace("three bare etcds"), newPace("three members of an Etcd")
	for round := range b.rounds {
		if err := b.onNodes(ctx, round, s.bare(round, bare)); err != nil {
			return nil, fmt.Errorf("bare etcds: %w", err)
		}
		if err := b.onNodes(ctx, round, s.etcd(round, ours)); err != nil {
			return nil, fmt.Errorf("an Etcd: %w\n%s", err, op.Log())
		}
	}
	return judgeNodes(bare, ours), nil
}

func newPace(who string) (pace [3]*measured) {
	for i, what := range []string{"created to all ready", "the leader's pod deleted to all ready", "replacement of all pods"} {
		pace[i] = &measured{name: who + ": " + what}
	}
	return pace
}

// nodesTargets are in seconds, and what the original takes.
var nodesTargets = []struct {
	work, what string
	limit      float64
	original   string
}{
	{"3 members on 3 nodes, no backup store", "apply to all pods ready", 12, "115 s"},
	{"", "pod of the leader deleted to 3 ready", 8, "17 to 18 s"},
	{"", "replacement of all pods", 25, "51 s"},
}

// judgeNodes holds the Etcd against the targets, and shows what pods and etcd take by themselves.
func judgeNodes(bare, ours [3]*measured) *result {
	r := &result{tables: []table{{
		title: "Three members on three nodes", head: []string{"", "with the operator", "bare etcds", "the original"},
		note: "Bare etcds are three in a StatefulSet without an operator and without a sidecar, on the same nodes, in turns: the start of pods and the election, a lower bound for all but the loss of the leader, which they have to notice while our leader hands its leadership over.",
	}}}
	for i, t := range nodesTargets {
		r.programs = append(r.programs, bare[i], ours[i])
		r.criteria = append(r.criteria, criterion{t.work, t.what, ours[i].median(wall), atMost, t.limit, "s", disturbed(ours[i])})
		r.tables[0].rows = append(r.tables[0].rows, []string{t.what, amount(ours[i].median(wall), "s"), amount(bare[i].median(wall), "s"), t.original})
	}
	return r
}

// startNodes starts a Kubernetes with nodes, and an operator beside it with its default settings.
func (b *bench) startNodes(ctx context.Context) (_ *site, _ *operating, err error) {
	done := doing("starting Kubernetes with three nodes")
	dir := b.scratch("nodes")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	tars, err := b.memberImages(dir)
	if err != nil {
		return nil, nil, err
	}
	s, err := b.startSite(ctx, dir, cluster.Options{Nodes: 3, Images: tars})
	if err != nil {
		return nil, nil, err
	}
	var op *operating
	if err = s.knowsOwners(ctx); err == nil {
		op, err = s.operate(b, "--image="+memberImage)
	}
	if err != nil {
		return nil, nil, errors.Join(err, s.Stop())
	}
	done()
	return s, op, nil
}

// memberImages are tarballs of the members' programs and of etcd alone.
func (b *bench) memberImages(dir string) (tars []string, err error) {
	system, err := image.System()
	if err != nil {
		return nil, err
	}
	etcd, err := stores.Binary("etcd")
	if err != nil {
		return nil, err
	}
	for _, spec := range []image.Spec{
		{Name: memberImage, Files: append([]image.File{
			{Path: "/usr/local/bin/etcdbrctl", Source: b.etcdbrctl}, {Path: "/usr/local/bin/etcd-wrapper", Source: b.wrapper},
		}, system...)},
		{Name: bareImage, Files: []image.File{{Path: "/etcd", Source: etcd, Mode: 0o755}}},
	} {
		tar := filepath.Join(dir, fmt.Sprintf("image-%d.tar", len(tars)))
		if err := image.Write(tar, spec); err != nil {
			return nil, err
		}
		tars = append(tars, tar)
	}
	return tars, nil
}

// onNodes goes through all stages once. After each, everything that was acknowledged has to be there,
// and all three have to be voting members that answer.
func (b *bench) onNodes(ctx context.Context, round int, o *onNodes) error {
	if err := o.namespace(ctx); err != nil {
		return err
	}
	none := map[string]types.UID{}
	stage := func(i int, begin func(context.Context) error, former map[string]types.UID) error {
		return b.round(ctx, round, o.pace[i], func(ctx context.Context) (time.Duration, func() error, error) {
			began := time.Now()
			err := begin(ctx)
			if err == nil {
				err = o.await(ctx, "three pods are ready", func(ctx context.Context) error { return o.ready(ctx, former) })
			}
			took := time.Since(began)
			if err != nil {
				return took, nil, err
			}
			return took, func() error { return o.right(ctx, i) }, nil
		})
	}
	if err := stage(making, o.make, none); err != nil {
		return err
	}
	leader, uids, err := o.leader(ctx)
	if err != nil {
		return err
	}
	lose := func(ctx context.Context) error {
		return o.Client.CoreV1().Pods(o.name).Delete(ctx, leader, metav1.DeleteOptions{})
	}
	if err := stage(deletion, lose, map[string]types.UID{leader: uids[leader]}); err != nil {
		return err
	}
	if leader, uids, err = o.leader(ctx); err != nil {
		return err
	}
	if err := stage(rollout, func(ctx context.Context) error { return o.roll(ctx, leader) }, uids); err != nil {
		return err
	}
	if err := o.remove(ctx); err != nil {
		return err
	}
	return o.await(ctx, "its pods are gone", func(ctx context.Context) error {
		pods, err := o.list(ctx)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("there are %d", len(pods))
		}
		return err
	})
}

func (o *onNodes) await(ctx context.Context, what string, fact func(context.Context) error) error {
	if err := cluster.Await(ctx, nodesPatience, fact); err != nil {
		return fmt.Errorf("%s: wait until %s: %w", o.name, what, err)
	}
	return nil
}

func (o *onNodes) namespace(ctx context.Context) error {
	_, err := o.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.name}}, metav1.CreateOptions{})
	return err
}

func (o *onNodes) list(ctx context.Context) ([]corev1.Pod, error) {
	list, err := o.Client.CoreV1().Pods(o.name).List(ctx, metav1.ListOptions{LabelSelector: o.pods})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// ready is nil if three pods are, none of which is a former one.
func (o *onNodes) ready(ctx context.Context, former map[string]types.UID) error {
	pods, err := o.list(ctx)
	if err != nil {
		return err
	}
	if len(pods) != membersOfEtcd {
		return fmt.Errorf("there are %d pods", len(pods))
	}
	for _, p := range pods {
		if p.DeletionTimestamp != nil || former[p.Name] == p.UID {
			return fmt.Errorf("%s is the former one", p.Name)
		}
		if !podReady(&p) {
			return fmt.Errorf("%s is not ready", p.Name)
		}
	}
	return nil
}

func podReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// right is nil once whoever looks after the cluster has nothing to do any more, if all that was written
// after the stages before is there, on three voting members. It writes for the next stages.
func (o *onNodes) right(ctx context.Context, stage int) error {
	if err := o.await(ctx, "nothing is left to do", o.settled); err != nil {
		return err
	}
	pods, err := o.list(ctx)
	if err != nil {
		return err
	}
	for _, p := range pods {
		if err := o.member(ctx, &p, stage); err != nil {
			return fmt.Errorf("%s, after stage %d: %w", p.Name, stage, err)
		}
	}
	c, err := dial(endpointOf(&pods[0]))
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Put(ctx, stageKey(stage), o.name)
	return err
}

func stageKey(stage int) string { return fmt.Sprintf("/after/%d", stage) }

func endpointOf(p *corev1.Pod) string { return "http://" + net.JoinHostPort(p.Status.PodIP, "2379") }

// member asks one for what was written, and for who belongs to the cluster.
func (o *onNodes) member(ctx context.Context, p *corev1.Pod, stage int) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	c, err := dial(endpointOf(p))
	if err != nil {
		return err
	}
	defer c.Close()
	list, err := c.MemberList(ctx)
	if err != nil {
		return err
	}
	voters := 0
	for _, m := range list.Members {
		if !m.IsLearner {
			voters++
		}
	}
	if voters != membersOfEtcd || len(list.Members) != membersOfEtcd {
		return fmt.Errorf("of %d members %d vote", len(list.Members), voters)
	}
	for before := range stage {
		got, err := c.Get(ctx, stageKey(before))
		if err != nil {
			return err
		}
		if len(got.Kvs) != 1 || string(got.Kvs[0].Value) != o.name {
			return fmt.Errorf("%s is lost", stageKey(before))
		}
	}
	return nil
}

// leader is the name of the pod whose etcd leads, and which pods there are.
func (o *onNodes) leader(ctx context.Context) (name string, uids map[string]types.UID, err error) {
	err = o.await(ctx, "somebody leads", func(ctx context.Context) error {
		pods, err := o.list(ctx)
		if err != nil {
			return err
		}
		name, uids = "", map[string]types.UID{}
		for i := range pods {
			uids[pods[i].Name] = pods[i].UID
			s, err := statusOf(ctx, &pods[i])
			if err != nil {
				return err
			}
			if s.Leader == s.Header.MemberId {
				name = pods[i].Name
			}
		}
		if name == "" {
			return errors.New("nobody does")
		}
		return nil
	})
	return name, uids, err
}

func statusOf(ctx context.Context, p *corev1.Pod) (*clientv3.StatusResponse, error) {
	c, err := dial(endpointOf(p))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return c.Status(ctx, endpointOf(p))
}
