package kube

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cluster is the Kubernetes that the operator works in.
type Cluster struct {
	live client.Reader

	mu  sync.Mutex
	uid string
}

// NewCluster is the cluster of an API server.
func NewCluster(live client.Reader) *Cluster { return &Cluster{live: live} }

// UID is that of the namespace kube-system, which never changes and by which a Kubernetes is told from others.
func (c *Cluster) UID(ctx context.Context) (string, error) {
	c.mu.Lock()
	known := c.uid
	c.mu.Unlock()
	if known != "" {
		return known, nil
	}
	var ns corev1.Namespace
	if err := c.live.Get(ctx, types.NamespacedName{Name: "kube-system"}, &ns); err != nil {
		return "", fmt.Errorf("read the namespace kube-system, whose uid stands for the cluster: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uid = string(ns.UID)
	return c.uid, nil
}
