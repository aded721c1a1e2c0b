package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/writers"
)

// Facts of a demonstration that is worth looking at.
const (
	enoughWrites = 150 // acknowledged ones, before something is done to the cluster
	// stallAtMost is more than noticing a dead machine and electing a leader takes, on a machine that
	// has more to do.
	stallAtMost = 30 * time.Second
)

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

func (d *demo) load() (string, error) {
	d.writers.Start(d.ctx, d.client)
	if err := d.more(enoughWrites); err != nil {
		return "", err
	}
	newest := d.writers.Ledger.Newest()
	if _, err := d.awaitUploaded(newest); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d clients, revision %d was uploaded while they go on", writers.Clients, newest), nil
}

func (d *demo) killNode() (string, error) {
	leader, err := d.leader()
	if err != nil {
		return "", err
	}
	if d.off, err = d.kube.Node(leader.Spec.NodeName); err != nil {
		return "", err
	}
	d.writers.Mark()
	if err := d.off.Kill(); err != nil {
		return "", err
	}
	if err := d.more(enoughWrites); err != nil {
		return "", err
	}
	stall := d.writers.Stall()
	if stall > stallAtMost {
		return "", fmt.Errorf("no write was acknowledged for %s", stall)
	}
	if err := d.await("the operator says that two of three are ready and have a quorum", func(ctx context.Context) error {
		e, err := d.etcd(ctx)
		if err != nil {
			return err
		}
		c := druidv1alpha1.FindCondition(e.Status.Conditions, druidv1alpha1.ConditionReady)
		if c == nil || c.Status != druidv1alpha1.ConditionTrue || e.Status.ReadyReplicas != members-1 {
			return fmt.Errorf("ready are %d, and the condition is %+v", e.Status.ReadyReplicas, c)
		}
		return nil
	}); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s with %s: writes stalled %s and went on, the Etcd says 2 of 3 ready, quorate", d.off.Name, leader.Name, seconds(stall)), nil
}

func (d *demo) startNode() (string, error) {
	d.writers.Mark()
	if err := d.off.Start(d.ctx); err != nil {
		return "", err
	}
	if err := d.await("the Etcd is whole", d.whole); err != nil {
		return "", err
	}
	stall := d.writers.Stall()
	d.writers.Stop()
	if err := d.connect(); err != nil {
		return "", err
	}
	d.writers.Start(d.ctx, d.client)
	if stall > stallAtMost {
		return "", fmt.Errorf("no write was acknowledged for %s", stall)
	}
	return fmt.Sprintf("its member takes part again, writes stalled %s", seconds(stall)), d.more(enoughWrites)
}

func (d *demo) compare() (string, error) {
	d.writers.Stop()
	keys, err := d.compareKeys()
	if err != nil {
		return "", err
	}
	events, rev, err := d.compareHistory(2)
	if err != nil {
		return "", err
	}
	d.compared = rev
	d.writers.Start(d.ctx, d.client)
	return fmt.Sprintf("%d acknowledged, found in %d keys and the %d events of revision 2 to %d", d.writers.Ledger.Acknowledged(), keys, events, rev),
		d.more(enoughWrites)
}

// uids are the pods and claims of the Etcd.
func (d *demo) uids(ctx context.Context) (all []types.UID, err error) {
	of := metav1.ListOptions{LabelSelector: druidv1alpha1.LabelPartOf + "=" + name}
	pods, err := d.kube.Client.CoreV1().Pods(namespace).List(ctx, of)
	if err != nil {
		return nil, err
	}
	for _, p := range pods.Items {
		all = append(all, p.UID)
	}
	claims, err := d.kube.Client.CoreV1().PersistentVolumeClaims(namespace).List(ctx, of)
	if err != nil {
		return nil, err
	}
	for _, c := range claims.Items {
		all = append(all, c.UID)
	}
	return all, nil
}

func (d *demo) loseAll() (string, error) {
	l, err := d.awaitUploaded(d.compared)
	if err != nil {
		return "", err
	}
	d.lineage = l.Lineages[0].ID
	doomed, err := d.uids(d.ctx)
	if err != nil {
		return "", err
	}
	if len(doomed) != 2*members {
		return "", fmt.Errorf("there are %d pods and claims, want %d", len(doomed), 2*members)
	}
	if _, err := d.kube.Kubectl(d.ctx, "--namespace="+namespace, "delete", "persistentvolumeclaims,pods", "--selector="+druidv1alpha1.LabelPartOf+"="+name, "--wait=false", "--grace-period=1"); err != nil {
		return "", err
	}
	if err := d.await("all pods and volumes are gone", func(ctx context.Context) error {
		left, err := d.uids(ctx)
		if err != nil {
			return err
		}
		for _, uid := range left {
			if slices.Contains(doomed, uid) {
				return fmt.Errorf("%s is still there", uid)
			}
		}
		return nil
	}); err != nil {
		return "", err
	}
	d.writers.Stop()
	return fmt.Sprintf("%d pods, %d volumes; acknowledged up to revision %d", members, members, d.writers.Ledger.Newest()), nil
}

