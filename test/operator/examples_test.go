package operator_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/store/open"
	"druid.internal/druid/test/stores"
)

const examplesDir = "../../examples"

// Every file of examples/ is applied as kubectl would, in one namespace, so that none takes away what
// another made. The pods' specifications are then the operator's own, and say where the credentials are.
func TestTheExamplesWorkAsTheyStand(t *testing.T) {
	together(t, light)
	s := newSite(t)
	s.grant(t)
	const namespace = "default"
	p := s.operate(t, "operator", "controllers: {etcd: {enableEtcdSpecAutoReconcile: true}, etcdCopyBackupsTask: {enabled: true}}")
	a := newApplier(t, s, namespace)
	fill := newFiller(t)

	files, err := filepath.Glob(filepath.Join(examplesDir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if want := listed(t); len(files) == 0 || !slices.Equal(want, base(files)) {
		t.Fatalf("README.md lists %q, and the files are %q", want, base(files))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			e := read(t, file)
			for _, o := range e.objects {
				a.apply(t, o)
			}
			for name, secret := range e.secrets {
				keysAreDocumented(t, name, secret)
			}
			for _, etcd := range e.etcds {
				p.await(t, s.operation(namespace, etcd.Name, "Create Succeeded"))
				s.nothingIsRefused(t, namespace, etcd.Name)
				sts, err := s.Client.AppsV1().StatefulSets(namespace).Get(t.Context(), etcd.Name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				e.brings(t, etcd.Secrets())
				if store := etcd.Spec.Backup.Store; store != nil {
					m := e.mounted(t, sts.Spec.Template.Spec, "backup-restore", fill)
					m.accepts(t, *store, "")
				}
			}
			for _, etcd := range e.etcds {
				if _, named := etcd.CollectorSecret(); !named {
					continue
				}
				p.await(t, s.worked("EtcdOperatorTask", namespace, etcd.CollectionTaskName(), "InProgress", "no run has ended yet"))
				job, err := s.Client.BatchV1().CronJobs(namespace).Get(t.Context(), etcd.CollectionTaskName(), metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				m := e.mounted(t, job.Spec.JobTemplate.Spec.Template.Spec, "collect", fill)
				m.accepts(t, *etcd.Spec.Backup.Store, "")
			}
			for _, task := range e.work { // nobody runs members here, so that is as far as they get
				p.await(t, s.worked(task.GetKind(), namespace, task.GetName(), "Rejected", "Etcd s3 "))
			}
			for _, task := range e.tasks {
				p.await(t, tasks{s, namespace}.is(task.Name, "Succeeded=False Copying", ""))
				job := tasks{s, namespace}.job(t, task.Name)
				e.brings(t, task.Secrets())
				m := e.mounted(t, job.Spec.Template.Spec, desired.ContainerCopy, fill)
				m.accepts(t, task.Spec.SourceStore, open.SourcePrefix)
				m.accepts(t, task.Spec.TargetStore, "")
			}
		})
	}
}

// nothingIsRefused: the conditions of an Etcd whose pods do not run yet hold no other reason than that.
func (s *site) nothingIsRefused(t *testing.T, namespace, name string) {
	t.Helper()
	waiting := []string{
		druidv1alpha1.ReasonNoMembersYet, druidv1alpha1.ReasonNotAllMembersReady, druidv1alpha1.ReasonAllMembersUpdated,
		druidv1alpha1.ReasonNotAllMembersUpdated, druidv1alpha1.ReasonDataVolumesUnknown, // until the StatefulSet's controller has seen it
		druidv1alpha1.ReasonNoBackupYet, druidv1alpha1.ReasonBackupNotKnown, druidv1alpha1.ReasonDataVolumesReady,
		druidv1alpha1.ReasonClusterIDsNotKnown, druidv1alpha1.ReasonSchedulesValid, druidv1alpha1.ReasonProtectionNotKnown,
	}
	e, err := s.get(t.Context(), "Etcd", namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	conditions, _, _ := unstructured.NestedSlice(e.Object, "status", "conditions")
	last, _, _ := unstructured.NestedSlice(e.Object, "status", "lastErrors")
	if len(conditions) == 0 || len(last) > 0 {
		t.Errorf("the conditions are %v, the last errors %v", conditions, last)
	}
	for _, item := range conditions {
		c, _ := item.(map[string]any)
		if reason, _ := c["reason"].(string); !slices.Contains(waiting, reason) {
			t.Errorf("%s is %s because of %s: %s", c["type"], c["status"], reason, c["message"])
		}
	}
}

// applier applies objects and fails where the API server warns.
type applier struct {
	client    dynamic.Interface
	namespace string
	warnings  *warnings
	applied   map[string]bool
}

func newApplier(t *testing.T, s *site, namespace string) *applier {
	t.Helper()
	heard := &warnings{}
	config := rest.CopyConfig(s.Config)
	config.WarningHandler = heard
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &applier{client, namespace, heard, map[string]bool{}}
}

// apply tries an object without and then with effect. A field that the API server does not know is an error.
func (a *applier) apply(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	key := o.GetKind() + " " + o.GetName()
	if a.applied[key] {
		t.Errorf("%s is in two files, of which the second would change what the first made", key)
	}
	a.applied[key] = true
	text, err := o.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	r, ok := resources[o.GetKind()]
	if o.GetKind() == "EtcdCopyBackupsTask" {
		r, ok = schema.GroupVersionResource{Group: "druid.gardener.cloud", Version: "v1alpha1", Resource: "etcdcopybackupstasks"}, true
	}
	if !ok {
		t.Fatalf("%s is of a kind that examples do not have", key)
	}
	for _, dry := range [][]string{{metav1.DryRunAll}, nil} {
		options := metav1.PatchOptions{FieldManager: "kubectl", FieldValidation: metav1.FieldValidationStrict, DryRun: dry}
		if _, err := a.client.Resource(r).Namespace(a.namespace).Patch(t.Context(), o.GetName(), types.ApplyPatchType, text, options); err != nil {
			t.Fatalf("%s (dry run %t): %v", key, dry != nil, err)
		}
		for _, w := range a.warnings.take() {
			t.Errorf("%s (dry run %t) gives the warning: %s", key, dry != nil, w)
		}
	}
}

type warnings struct {
	mu  sync.Mutex
	all []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}

// example is what a file holds.
type example struct {
	objects []*unstructured.Unstructured
	secrets map[string]map[string]string // by their names
	etcds   []*druidv1alpha1.Etcd
	tasks   []*druidv1alpha1.EtcdCopyBackupsTask
	work    []*unstructured.Unstructured // EtcdOperatorTasks and EtcdOpsTasks
}

func read(t *testing.T, file string) example {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	e := example{secrets: map[string]map[string]string{}}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		o := &unstructured.Unstructured{}
		decode(t, document, &o.Object)
		e.objects = append(e.objects, o)
		switch o.GetKind() {
		case "Secret":
			var secret corev1.Secret
			decode(t, document, &secret)
			e.secrets[secret.Name] = secret.StringData
		case "Etcd":
			etcd := &druidv1alpha1.Etcd{}
			decode(t, document, etcd)
			e.etcds = append(e.etcds, etcd)
		case "EtcdCopyBackupsTask":
			task := &druidv1alpha1.EtcdCopyBackupsTask{}
			decode(t, document, task)
			e.tasks = append(e.tasks, task)
		case "EtcdOperatorTask", "EtcdOpsTask":
			e.work = append(e.work, o)
		}
	}
	if len(e.etcds)+len(e.tasks)+len(e.work) != 1 {
		t.Fatalf("it holds %d Etcds and %d tasks, want one of either", len(e.etcds), len(e.tasks)+len(e.work))
	}
	return e
}

func decode(t *testing.T, document string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
		t.Fatalf("%v\n%s", err, document)
	}
}

// brings: the Secrets that are named are in the same file, all of them and no others, those for TLS with their keys.
func (e example) brings(t *testing.T, uses []druidv1alpha1.SecretUse) {
	t.Helper()
	for _, use := range uses {
		var want []string
		switch field := use.Field[strings.LastIndex(use.Field, ".")+1:]; field {
		case "tlsCASecretRef":
			want = []string{"ca.crt"}
		case "serverTLSSecretRef", "clientTLSSecretRef":
			want = []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey}
		}
		if got := slices.Sorted(maps.Keys(e.secrets[use.Name])); want != nil && !slices.Equal(got, want) {
			t.Errorf("the Secret %s of %s has the keys %q, want %q", use.Name, use.Field, got, want)
		}
	}
	if got, want := slices.Sorted(maps.Keys(e.secrets)), druidv1alpha1.SecretNames(uses); !slices.Equal(got, want) {
		t.Errorf("the file has the Secrets %q, and %q are named", got, want)
	}
}

