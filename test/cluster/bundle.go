package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// Bundle writes into a directory what a person needs to find out what went wrong:
//
//	summary.txt                       nodes, pods and custom resources, as kubectl shows them
//	events.txt                        all events, the last at the end
//	NAMESPACE/RESOURCE.yaml           every object; of Secrets only how long their values are
//	NAMESPACE/POD/CONTAINER.log       with CONTAINER.previous.log if it was started before
//	cluster/PROGRAM.log, audit.log    of the cluster itself, if it is ours
//
// It writes as much as it can get; what it could not is the error.
func (c *Cluster) Bundle(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return errors.Join(
		c.bundleLogs(dir),
		c.bundleEvents(ctx, dir),
		c.bundlePods(ctx, dir),
		c.bundleObjects(ctx, dir),
		c.bundleSummary(ctx, dir),
	)
}

func (c *Cluster) bundleLogs(dir string) error {
	if c.state == nil {
		return nil
	}
	files, err := filepath.Glob(c.file("logs", "*.log"))
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range append(files, c.file(auditLog)) {
		errs = append(errs, copyFile(file, filepath.Join(dir, "cluster", filepath.Base(file))))
	}
	return errors.Join(errs...)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it did not come so far
	}
	if err != nil {
		return err
	}
	defer in.Close()
	return writeFile(to, in)
}

func writeFile(path string, content io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, content)
	return errors.Join(err, out.Close())
}

func (c *Cluster) bundleEvents(ctx context.Context, dir string) error {
	events, err := c.Client.CoreV1().Events("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("events: %w", err)
	}
	at := func(e corev1.Event) time.Time {
		last := e.LastTimestamp.Time
		if e.Series != nil {
			last = e.Series.LastObservedTime.Time
		}
		if last.IsZero() {
			last = e.EventTime.Time
		}
		return last
	}
	slices.SortStableFunc(events.Items, func(a, b corev1.Event) int { return at(a).Compare(at(b)) })
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "TIME\tTYPE\tREASON\tOBJECT\tBY\tMESSAGE")
	for _, e := range events.Items {
		o := e.InvolvedObject
		by := e.Source.Component
		if by == "" {
			by = e.ReportingController
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s %s\t%s\t%s\n", at(e).UTC().Format("15:04:05.000"), e.Type, e.Reason,
			o.Kind, strings.Trim(o.Namespace+"/"+o.Name, "/"), by, strings.ReplaceAll(e.Message, "\n", " "))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "events.txt"), &text)
}

func (c *Cluster) bundlePods(ctx context.Context, dir string) error {
	pods, err := c.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("pods: %w", err)
	}
	var errs []error
	for _, pod := range pods.Items {
		for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			to := filepath.Join(dir, pod.Namespace, pod.Name, container.Name)
			if container.State.Waiting == nil || container.RestartCount > 0 {
				errs = append(errs, c.bundlePodLog(ctx, &pod, container.Name, false, to+".log"))
			}
			if container.RestartCount > 0 {
				errs = append(errs, c.bundlePodLog(ctx, &pod, container.Name, true, to+".previous.log"))
			}
		}
	}
	return errors.Join(errs...)
}

// maxPodLog is how much of one log is kept, in bytes.
const maxPodLog = 16 << 20

func (c *Cluster) bundlePodLog(ctx context.Context, pod *corev1.Pod, container string, previous bool, to string) error {
	limit := int64(maxPodLog)
	opts := &corev1.PodLogOptions{Container: container, Previous: previous, LimitBytes: &limit, Timestamps: true}
	log, err := c.Client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, opts).Stream(ctx)
	if err != nil {
		return fmt.Errorf("log of %s/%s %s: %w", pod.Namespace, pod.Name, container, err)
	}
	defer log.Close()
	return writeFile(to, log)
}

func (c *Cluster) bundleObjects(ctx context.Context, dir string) error {
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	// A group whose server is down does not keep the others from being listed.
	groups, err := discovery.ServerPreferredResources(c.Client.Discovery())
	errs := []error{err}
	for _, group := range groups {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, r := range group.APIResources {
			if !slices.Contains(r.Verbs, "list") || r.Name == "events" {
				continue
			}
			list, err := client.Resource(version.WithResource(r.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", r.Name, err))
				continue
			}
			name := r.Name
			if version.Group != "" {
				name += "." + version.Group
			}
			errs = append(errs, writeObjects(dir, name, list.Items))
		}
	}
	return errors.Join(errs...)
}

// writeObjects writes one file for each namespace, cluster for what is in none.
func writeObjects(dir, resource string, objects []unstructured.Unstructured) error {
	files := map[string]*bytes.Buffer{}
	for _, o := range objects {
		namespace := o.GetNamespace()
		if namespace == "" {
			namespace = "cluster"
		}
		if o.GetKind() == "Secret" {
			hideValues(&o)
		}
		o.SetManagedFields(nil)
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, namespace, resource+".yaml")
		if files[path] == nil {
			files[path] = &bytes.Buffer{}
		}
		files[path].WriteString("---\n")
		files[path].Write(text)
	}
	var errs []error
	for path, text := range files {
		errs = append(errs, writeFile(path, text))
	}
	return errors.Join(errs...)
}

func hideValues(secret *unstructured.Unstructured) {
	data, _, _ := unstructured.NestedStringMap(secret.Object, "data")
	for key, value := range data {
		data[key] = fmt.Sprintf("(%d characters of base64)", len(value))
	}
	_ = unstructured.SetNestedStringMap(secret.Object, data, "data")
	annotations := secret.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	secret.SetAnnotations(annotations)
}

// bundleSummary shows what a person would look at first.
func (c *Cluster) bundleSummary(ctx context.Context, dir string) error {
	var text bytes.Buffer
	var errs []error
	show := func(args ...string) {
		fmt.Fprintf(&text, "$ kubectl %s\n", strings.Join(args, " "))
		out, err := c.Kubectl(ctx, args...)
		text.WriteString(out + "\n")
		errs = append(errs, err)
	}
	show("get", "nodes", "-o", "wide")
	show("get", "statefulsets,jobs,pods,pvc,pv,poddisruptionbudgets,leases", "--all-namespaces", "-o", "wide")
	custom, err := c.Kubectl(ctx, "get", "crds", "-o", "name")
	errs = append(errs, err)
	for crd := range strings.FieldsSeq(custom) {
		_, name, _ := strings.Cut(crd, "/")
		show("get", name, "--all-namespaces", "-o", "wide")
	}
	return errors.Join(append(errs, writeFile(filepath.Join(dir, "summary.txt"), &text))...)
}
