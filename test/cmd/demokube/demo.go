package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/cluster"
	"druid.internal/druid/test/history"
	"druid.internal/druid/test/ledger"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
	"druid.internal/druid/test/writers"
)

// The Etcd of the demonstration.
const (
	namespace   = "shop"
	name        = "main"
	members     = 3
	bucket      = "backups"
	storePrefix = namespace + "/" + name
)

// patience is how long a fact may take on a machine that has more to do.
const patience = 3 * time.Minute

type demo struct {
	ctx        context.Context
	out        io.Writer
	dir        string
	etcdbrctl  string
	image, tar string

	kube    *cluster.Cluster
	minio   *stores.MinIO
	way     sites.Way
	env     []string // of etcdbrctl as a person runs it
	client  *clientv3.Client
	writers writers.Writers

	off      *cluster.Node // the node that is turned off
	compared int64         // the acknowledged writes up to this revision were found in the live cluster
	lineage  string        // of the backups before everything was destroyed
}

// step is one line of the demonstration. What it returns is what was seen.
type step struct {
	title string
	do    func() (string, error)
}

func (d *demo) run() error {
	steps := []step{
		{"Kubernetes from source, three nodes", d.kubernetes},
		{"an S3 store (MinIO, TLS), a locked bucket", d.store},
		{"helm install of the operator", d.install},
		{"kubectl apply of an Etcd with backups", d.apply},
		{"clients write, the bucket keeps up", d.load},
		{"the node of the leader is turned off", d.killNode},
		{"the node comes back", d.startNode},
		{"every acknowledged write is looked for", d.compare},
		{"all pods and volumes are deleted, under load", d.loseAll},
		{"the cluster comes back from the bucket", d.comeBack},
		{"clients write on", d.goOn},
		{"a thief with root's keys of the store", d.steal},
		{"what kubectl says", d.show},
		{"kubectl delete of the Etcd", d.delete},
	}
	for i, s := range steps {
		fmt.Fprintf(d.out, "%2d/%d  %-44s", i+1, len(steps), s.title)
		began := time.Now()
		seen, err := s.do()
		if d.ctx.Err() != nil {
			err = errors.New("stopped by a signal")
		}
		if err != nil {
			fmt.Fprintln(d.out, "failed")
			return fmt.Errorf("step %d, %s: %w", i+1, s.title, err)
		}
		fmt.Fprintf(d.out, "%6.1fs  %s\n", time.Since(began).Seconds(), seen)
	}
	return nil
}

// tell keeps what is known about the cluster after a failure.
func (d *demo) tell() {
	if d.kube == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), tellWithin)
	defer cancel()
	dir := filepath.Join(os.TempDir(), "druid-bundles", "demo")
	if err := errors.Join(os.RemoveAll(dir), d.kube.Bundle(ctx, dir)); err != nil {
		fmt.Fprintf(os.Stderr, "\nnot all that is known could be written: %v\n", err)
	}
	fmt.Fprintf(os.Stderr, "\nwhat is known about the cluster is in %s\n", dir)
}

func (d *demo) close() error {
	d.writers.Stop()
	var errs []error
	if d.client != nil {
		d.client.Close()
	}
	if d.kube != nil {
		errs = append(errs, d.kube.Stop())
	}
	if d.minio != nil {
		errs = append(errs, d.minio.Stop())
	}
	return errors.Join(errs...)
}

// await waits for a fact of the cluster.
func (d *demo) await(what string, fact func(context.Context) error) error {
	if err := cluster.Await(d.ctx, patience, fact); err != nil {
		return fmt.Errorf("wait until %s: %w", what, err)
	}
	return nil
}

// etcd reads the Etcd.
func (d *demo) etcd(ctx context.Context) (e druidv1alpha1.Etcd, err error) {
	text, err := d.kube.Client.Discovery().RESTClient().Get().AbsPath("/apis/druid.gardener.cloud/v1alpha1/namespaces/" + namespace + "/etcds/" + name).DoRaw(ctx)
	if err != nil {
		return e, err
	}
	return e, yaml.Unmarshal(text, &e)
}