// mounted is what a container finds of the Secrets of an example.
type mounted struct {
	env   map[string]string
	paths map[string]string // directories in the container, with those of this test
}

func (e example) mounted(t *testing.T, pod corev1.PodSpec, container string, fill *strings.Replacer) mounted {
	t.Helper()
	i := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == container })
	if i < 0 {
		t.Fatalf("there is no container %s", container)
	}
	m := mounted{map[string]string{}, map[string]string{}}
	for _, v := range pod.Volumes {
		if v.Secret == nil || e.secrets[v.Secret.SecretName] == nil {
			continue
		}
		dir := t.TempDir()
		for key, content := range e.secrets[v.Secret.SecretName] {
			if err := os.WriteFile(filepath.Join(dir, key), []byte(fill.Replace(content)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, mount := range pod.Containers[i].VolumeMounts {
			if mount.Name == v.Name {
				m.paths[mount.MountPath] = dir
			}
		}
	}
	for _, v := range pod.Containers[i].Env {
		m.env[v.Name] = v.Value
		if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
			ref := v.ValueFrom.SecretKeyRef
			m.env[v.Name] = fill.Replace(e.secrets[ref.Name][ref.Key])
		}
	}
	return m
}

// getenv is the container's environment, with paths of this test.
func (m mounted) getenv(name string) string {
	v := m.env[name]
	for path, dir := range m.paths {
		if rest, ok := strings.CutPrefix(v, path); ok {
			return dir + rest
		}
	}
	return v
}

// accepts: the code that opens stores finds nothing wrong with the credentials. It gets as far as its
// first request, which is not sent. Without a Secret the container must be given no credentials at all.
func (m mounted) accepts(t *testing.T, store druidv1alpha1.StoreSpec, prefix string) {
	t.Helper()
	if store.SecretRef == nil {
		for name := range m.env {
			if strings.Contains(name, "CREDENTIALS") || strings.Contains(name, "ACCESS_KEY") {
				t.Errorf("there is no Secret, and the container has %s", name)
			}
		}
		return
	}
	asked := ""
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := open.Config{
		Provider: desired.Provider(*store.Provider), Container: *store.Container, Environment: open.FromEnvironment(m.getenv, prefix),
		Proxy: func(r *http.Request) (*url.URL, error) {
			if asked == "" {
				asked = r.URL.Host
			}
			cancel()
			return nil, errors.New("this test sends nothing")
		},
	}
	if store.EndpointOverride != nil {
		c.EndpointOverride = *store.EndpointOverride
	}
	if _, err := open.Open(ctx, c); asked == "" {
		t.Errorf("the credentials of %s are refused: %v", c.Provider, err)
	}
}

// keysAreDocumented: a misspelt key that is not required would be ignored.
func keysAreDocumented(t *testing.T, name string, secret map[string]string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations/credentials.md")
	if err != nil {
		t.Fatal(err)
	}
	for key := range secret {
		known := []string{"ca.crt", corev1.TLSCertKey, corev1.TLSPrivateKeyKey}
		if !slices.Contains(known, key) && !strings.Contains(string(page), "`"+key+"`") {
			t.Errorf("the Secret %s has the key %s, which docs/operations/credentials.md does not know", name, key)
		}
	}
}

// newFiller replaces what must be PEM by PEM, as whoever uses the examples does.
func newFiller(t *testing.T) *strings.Replacer {
	t.Helper()
	ca, err := stores.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	certificate, _, err := ca.Issue("example.org")
	if err != nil {
		t.Fatal(err)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	return strings.NewReplacer(
		"-----BEGIN CERTIFICATE-----\nREPLACE\n-----END CERTIFICATE-----", string(certificate),
		`-----BEGIN PRIVATE KEY-----\nREPLACE\n-----END PRIVATE KEY-----\n`, strings.ReplaceAll(text, "\n", `\n`),
	)
}

// listed are the files that the table of README.md has.
func listed(t *testing.T) (files []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(examplesDir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "| ["); ok {
			file, _, _ := strings.Cut(rest, "]")
			files = append(files, file)
		}
	}
	slices.Sort(files)
	return files
}

func base(paths []string) []string {
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = filepath.Base(p)
	}
	slices.Sort(names)
	return names
}
