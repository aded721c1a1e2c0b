package main

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/chart"
	"druid.internal/druid/test/cluster"
)

func (d *demo) kubernetes() (string, error) {
	var err error
	if d.kube, err = cluster.Start(d.ctx, cluster.Options{Nodes: 3, Images: []string{d.tar}}); err != nil {
		return "", err
	}
	v, err := d.kube.Client.Discovery().ServerVersion()
	if err != nil {
		return "", err
	}
	return v.GitVersion + ", kubelets, containers, Services, DNS and volumes of its own", nil
}

func (d *demo) install() (string, error) {
	values := map[string]any{"image": chart.Image(d.image), "replicas": 2}
	if err := chart.Install(d.ctx, d.kube.Kubeconfig, values, patience, slog.New(slog.DiscardHandler)); err != nil {
		return "", err
	}
	if err := d.await("the API server lets Etcds own objects", d.owners); err != nil {
		return "", err
	}
	return "two pods in namespace " + chart.Namespace + ", one of which works", nil
}

// owners is nil once the API server's check of owner references, which looks for new definitions
// every half minute, knows Etcds. Before that the operator would be refused, and try again.
func (d *demo) owners(ctx context.Context) error {
	config := rest.CopyConfig(d.kube.Config)
	config.Impersonate.UserName = "system:serviceaccount:" + chart.Namespace + ":etcd-druid" // administrators are not checked
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	blocks := true
	_, err = client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "owned", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: druidv1alpha1.GroupVersion().String(), Kind: druidv1alpha1.KindEtcd, Name: name, UID: "none", BlockOwnerDeletion: &blocks,
		}},
	}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// manifest is all that is applied.
func (d *demo) manifest() (string, error) {
	secret, err := yaml.Marshal(corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: "etcd-backup", Namespace: namespace},
		StringData: d.way.Files,
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
%[2]s
---
apiVersion: druid.gardener.cloud/v1alpha1
kind: Etcd
metadata: {name: %[3]s, namespace: %[1]s}
spec:
  replicas: %[4]d
  labels: {app: etcd}
  storageCapacity: 1Gi
  etcd: {}
  backup:
    deltaSnapshotPeriod: 2s
    store:
      provider: aws
      container: %[5]s
      prefix: %[6]s
      endpointOverride: %[7]s
      secretRef: {name: etcd-backup}
`, namespace, secret, name, members, bucket, storePrefix, d.minio.Endpoint), nil
}

func (d *demo) apply() (string, error) {
	text, err := d.manifest()
	if err != nil {
		return "", err
	}
	if _, err := d.kube.KubectlWith(d.ctx, text, "apply", "-f", "-"); err != nil {
		return "", err
	}
	if err := d.await("the Etcd is whole", d.whole); err != nil {
		return "", err
	}
	if err := d.connect(); err != nil {
		return "", err
	}
	leader, err := d.leader()
	if err != nil {
		return "", err
	}
	pods, err := d.pods(d.ctx)
	if err != nil {
		return "", err
	}
	nodes := map[string]bool{}
	for _, p := range pods {
		nodes[p.Spec.NodeName] = true
	}
	if len(nodes) != members {
		return "", fmt.Errorf("the pods are on %d nodes, want one on each of %d", len(nodes), members)
	}
	return fmt.Sprintf("three members on three nodes, %s leads, the first full snapshot is in the bucket", leader.Name), nil
}