// pods are those of the members, in their order.
func (d *demo) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := d.kube.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: druidv1alpha1.LabelPartOf + "=" + name})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// whole is nil if all members serve and the operator says that all is well.
func (d *demo) whole(ctx context.Context) error {
	pods, err := d.pods(ctx)
	if err != nil {
		return err
	}
	if len(pods) != members {
		return fmt.Errorf("there are %d pods", len(pods))
	}
	for _, p := range pods {
		if p.DeletionTimestamp != nil || !ready(p) {
			return fmt.Errorf("pod %s is not ready", p.Name)
		}
	}
	e, err := d.etcd(ctx)
	if err != nil {
		return err
	}
	if s := e.Status.ObservedGeneration; s == nil || *s != e.Generation {
		return errors.New("the operator has not seen the specification yet")
	}
	for _, kind := range []druidv1alpha1.ConditionType{
		druidv1alpha1.ConditionReady, druidv1alpha1.ConditionAllMembersReady, druidv1alpha1.ConditionAllMembersUpdated, druidv1alpha1.ConditionBackupReady,
	} {
		c := druidv1alpha1.FindCondition(e.Status.Conditions, kind)
		if c == nil {
			return fmt.Errorf("%s is not known", kind)
		}
		if c.Status != druidv1alpha1.ConditionTrue {
			return fmt.Errorf("%s is %s: %s", kind, c.Status, c.Message)
		}
	}
	return nil
}

func ready(p corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// connect makes a new client of the members' pods, which have other addresses after a restart.
func (d *demo) connect() error {
	pods, err := d.pods(d.ctx)
	if err != nil {
		return err
	}
	if d.client != nil {
		d.client.Close()
	}
	c := clientv3.Config{DialTimeout: 10 * time.Second, DialKeepAliveTime: 6 * time.Second, DialKeepAliveTimeout: 2 * time.Second, Logger: zap.NewNop()}
	for _, p := range pods {
		c.Endpoints = append(c.Endpoints, endpoint(p))
	}
	d.client, err = clientv3.New(c)
	return err
}

func endpoint(p corev1.Pod) string { return "http://" + p.Status.PodIP + ":2379" }

// leader is the pod whose etcd leads.
func (d *demo) leader() (corev1.Pod, error) {
	pods, err := d.pods(d.ctx)
	if err != nil {
		return corev1.Pod{}, err
	}
	for _, p := range pods {
		ctx, cancel := context.WithTimeout(d.ctx, 5*time.Second)
		s, err := d.client.Status(ctx, endpoint(p))
		cancel()
		if err != nil {
			return p, fmt.Errorf("ask %s: %w", p.Name, err)
		}
		if s.Leader == s.Header.MemberId {
			return p, nil
		}
	}
	return corev1.Pod{}, errors.New("no member leads")
}

// more waits until n more writes were acknowledged.
func (d *demo) more(n int) error {
	goal := d.writers.EverAcknowledged() + n
	return d.await(fmt.Sprintf("%d more writes are acknowledged", n), func(context.Context) error {
		if got := d.writers.EverAcknowledged(); got < goal {
			return fmt.Errorf("%d are missing", goal-got)
		}
		return nil
	})
}

// compareKeys looks for what was acknowledged in the key space of the live cluster.
func (d *demo) compareKeys() (keys int, err error) {
	kvs, _, err := history.Read(d.ctx, d.client, 0)
	if err != nil {
		return 0, err
	}
	return len(kvs), found(d.writers.Ledger.AgainstKeys(kvs, 0))
}

// compareHistory looks for what was acknowledged in the history that the live cluster tells.
func (d *demo) compareHistory(from int64) (events int, to int64, err error) {
	r, err := d.client.Get(d.ctx, "\x00")
	if err != nil {
		return 0, 0, err
	}
	to = r.Header.Revision
	var told []ledger.Event
	if err := d.await("the history can be watched", func(ctx context.Context) (err error) { // a member may lose its leader once more
		told, err = ledger.Watched(ctx, d.client, from, to)
		return err
	}); err != nil {
		return 0, 0, err
	}
	return len(told), to, found(d.writers.Ledger.AgainstEvents(told, from, to))
}

func found(wrong []string) error {
	if len(wrong) > 0 {
		return fmt.Errorf("not all acknowledged writes are there:\n  %s", strings.Join(wrong, "\n  "))
	}
	return nil
}
