package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/cluster"
)

// What a user with the right to create ConfigMaps adds to a namespace.
const (
	floodConfigMaps     = 450
	floodConfigMapBytes = 1000 << 10 // an API server accepts 1 MiB
	// boundsOperatorMB is what an operator of one Etcd may take beside them: the container has 512.
	boundsOperatorMB = 256
)

// measureBoundsOperator starts an operator where there are labelled ConfigMaps of 1 MB, and has it make
// a cluster.
func measureBoundsOperator(ctx context.Context, b *bench) (r *result, err error) {
	site, err := b.startSite(ctx, filepath.Join(b.scratch("bounds"), "operator"), cluster.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, site.Stop()) }()
	if err := errors.Join(site.createEtcds(ctx, 1, nil), site.knowsOwners(ctx)); err != nil {
		return nil, err
	}
	n := b.of(floodConfigMaps, floodConfigMaps/10)
	done := doing("%d labelled ConfigMaps of %d KiB", n, floodConfigMapBytes>>10)
	if err := site.floodConfigMaps(ctx, n); err != nil {
		return nil, err
	}
	done()
	op, err := site.operate(b)
	if err != nil {
		return nil, err
	}
	defer op.Kill()
	work := fmt.Sprintf("the operator, beside %d labelled ConfigMaps of 1 MB", n)
	m, err := b.observe(ctx, work, []observed{op.observed()}, func(ctx context.Context) error { return site.until(ctx, 1, etcdMade) })
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, op.Log())
	}
	return &result{programs: m, criteria: []criterion{{work, "memory", m[0].worst(rss), atMost, boundsOperatorMB, "MB", false}}}, nil
}

// floodConfigMaps creates what anybody with that right can.
func (s *site) floodConfigMaps(ctx context.Context, n int) error {
	maps := s.objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespaceOf(0))
	content := strings.Repeat("x", floodConfigMapBytes)
	return each(ctx, n, func(ctx context.Context, i int) error {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": fmt.Sprintf("flood-%d", i), "labels": map[string]any{druidv1alpha1.LabelManagedBy: druidv1alpha1.ManagedBy, druidv1alpha1.LabelPartOf: "main"}},
			"data":     map[string]any{"content": content},
		}}
		_, err := maps.Create(ctx, o, metav1.CreateOptions{})
		return err
	})
}
