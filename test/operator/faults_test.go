package operator_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/cluster"
	"druid.internal/druid/test/stores"
)

// soak has operators die at every place, also wherever they write a status, of which there are as many as of all other steps. Without
// it they do at one in six, by chance the first or a later one of them, and at a write of a status.
var soak = flag.Bool("soak", false, "let operators die at each step of every stage, as make soak does")

// patience is for a stage in all namespaces at once, on a machine that has other work: a cluster that does
// not get there says the same after a tenth of it.
const patience = 6 * time.Minute

// A stage is one change of an Etcd, which takes the operator several steps.
type stage struct {
	name    string
	makes   int                    // the Etcd is made with so many members
	change  func(o map[string]any) // of the Etcd
	begin   func(w *town)          // what happens in the cluster
	orphans bool                   // the pods lose their StatefulSet, by hand
	deletes bool                   // the Etcd is deleted
	// steps must be among those that are taken: without them the stage would show nothing. Nobody dies in one that names
	// none, which only leads to the next.
	steps []string
}

func spec(value any, path ...string) func(map[string]any) {
	return func(o map[string]any) { set(o, value, append([]string{"spec"}, path...)...) }
}

func replicas(n int64) func(map[string]any) { return spec(n, "replicas") }

// The operator dies directly before and after its steps, which are found by taking them once: in one
// namespace for each of these faults. Whatever it was about, the next one ends it as if nothing had been,
// and on the way nothing is lost.
func TestAnOperatorThatDiesAtAnyStepIsFollowedByOneThatGetsThere(t *testing.T) {
	together(t, heavy)
	follow(t, "grows", 0, []stage{
		{name: "create", makes: 1, steps: []string{"POST statefulsets/main", "POST secrets/main-sidecar-token", "PATCH etcds/main", "PATCH etcds/main/status"}},
		{name: "1 to 3", change: replicas(3), steps: []string{"PATCH configmaps/main-config", "POST etcdmembers/main-2", "PATCH statefulsets/main"}},
		{name: "3 to 5", change: replicas(5), steps: []string{"POST etcdmembers/main-4", "PATCH statefulsets/main"}},
		{name: "5 to 3", change: replicas(3), steps: []string{"PATCH configmaps/main-config", "DELETE etcdmembers/main-4", "DELETE leases/main-3", "PATCH statefulsets/main"}},
		{name: "sleep", change: replicas(0), steps: []string{"PATCH services/main-client", "POST /clients", "POST /snapshot/full", "POST /verify", "PATCH etcds/main/status", "PATCH statefulsets/main", "DELETE etcdmembers/main-0"}},
		{name: "wake", change: replicas(3), steps: []string{"PATCH etcds/main/status", "POST etcdmembers/main-0", "PATCH services/main-client", "PATCH statefulsets/main"}},
		{name: "sleep without volumes", change: func(o map[string]any) { replicas(0)(o); spec("Delete", "hibernation", "volumes")(o) }, steps: []string{"POST /snapshot/full", "PATCH statefulsets/main", "DELETE persistentvolumeclaims/main-main-0", "DELETE persistentvolumeclaims/main-main-2"}},
		{name: "wake from the bucket", change: replicas(3), steps: []string{"POST etcdmembers/main-0", "PATCH statefulsets/main"}},
		{name: "3 to 1", change: replicas(1), steps: []string{"PATCH configmaps/main-config", "DELETE etcdmembers/main-2", "PATCH statefulsets/main"}},
		{name: "delete", deletes: true, steps: []string{"DELETE statefulsets/main", "DELETE configmaps/main-config", "PATCH etcds/main"}},
	})
}

