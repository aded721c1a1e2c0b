package cluster

import (
	"errors"
	"fmt"
	"path/filepath"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"druid.internal/druid/test/stores"
)

// errNotOurs is for what takes the machines of a cluster that somebody else runs.
var errNotOurs = errors.New("the cluster is none that this process started")

// Use drives a cluster that is there already, by the current context of a kubeconfig file, as an
// administrator. Stop leaves it alone. What would touch its machines or read its audit log is
// refused, and images have to be there already.
func Use(kubeconfig string) (*Cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("use the cluster of %s: %w", kubeconfig, err)
	}
	config.QPS = -1
	program, err := stores.Binary("kubernetes")
	if err != nil {
		return nil, err
	}
	c := &Cluster{Config: config, Kubeconfig: kubeconfig, bin: filepath.Dir(program)}
	if c.Client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("use the cluster of %s: %w", kubeconfig, err)
	}
	return c, nil
}