func (d *demo) comeBack() (string, error) {
	if err := d.await("the Etcd is whole", d.whole); err != nil {
		return "", err
	}
	l, err := d.list(d.ctx)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(l.Lineages, func(l lineage) bool { return l.ID == d.lineage })
	if i < 0 {
		return "", fmt.Errorf("the bucket no longer knows the lineage %s", d.lineage)
	}
	// What came too late for the newest delta is lost, and was never promised to survive this.
	uploaded, before := l.Lineages[i].Newest, d.writers.Ledger.Acknowledged()
	if uploaded < d.compared {
		return "", fmt.Errorf("the bucket reaches revision %d, and reached %d", uploaded, d.compared)
	}
	d.writers.Ledger.Forget(uploaded)
	lost := before - d.writers.Ledger.Acknowledged()
	if err := d.connect(); err != nil {
		return "", err
	}
	keys, err := d.compareKeys()
	if err != nil {
		return "", err
	}
	r, err := d.client.Get(d.ctx, "\x00")
	if err != nil {
		return "", err
	}
	now := r.Header.Revision
	if now <= uploaded {
		return "", fmt.Errorf("the revision is %d, and was %d: clients that watch would miss what happens", now, uploaded)
	}
	if err := d.relists(uploaded); err != nil {
		return "", err
	}
	d.compared = now
	return fmt.Sprintf("all %d keys are there with their revisions up to %d, the last uploaded (%d writes of the last moment were not); revision %d now, watching clients list anew",
		keys, uploaded, lost, now), nil
}

// relists is nil if a client that watches from an old revision is told that it is too old.
func (d *demo) relists(rev int64) error {
	anew := false
	err := d.await(fmt.Sprintf("who watches from revision %d is told to list anew", rev), func(ctx context.Context) (err error) {
		anew, err = writers.ListsAnew(ctx, d.client, rev)
		return err
	})
	if err == nil && !anew {
		err = fmt.Errorf("a watch from revision %d gets events instead of the order to list anew", rev)
	}
	return err
}

func (d *demo) goOn() (string, error) {
	d.writers.Start(d.ctx, d.client)
	if err := d.more(enoughWrites); err != nil {
		return "", err
	}
	d.writers.Stop()
	if _, err := d.compareKeys(); err != nil {
		return "", err
	}
	events, rev, err := d.compareHistory(d.compared + 1)
	if err != nil {
		return "", err
	}
	l, err := d.awaitUploaded(d.writers.Ledger.Newest())
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d events up to revision %d, all uploaded; %d lineages in the bucket", events, rev, len(l.Lineages)), nil
}

// show prints what a person would look at.
func (d *demo) show() (string, error) {
	if err := d.await("the Etcd is whole", d.whole); err != nil {
		return "", err
	}
	fmt.Fprintln(d.out)
	for _, command := range []string{
		"kubectl -n " + namespace + " get etcd -o wide",
		"kubectl -n " + namespace + " get etcdmembers",
		// Of the status what tells of its backups and conditions: the rest is for programs, or was seen above.
		"kubectl -n " + namespace + " describe etcd " + name + " | sed -n '/^Status:/,/^  Current Replicas:/p; /^Events:/,$p'",
	} {
		out, err := d.kube.Shell(d.ctx, d.dir, command)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(d.out, "\n       $ %s\n", command)
		for line := range strings.Lines(out) {
			fmt.Fprintf(d.out, "       %s", line)
		}
	}
	fmt.Fprintf(d.out, "\n       %-44s", "")
	return "", nil
}

// kinds are of what the operator makes for an Etcd, without the claims, which stay.
const kinds = "statefulsets,pods,services,configmaps,secrets,serviceaccounts,roles,rolebindings,poddisruptionbudgets,leases,etcdmembers"

func (d *demo) delete() (string, error) {
	d.client.Close()
	if _, err := d.kube.Kubectl(d.ctx, "--namespace="+namespace, "delete", "etcd", name, "--timeout="+patience.String()); err != nil {
		return "", err
	}
	if err := d.await("nothing is left of the Etcd", func(ctx context.Context) error {
		out, err := d.kube.Kubectl(ctx, "--namespace="+namespace, "get", kinds, "--selector="+druidv1alpha1.LabelPartOf+"="+name, "-o", "name")
		if err == nil && strings.TrimSpace(out) != "" {
			err = fmt.Errorf("left are %s", strings.Join(strings.Fields(out), ", "))
		}
		return err
	}); err != nil {
		return "", err
	}
	l, err := d.list(d.ctx)
	if err != nil {
		return "", err
	}
	claims, err := d.kube.Client.CoreV1().PersistentVolumeClaims(namespace).List(d.ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	if len(claims.Items) != members {
		return "", fmt.Errorf("there are %d volumes, want the %d of the members, which stay", len(claims.Items), members)
	}
	return fmt.Sprintf("no litter; the volumes stay, and the backups up to revision %d", l.Lineages[0].Newest), nil
}