// An Etcd is deleted with three members, without its StatefulSet, and while it sleeps. Nothing stays but its volumes, with which
// another of its name begins, and its backups: no program runs any more that would touch them.
func TestAnOperatorThatDiesWhileAnEtcdIsDeletedIsFollowedByOneThatLeavesNoLitter(t *testing.T) {
	together(t, heavy)
	again := stage{name: "create it again", makes: 3}
	suspended := func(o map[string]any) {
		set(o, map[string]any{druidv1alpha1.AnnotationSuspendReconcile: ""}, "metadata", "annotations")
	}
	follow(t, "grows", 3, []stage{
		{name: "delete", deletes: true, steps: []string{
			"DELETE statefulsets/main", "DELETE etcdmembers/main-0", "DELETE etcdmembers/main-2", "DELETE leases/main-2", "DELETE poddisruptionbudgets/main", "PATCH etcds/main/status", "PATCH etcds/main",
		}},
		again,
		{name: "delete what has no StatefulSet", change: suspended, orphans: true, deletes: true, steps: []string{
			"DELETE pods/main-0", "DELETE pods/main-1", "DELETE pods/main-2", "PATCH etcds/main",
		}},
		again,
		{name: "sleep, with a backup that is kept locked", change: func(o map[string]any) {
			replicas(0)(o)
			spec(map[string]any{"retentionType": "bucket"}, "backup", "store", "immutability")(o)
		}, steps: []string{"POST /snapshot/full", "PATCH statefulsets/main", "POST etcdoperatortasks/main-hibernation", "POST cronjobs/main-hibernation"}},
		{name: "delete what sleeps", deletes: true, steps: []string{"DELETE etcdoperatortasks/main-hibernation", "DELETE statefulsets/main", "PATCH etcds/main"}},
	})
}

// Pods are replaced for another image and for certificates, and volumes grow below them.
func TestAnOperatorThatDiesWhilePodsAreReplacedIsFollowedByOneThatGetsThere(t *testing.T) {
	together(t, heavy)
	tls := map[string]any{"tlsCASecretRef": map[string]any{"name": "peer-ca"}, "serverTLSSecretRef": map[string]any{"name": "peer-server"}, "clientTLSSecretRef": map[string]any{"name": "peer-client"}}
	follow(t, "grows", 3, []stage{
		{name: "another image of etcd", change: spec("own:2", "etcd", "image"), steps: []string{"POST /snapshot/full", "POST /verify", "DELETE pods/main-0", "DELETE pods/main-1", "DELETE pods/main-2"}},
		{name: "TLS between peers", change: spec(tls, "etcd", "peerUrlTls"), steps: []string{"PATCH configmaps/main-config", "DELETE pods/main-1"}},
		{name: "volumes grow", change: spec("2Gi", "storageCapacity"), steps: []string{"PATCH persistentvolumeclaims/main-main-2", "DELETE statefulsets/main", "POST statefulsets/main"}},
		{name: "no TLS between peers", change: spec(nil, "etcd", "peerUrlTls"), steps: []string{"PATCH configmaps/main-config", "DELETE pods/main-2"}},
	})
}

// Volumes of a class that cannot grow any are replaced, and one that cannot be written to.
func TestAnOperatorThatDiesWhileVolumesAreReplacedIsFollowedByOneThatGetsThere(t *testing.T) {
	together(t, heavy)
	spoil := func(w *town) { w.readOnly = w.view.claims[1].UID }
	exchange := func(w *town) { w.foreign = w.lodgers[2].uid }
	follow(t, "fixed", 3, []stage{
		{name: "another volume is mounted", begin: exchange, steps: []string{"PATCH etcdmembers/main-2", "DELETE pods/main-2"}},
		{name: "a volume is read-only", begin: spoil, steps: []string{"PATCH etcdmembers/main-1", "DELETE persistentvolumeclaims/main-main-1", "DELETE pods/main-1"}},
		{name: "larger volumes", change: spec("2Gi", "storageCapacity"), steps: []string{
			"DELETE statefulsets/main", "PATCH etcdmembers/main-0", "DELETE persistentvolumeclaims/main-main-0", "DELETE pods/main-0", "DELETE persistentvolumeclaims/main-main-1", "DELETE persistentvolumeclaims/main-main-2",
		}},
	})
}

