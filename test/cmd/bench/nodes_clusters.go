package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/cluster/image"
)

// volumeOnNodes is what each member gets.
const volumeOnNodes = "1Gi"

// etcd is an Etcd of three members without backups.
func (s *site) etcd(round int, pace [3]*measured) *onNodes {
	name := fmt.Sprintf("etcd-%d", round)
	o := &onNodes{site: s, name: name, pods: druidv1alpha1.LabelPartOf + "=" + name, pace: pace}
	etcds := s.objects.Resource(etcdResource).Namespace(name)
	change := func(ctx context.Context, body map[string]any) error {
		text, err := json.Marshal(body)
		if err == nil {
			_, err = etcds.Patch(ctx, name, types.MergePatchType, text, metav1.PatchOptions{})
		}
		return err
	}
	o.make = func(ctx context.Context) error {
		_, err := etcds.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": druidv1alpha1.GroupVersion().String(), "kind": druidv1alpha1.KindEtcd,
			"metadata": map[string]any{"namespace": name, "name": name},
			"spec":     map[string]any{"labels": map[string]any{}, "replicas": int64(membersOfEtcd), "storageCapacity": volumeOnNodes, "etcd": map[string]any{}, "backup": map[string]any{}},
		}}, metav1.CreateOptions{})
		return err
	}
	o.settled = func(ctx context.Context) error {
		u, err := etcds.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var e druidv1alpha1.Etcd
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &e); err != nil {
			return err
		}
		return settledEtcd(&e)
	}
	o.roll = func(ctx context.Context, _ string) error {
		return change(ctx, map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{druidv1alpha1.AnnotationOperation: druidv1alpha1.OperationReconcile}},
			"spec":     map[string]any{"annotations": map[string]any{"example.com/rolled": "once"}},
		})
	}
	o.remove = func(ctx context.Context) error {
		if err := etcds.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		return o.await(ctx, "the Etcd is gone", func(ctx context.Context) error {
			_, err := etcds.Get(ctx, name, metav1.GetOptions{})
			if err == nil {
				return errors.New("it is there")
			}
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
	}
	return o
}

// settledEtcd is nil if the operator says that nothing is to be done any more.
func settledEtcd(e *druidv1alpha1.Etcd) error {
	if !etcdMade.is(e) {
		return fmt.Errorf("the last operation is %+v", e.Status.LastOperation)
	}
	for _, of := range []druidv1alpha1.ConditionType{druidv1alpha1.ConditionReady, druidv1alpha1.ConditionAllMembersReady, druidv1alpha1.ConditionAllMembersUpdated} {
		c := druidv1alpha1.FindCondition(e.Status.Conditions, of)
		if c == nil || c.Status != druidv1alpha1.ConditionTrue {
			return fmt.Errorf("%s is %+v", of, c)
		}
	}
	return nil
}

// bare are three etcds that nobody looks after but the StatefulSet's controller.
func (s *site) bare(round int, pace [3]*measured) *onNodes {
	name := fmt.Sprintf("bare-%d", round)
	o := &onNodes{site: s, name: name, pods: "app=" + name, pace: pace}
	o.make = func(ctx context.Context) error {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, Selector: map[string]string{"app": name},
			Ports: []corev1.ServicePort{{Name: "peer", Port: 2380}},
		}}
		if _, err := s.Client.CoreV1().Services(name).Create(ctx, service, metav1.CreateOptions{}); err != nil {
			return err
		}
		_, err := s.Client.AppsV1().StatefulSets(name).Create(ctx, bareSet(name), metav1.CreateOptions{})
		return err
	}
	o.settled = func(ctx context.Context) error { return o.ready(ctx, nil) }
	// One pod after the other, the leader's last.
	o.roll = func(ctx context.Context, leader string) error {
		pods, err := o.list(ctx)
		if err != nil {
			return err
		}
		slices.SortStableFunc(pods, func(a, b corev1.Pod) int {
			switch leader {
			case a.Name:
				return 1
			case b.Name:
				return -1
			}
			return 0
		})
		for _, p := range pods {
			if err := s.Client.CoreV1().Pods(name).Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil {
				return err
			}
			if err := o.await(ctx, p.Name+" is back", func(ctx context.Context) error { return o.ready(ctx, map[string]types.UID{p.Name: p.UID}) }); err != nil {
				return err
			}
		}
		return nil
	}
	o.remove = func(ctx context.Context) error {
		return s.Client.AppsV1().StatefulSets(name).Delete(ctx, name, metav1.DeleteOptions{})
	}
	return o
}

func bareSet(name string) *appsv1.StatefulSet {
	var initial []string
	replicas := int32(membersOfEtcd)
	for i := range membersOfEtcd {
		initial = append(initial, fmt.Sprintf("%[1]s-%[2]d=http://%[1]s-%[2]d.%[1]s.%[1]s.svc:2380", name, i))
	}
	own := "http://$(POD_NAME)." + name + "." + name + ".svc:"
	labels := map[string]string{"app": name}
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, ServiceName: name, PodManagementPolicy: appsv1.ParallelPodManagement, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{FSGroup: bareUser()},
			// As the members of an Etcd are by preference: on a node each.
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: labels}}},
			Containers: []corev1.Container{{
				Name: "etcd", Image: bareImage, ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"/etcd"},
				Args: []string{
					"--name=$(POD_NAME)", "--data-dir=/data/etcd", "--initial-cluster=" + strings.Join(initial, ","), "--initial-cluster-token=" + name,
					"--listen-peer-urls=http://0.0.0.0:2380", "--listen-client-urls=http://0.0.0.0:2379",
					"--initial-advertise-peer-urls=" + own + "2380", "--advertise-client-urls=" + own + "2379",
				},
				Env:          []corev1.EnvVar{{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
				// Ready as soon as a linearizable read succeeds.
				ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/health", Port: intstr.FromInt32(2379)}}, PeriodSeconds: 1},
			}},
		}},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(volumeOnNodes)}},
		}}},
	}}
}

// bareUser is the group of the images.
func bareUser() *int64 { group := int64(image.User); return &group }