// story is what becomes of the Etcds main of many namespaces.
type story struct {
	s     *site
	l     *land
	g     *gate
	p     *program
	lives int
	t     *testing.T
}

func newStory(t *testing.T) *story {
	t.Helper()
	c := cluster.Run(t, cluster.Options{Pin: *pin, Progress: t.Output()}) // what many namespaces leave takes longer to sweep than a start
	define(t, c)
	s := siteOn(t, c)
	s.grant(t)
	s.class(t, "grows", true)
	s.class(t, "fixed", false)
	config, err := s.ConfigFor("druid")
	if err != nil {
		t.Fatal(err)
	}
	r := &story{s: s, l: newLand(t, s), g: newGate(t, config), t: t}
	r.next()
	return r
}

// follow begins with clusters of so many members; 0: with nothing, and the first stage makes one of one.
func follow(t *testing.T, class string, members int, stages []stage) {
	t.Helper()
	r := newStory(t)
	pilot := r.settle("pilot", class, members)
	r.gather(t, members, pilot)
	faults, ofStatus := make([][]fault, len(stages)), make([][]fault, len(stages))
	ends := make([]string, len(stages))
	most, first := 0, someFrom(t)
	for i, g := range stages {
		began := time.Now()
		taken, end := r.explore(t, pilot, g)
		ends[i] = end
		t.Logf("%s: %d steps in %s: %s", g.name, len(taken), time.Since(began).Round(100*time.Millisecond), strings.Join(taken, ", "))
		if g.steps == nil {
			continue
		}
		for _, f := range faultsOf(taken) {
			if f.ofStatus() {
				ofStatus[i] = append(ofStatus[i], f)
			} else {
				faults[i] = append(faults[i], f)
			}
		}
		if !*soak {
			faults[i] = oneIn(faults[i], first)
		}
		if most = max(most, len(faults[i])+statusFaults); *soak {
			most = max(most, len(faults[i])+len(ofStatus[i]))
		}
	}
	// Every town goes through every stage, so one without a fault of its own takes one of those around a status, at no cost.
	for i := range stages {
		faults[i] = append(faults[i], spread(ofStatus[i], most-len(faults[i]))...)
	}
	var towns []*town
	for k := range most {
		towns = append(towns, r.settle("fault-"+strconv.Itoa(k), class, members))
	}
	r.gather(t, members, towns...)
	for i, g := range stages {
		began := time.Now()
		n, status := r.die(t, towns, g, faults[i], ends[i])
		t.Logf("%s: the operator died at %d places and %d writes of a status, %s", g.name, n, status, time.Since(began).Round(100*time.Millisecond))
		if t.Failed() {
			return // what follows would begin from somewhere else
		}
	}
}

// statusFaults are around so many writes of a status at least, in every stage that has as many.
const statusFaults = 1

// perFault is how many places there are for one that is tried without soak.
const perFault = 6

// someFrom is the place with which those begin that are tried.
func someFrom(t *testing.T) int {
	t.Helper()
	first := rand.IntN(perFault)
	if !*soak {
		t.Logf("one place in %d is tried, from place %d on", perFault, first+1)
	}
	return first
}

// enough is at how many of some places a fault is to come about: one and the same way does not always have the same steps.
func enough(places int) int {
	if *soak {
		return places * 3 / 4
	}
	return places / 2
}

// oneIn takes one fault of each perFault.
func oneIn(from []fault, first int) (some []fault) {
	for i := first; i < len(from); i += perFault {
		some = append(some, from[i])
	}
	return some
}

// spread takes n of the faults, as far apart as can be.
func spread(from []fault, n int) (some []fault) {
	for i := range min(n, len(from)) {
		some = append(some, from[i*len(from)/min(n, len(from))])
	}
	return some
}

// settle makes a namespace with a town.
func (r *story) settle(namespace, class string, members int) *town {
	r.s.namespace(r.t, namespace)
	r.s.certify(r.t, namespace)
	w := r.l.settle(namespace)
	road := r.g.road(namespace)
	w.road = road
	w.class = class
	road.watch(w.judge)
	if members > 0 {
		r.create(w, members)
	}
	return w
}

// certify makes the Secrets for TLS between the members of the Etcd main.
func (s *site) certify(t *testing.T, namespace string) {
	t.Helper()
	ca, err := stores.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := ca.Issue("*.main-peer." + namespace + ".svc")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]map[string][]byte{
		"peer-ca":     {"ca.crt": ca.PEM},
		"peer-server": {corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key},
	} {
		o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
		if _, err := s.Client.CoreV1().Secrets(namespace).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// gather waits until the clusters with which a story begins are there.
func (r *story) gather(t *testing.T, members int, towns ...*town) {
	t.Helper()
	if members == 0 {
		return
	}
	for _, w := range towns {
		r.patiently(t, w.namespace, func(ctx context.Context) error {
			_, err := r.arrived(ctx, w)
			return err
		})
	}
}

// patiently waits for what is to be so of a stage or a town.
func (r *story) patiently(t *testing.T, what string, fact func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := r.p.Await(ctx, fact); err != nil {
		t.Fatalf("%s: %v", what, brief(err))
	}
}

func (r *story) create(w *town, members int) {
	r.s.apply(r.t, r.l.etcdIn(w.namespace, w.class, members))
}

// next is an operator after the one that works, which dies.
func (r *story) next() {
	if r.p != nil {
		r.p.Kill()
	}
	r.lives++
	r.p = r.s.operateAs(r.t, fmt.Sprintf("life %d", r.lives), r.g.config,
		"clientConnection: {qps: 2000, burst: 4000, contentType: application/json}",
		"controllers: {etcd: {enableEtcdSpecAutoReconcile: true, etcdStatusSyncPeriod: 1s, concurrentSyncs: 30}}")
}

// change begins a stage.
func (r *story) change(t *testing.T, w *town, g stage) {
	t.Helper()
	w.mu.Lock()
	w.taken, w.proven = false, false
	if g.begin != nil {
		g.begin(w)
	}
	if g.makes > 0 {
		w.leaves, w.awake = false, false
	}
	w.mu.Unlock()
	if g.makes > 0 {
		r.create(w, g.makes)
	}
	if g.change != nil {
		r.s.change(t, "Etcd", w.namespace, "main", g.change)
	}
	if !g.deletes {
		return
	}
	w.mu.Lock()
	w.leaves = true
	w.mu.Unlock()
	if g.orphans {
		orphan := metav1.DeletePropagationOrphan
		if err := r.s.Client.AppsV1().StatefulSets(w.namespace).Delete(t.Context(), "main", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
			t.Fatal(err)
		}
		await(t, r.s.absent("StatefulSet", w.namespace, "main"))
	}
	r.s.delete(t, "Etcd", w.namespace, "main")
}

// explore takes a stage without a fault, and returns its steps and where it ends.
func (r *story) explore(t *testing.T, w *town, g stage) (steps []string, end string) {
	t.Helper()
	r.g.road(w.namespace).begin(nil)
	r.change(t, w, g)
	return r.explored(t, w, g, 1)
}

// explored waits for the end of a stage that was begun in so many towns.
func (r *story) explored(t *testing.T, w *town, g stage, among int) (steps []string, end string) {
	t.Helper()
	road := r.g.road(w.namespace)
	at := -1.0 // looks that changed nothing, when the latest step was known
	r.patiently(t, g.name, func(ctx context.Context) (err error) {
		if end, err = r.arrived(ctx, w); err != nil {
			return err
		}
		looks, err := r.p.looks(ctx)
		if now := road.taken(); err == nil && (at < 0 || len(now) != len(steps)) {
			steps, at = now, looks
		}
		if err == nil && looks < at+float64(2*among) && !w.goes() {
			err = errors.New("it has arrived, and may still take a step")
		}
		return err
	})
	for _, text := range w.wrongs() {
		t.Fatalf("%s: %s", g.name, text)
	}
	for _, want := range g.steps {
		if !slices.Contains(steps, want) {
			t.Errorf("%s: the step %s is not taken: %q", g.name, want, steps)
		}
	}
	return steps, end
}

// die takes a stage in all towns, in each of which the operator dies at another place, and returns at
// how many it died, those around a status by themselves: of them a stage may have one more or less.
func (r *story) die(t *testing.T, towns []*town, g stage, faults []fault, end string) (died, ofStatus int) {
	t.Helper()
	for i, w := range towns {
		road := r.g.road(w.namespace)
		road.begin(nil)
		if i < len(faults) {
			road.begin(&faults[i])
		}
		r.change(t, w, g)
	}
	// Everywhere it is dead, or through. One after the other is asked: to ask all of them again and again
	// takes the API server more than the clusters do.
	for _, w := range towns {
		r.patiently(t, fmt.Sprintf("%s (%s)", g.name, w.namespace), func(ctx context.Context) error {
			if r.g.road(w.namespace).buried() {
				return nil
			}
			_, err := r.arrived(ctx, w)
			return err
		})
	}
	var missed []string
	for i := range faults {
		switch dead := r.g.road(towns[i].namespace).isDead(); {
		case faults[i].ofStatus() && dead:
			ofStatus++
		case faults[i].ofStatus():
		case dead:
			died++
		default:
			missed = append(missed, faults[i].String())
		}
	}
	if places := died + len(missed); died < enough(places) {
		t.Errorf("%s: the operator died at %d of %d places; not at: %q", g.name, died, places, missed)
	}
	if len(faults) > 0 {
		r.p.Kill()
		for _, w := range towns {
			r.g.road(w.namespace).revive()
		}
		r.next()
	}
	for i, w := range towns {
		fault := "nowhere"
		if i < len(faults) {
			fault = faults[i].String()
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := r.p.Await(ctx, func(ctx context.Context) error {
			got, err := r.arrived(ctx, w)
			if d := cmp.Diff(end, got); err == nil && d != "" {
				err = fmt.Errorf("it ends elsewhere (-without the fault +with it):\n%s", d)
			}
			return err
		})
		cancel()
		if err != nil {
			t.Errorf("%s, died %s (%s): %v; steps %q", g.name, fault, w.namespace, brief(err), r.g.road(w.namespace).taken())
		}
		for _, text := range w.wrongs() {
			t.Errorf("%s, died %s (%s): %s", g.name, fault, w.namespace, text)
		}
	}
	return died, ofStatus
}

// brief is an error without the log of the operator.
func brief(err error) string {
	first, _, _ := strings.Cut(err.Error(), "\n{")
	return first
}

// arrived is nil if everything is as the specification wants it, and returns what there is then.
func (r *story) arrived(ctx context.Context, w *town) (string, error) {
	o, err := r.s.get(ctx, "Etcd", w.namespace, "main")
	if apierrors.IsNotFound(err) {
		all, err := r.s.of(ctx, w.namespace, "main")
		if err == nil {
			err = r.s.runsNothing(ctx, w.namespace)
		}
		if err == nil && slices.ContainsFunc(all, func(o string) bool { return !strings.HasPrefix(o, "PersistentVolumeClaim ") }) {
			err = fmt.Errorf("the Etcd is gone, and there are %q", all)
		}
		return strings.Join(all, "\n"), err
	}
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(o.Object)
	if err != nil {
		return "", err
	}
	var e druidv1alpha1.Etcd
	if err := json.Unmarshal(text, &e); err != nil {
		return "", err
	}
	st := e.Status
	switch {
	case e.DeletionTimestamp != nil:
		return "", errors.New("it is being deleted")
	case st.ObservedGeneration == nil || *st.ObservedGeneration != e.Generation:
		return "", errors.New("the newest generation is not observed")
	case st.LastOperation == nil || st.LastOperation.State != druidv1alpha1.LastOperationSucceeded:
		return "", fmt.Errorf("the last operation is %+v, errors %+v", st.LastOperation, st.LastErrors)
	case len(st.LastErrors) > 0:
		return "", fmt.Errorf("errors: %+v", st.LastErrors)
	case w.sick():
		return "", errors.New("a member has a volume that cannot be written to")
	}
	return r.state(ctx, w, &e)
}

// runsNothing is nil if nothing is in a namespace that would run a program, whoever it belongs to.
func (s *site) runsNothing(ctx context.Context, namespace string) error {
	jobs := batchv1.SchemeGroupVersion.WithResource("jobs")
	for _, kind := range []schema.GroupVersionResource{resources["Pod"], resources["StatefulSet"], resources["CronJob"], jobs} {
		list, err := s.objects.Resource(kind).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) > 0 {
			return fmt.Errorf("left of the %s is %s", kind.Resource, list.Items[0].GetName())
		}
	}
	return nil
}

// state is what there is of an Etcd, without what differs between two. Of members whose clock is late the operator says that they
// do not report, and make no backups: what follows from that is left out.
func (r *story) state(ctx context.Context, w *town, e *druidv1alpha1.Etcd) (string, error) {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	for _, c := range e.Status.Conditions {
		if w.ahead < 0 {
			continue
		}
		if c.Status != druidv1alpha1.ConditionTrue && c.Type != druidv1alpha1.ConditionClusterIDMismatch && c.Type != druidv1alpha1.ConditionQuorumLost && e.Spec.Replicas > 0 {
			return "", fmt.Errorf("condition %s is %s: %s", c.Type, c.Status, c.Message)
		}
		line("condition %s %s", c.Type, c.Status)
	}
	all, err := r.s.of(ctx, e.Namespace, e.Name)
	if err != nil {
		return "", err
	}
	s, err := r.s.Client.AppsV1().StatefulSets(e.Namespace).Get(ctx, e.StatefulSetName(), metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	pods, err := r.s.Client.CoreV1().Pods(e.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return isRun(&p) })
	if len(pods.Items) != int(e.Spec.Replicas) {
		return "", fmt.Errorf("%d pods", len(pods.Items))
	}
	for _, p := range pods.Items {
		if p.Labels[appsv1.ControllerRevisionHashLabelKey] != s.Status.UpdateRevision || !isReady(&p) || p.DeletionTimestamp != nil {
			return "", fmt.Errorf("pod %s is not as new as it should be, or not ready", p.Name)
		}
	}
	for _, name := range all {
		line("%s", name)
	}
	claims, err := r.s.Client.CoreV1().PersistentVolumeClaims(e.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	if e.Spec.Replicas == 0 && !e.KeepsVolumes() && len(claims.Items) > 0 {
		return "", fmt.Errorf("%d volumes, which are to go", len(claims.Items))
	}
	for _, c := range claims.Items {
		line("%s asks for %s", c.Name, c.Spec.Resources.Requests.Storage())
	}
	config, err := r.s.Client.CoreV1().ConfigMaps(e.Namespace).Get(ctx, e.ConfigMapName(), metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	line("%s", config.Data["etcd.conf.yaml"])
	budget, err := r.s.Client.PolicyV1().PodDisruptionBudgets(e.Namespace).Get(ctx, e.PodDisruptionBudgetName(), metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if w.ahead >= 0 {
		line("minAvailable %s", budget.Spec.MinAvailable)
	}
	template := s.Spec.Template.Spec.DeepCopy()
	asks := s.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage]
	made, err := json.MarshalIndent(template, "", " ")
	if err != nil {
		return "", err
	}
	line("replicas %d, volumes of %s, pods %s", *s.Spec.Replicas, asks.String(), made)
	return strings.NewReplacer(e.Namespace, "NAMESPACE", string(e.UID), "UID").Replace(b.String()), nil
}
