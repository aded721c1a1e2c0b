package operator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubernetes "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/test/process"
)

// land is what there is besides the operator on an API server without nodes: a kubelet, volumes, and
// the members of the Etcds main, one in each namespace, as simple as can be. It lives until its test ends.
type land struct {
	s    *site
	port string // of all sidecars, each at the address of its pod
	shut func() // ends that the land looks at what there is

	mu    sync.Mutex
	seen  cache.Cache      // nil: nobody looks, and nobody does anything
	towns map[string]*town // by namespace
	pods  int              // that ever began: each has an address of its own
}

// tick is how often everybody in the land does what there is to do.
const tick = 100 * time.Millisecond

// landNode is the node that all pods are on.
const landNode = "land"

func newLand(t *testing.T, s *site) *land {
	t.Helper()
	ports, err := process.FreePorts("127.0.0.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(ports[0])
	if err != nil {
		t.Fatal(err)
	}
	l := &land{s: s, port: port, towns: map[string]*town{}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: landNode}}
	if _, err := s.Client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	l.ready(t.Context())
	l.shut = l.open(t)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var lives sync.WaitGroup
	lives.Go(func() { l.live(ctx) })
	t.Cleanup(func() {
		stop()
		lives.Wait()
		for _, w := range l.towns {
			for _, p := range w.lodgers {
				p.close()
			}
		}
	})
	return l
}

// open has the land look at what there is from now on, all of it as new as the rest, and returns what ends that.
// Watches that an API server ended come back after up to a minute, each at another time: in between there would
// be a cluster of five members whose StatefulSet has three.
func (l *land) open(t *testing.T) (shut func()) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubernetes.AddToScheme, druidv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	parts, err := labels.Parse(druidv1alpha1.LabelPartOf + " in (main, main-hibernation)")
	if err != nil {
		t.Fatal(err)
	}
	ours := cache.Options{Scheme: scheme, ByObject: map[client.Object]cache.ByObject{}}
	for _, kind := range []client.Object{&appsv1.StatefulSet{}, &corev1.ConfigMap{}, &corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &batchv1.CronJob{}} {
		ours.ByObject[kind] = cache.ByObject{Label: parts}
	}
	seen, err := cache.New(l.s.Config, ours)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var looks sync.WaitGroup
	looks.Go(func() { _ = seen.Start(ctx) })
	turn := func(to cache.Cache) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.seen = to
	}
	turn(seen)
	shut = sync.OnceFunc(func() {
		turn(nil)
		stop()
		looks.Wait()
	})
	t.Cleanup(shut)
	return shut
}

// ready is the heartbeat of the node.
func (l *land) ready(ctx context.Context) {
	now := time.Now().UTC().Format(time.RFC3339)
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","lastHeartbeatTime":%q,"lastTransitionTime":%q}]}}`, now, now)
	_, _ = l.s.Client.CoreV1().Nodes().Patch(ctx, landNode, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
}

// etcdIn is the Etcd main of a namespace.
func (l *land) etcdIn(namespace, class string, replicas int) string {
	return fmt.Sprintf(`
apiVersion: druid.gardener.cloud/v1alpha1
kind: Etcd
metadata: {name: main, namespace: %s}
spec:
  labels: {}
  replicas: %d
  storageClass: %s
  storageCapacity: 1Gi
  etcd: {image: "own:1"}
  backup: {port: %s, store: {provider: aws, container: backups, prefix: p}}
`, namespace, replicas, class, l.port)
}

// newShop is an API server with an operator's rights, in whose land the namespace shop is settled.
func newShop(t *testing.T) (*site, *land, *town) {
	t.Helper()
	s := newSite(t)
	s.grant(t)
	s.class(t, "grows", true)
	l := newLand(t, s)
	s.namespace(t, "shop")
	return s, l, l.settle("shop")
}

// settle has somebody live in a namespace.
func (l *land) settle(namespace string) *town {
	w := &town{namespace: namespace, lodgers: map[int]*lodger{}, members: map[int]*citizen{}, data: map[types.UID]bool{}, volumes: map[int]types.UID{}, told: map[string]string{}, made: map[types.UID]bool{}, revision: 100}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.towns[namespace] = w
	return w
}

// live has everybody do what there is to do, again and again. What cannot be done now is done with the
// next tick.
func (l *land) live(ctx context.Context) {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	var beat time.Time
	for ctx.Err() == nil {
		if time.Since(beat) > time.Second {
			l.ready(ctx)
			beat = time.Now()
		}
		if seen, err := l.look(ctx); err == nil {
			var steps sync.WaitGroup
			for namespace, v := range seen {
				l.mu.Lock()
				w := l.towns[namespace]
				l.mu.Unlock()
				if w == nil {
					continue
				}
				steps.Go(func() { l.advance(ctx, w, v) })
			}
			steps.Wait()
		}
		select {
		case <-ctx.Done():
		case <-ticks.C:
		}
	}
}

// view is what is there of an Etcd.
type view struct {
	etcd    *druidv1alpha1.Etcd
	set     *appsv1.StatefulSet
	config  *corev1.ConfigMap
	clients *corev1.Service
	pods    map[int]*corev1.Pod
	claims  map[int]*corev1.PersistentVolumeClaim
	members map[int]*druidv1alpha1.EtcdMember

	extension *batchv1.CronJob // nil: nothing prolongs locks
	runs      []*corev1.Pod    // that carry it out
}

// look lists everything of all Etcds. Nobody may change what is in it: it is the cache's.
func (l *land) look(ctx context.Context) (map[string]*view, error) {
	var (
		etcds   druidv1alpha1.EtcdList
		members druidv1alpha1.EtcdMemberList
		sets    appsv1.StatefulSetList
		configs corev1.ConfigMapList
		pods    corev1.PodList
		claims  corev1.PersistentVolumeClaimList
		doors   corev1.ServiceList
		jobs    batchv1.CronJobList
	)
	l.mu.Lock()
	seen := l.seen
	l.mu.Unlock()
	if seen == nil {
		return nil, errors.New("nobody looks")
	}
	for _, list := range []client.ObjectList{&etcds, &members, &sets, &configs, &pods, &claims, &doors, &jobs} {
		if err := seen.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
	}
	all := map[string]*view{}
	for i := range etcds.Items {
		e := &etcds.Items[i]
		if e.Name == "main" {
			all[e.Namespace] = &view{etcd: e, pods: map[int]*corev1.Pod{}, claims: map[int]*corev1.PersistentVolumeClaim{}, members: map[int]*druidv1alpha1.EtcdMember{}}
		}
	}
	for i := range sets.Items {
		if v := all[sets.Items[i].Namespace]; v != nil {
			v.set = &sets.Items[i]
		}
	}
	for i := range configs.Items {
		if v := all[configs.Items[i].Namespace]; v != nil {
			v.config = &configs.Items[i]
		}
	}
	for i := range doors.Items {
		if v := all[doors.Items[i].Namespace]; v != nil && doors.Items[i].Name == v.etcd.ClientServiceName() {
			v.clients = &doors.Items[i]
		}
	}
	for i := range jobs.Items {
		if v := all[jobs.Items[i].Namespace]; v != nil && jobs.Items[i].Name == v.etcd.HibernationTaskName() {
			v.extension = &jobs.Items[i]
		}
	}
	for i := range pods.Items {
		v := all[pods.Items[i].Namespace]
		if v == nil {
			continue
		}
		if n, ours := v.etcd.PodOrdinal(pods.Items[i].Name); ours {
			v.pods[n] = &pods.Items[i]
		}
		if isRun(&pods.Items[i]) {
			v.runs = append(v.runs, &pods.Items[i])
		}
	}
	for i := range claims.Items {
		if v := all[claims.Items[i].Namespace]; v != nil {
			for n := range 9 {
				if claims.Items[i].Name == v.etcd.VolumeClaimName(n) {
					v.claims[n] = &claims.Items[i]
				}
			}
		}
	}
	for i := range members.Items {
		if v := all[members.Items[i].Namespace]; v != nil {
			if n, ours := v.etcd.MemberOrdinal(members.Items[i].Name); ours {
				v.members[n] = &members.Items[i]
			}
		}
	}
	return all, nil
}

// advance makes one step of everything in a town.
func (l *land) advance(ctx context.Context, w *town, v *view) {
	for n, c := range v.claims {
		l.volume(ctx, w, v, n, c)
	}
	w.mu.Lock()
	w.view = v
	for n, p := range w.lodgers {
		if now := v.pods[n]; now == nil || now.UID != p.uid || now.DeletionTimestamp != nil {
			p.close()
			delete(w.lodgers, n)
		}
	}
	w.live()
	w.mu.Unlock()
	noted := func(pod string, err error) {
		// An API server that goes away meanwhile refuses nothing: the next look tries again.
		refused := apierrors.ReasonForError(err) != metav1.StatusReasonUnknown
		if refused && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
			w.note("the pod %s: %v", pod, err)
		}
	}
	for n, p := range v.pods {
		noted(p.Name, l.kubelet(ctx, w, n, p))
	}
	noted("of the extension", l.extend(ctx, w, v))
	l.report(ctx, w, v)
}

// kubelet makes one step of a pod.
func (l *land) kubelet(ctx context.Context, w *town, n int, p *corev1.Pod) error {
	pods := l.s.Client.CoreV1().Pods(p.Namespace)
	switch {
	case p.DeletionTimestamp != nil:
		return pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &p.UID}})
	case p.Spec.NodeName == "":
		return pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: landNode}}, metav1.CreateOptions{})
	}
	w.mu.Lock()
	lodger := w.lodgers[n]
	ready := w.takesPart(n)
	w.mu.Unlock()
	if lodger == nil {
		var err error
		if lodger, err = l.lodge(w, n, p); err != nil {
			return err
		}
	}
	status := podStatus(p, lodger.address, ready)
	if p.Status.PodIP == lodger.address && isReady(p) == ready {
		return nil
	}
	next := p.DeepCopy()
	next.Status = status
	_, err := pods.UpdateStatus(ctx, next, metav1.UpdateOptions{})
	return err
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// podStatus is that of a pod whose containers run.
func podStatus(p *corev1.Pod, address string, ready bool) corev1.PodStatus {
	is := corev1.ConditionFalse
	if ready {
		is = corev1.ConditionTrue
	}
	s := corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}, StartTime: &p.CreationTimestamp}
	for _, of := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		c := corev1.PodCondition{Type: of, Status: corev1.ConditionTrue, LastTransitionTime: p.CreationTimestamp}
		if of == corev1.ContainersReady || of == corev1.PodReady {
			c.Status = is
		}
		s.Conditions = append(s.Conditions, c)
	}
	for _, c := range p.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, Ready: ready, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: p.CreationTimestamp}}})
	}
	return s
}

// lodger is a pod whose containers run.
type lodger struct {
	uid          types.UID
	claim        types.UID
	address      string
	certificates bool
	server       *http.Server
	since, until time.Time // clients are refused
}

// serves: clients are not refused.
func (p *lodger) serves() bool { return !time.Now().Before(p.until) }

// refuse has clients refused for so long.
func (p *lodger) refuse(d time.Duration) agentapi.Refusal {
	now := time.Now()
	if p.serves() {
		p.since = now
	}
	p.until = now.Add(d)
	return p.refusal()
}

func (p *lodger) refusal() agentapi.Refusal {
	if p.serves() {
		return agentapi.Refusal{}
	}
	return agentapi.Refusal{ForSeconds: int64(time.Since(p.since).Seconds()), LeftSeconds: int64(time.Until(p.until).Seconds())}
}

func (p *lodger) close() { _ = p.server.Close() }

// lodge starts the containers of a pod.
func (l *land) lodge(w *town, n int, p *corev1.Pod) (*lodger, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	claim := w.view.claims[n]
	if claim == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("persistentvolumeclaims"), p.Name) // it waits
	}
	l.mu.Lock()
	l.pods++
	k := l.pods
	l.mu.Unlock()
	if c := w.view.config; c != nil && strings.Contains(c.Data["backup-restore.conf.yaml"], "takeOver: true") {
		w.refused = ""
	}
	lodger := &lodger{uid: p.UID, claim: claim.UID, address: fmt.Sprintf("127.%d.%d.%d", 100+k/62500, k/250%250+1, k%250+1), certificates: desired.HasPeerCertificates(p.Spec)}
	listener, err := net.Listen("tcp", net.JoinHostPort(lodger.address, l.port))
	if err != nil {
		return nil, err
	}
	lodger.server = &http.Server{Handler: w.sidecar(n), ReadHeaderTimeout: time.Minute}
	go func() { _ = lodger.server.Serve(listener) }()
	w.lodgers[n] = lodger
	return lodger, nil
}

// volume makes one for a claim, to which Kubernetes binds it, and lets it grow if its class can. The pod does
// not wait for that: it takes Kubernetes seconds when there are many.
func (l *land) volume(ctx context.Context, w *town, v *view, n int, c *corev1.PersistentVolumeClaim) {
	core := l.s.Client.CoreV1()
	wants, has := c.Spec.Resources.Requests[corev1.ResourceStorage], c.Status.Capacity[corev1.ResourceStorage]
	switch {
	case c.Status.Phase != corev1.ClaimBound && !w.made[c.UID]:
		volume := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv-" + string(c.UID)},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: c.Spec.Resources.Requests, AccessModes: c.Spec.AccessModes, StorageClassName: *c.Spec.StorageClassName,
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
				ClaimRef:               &corev1.ObjectReference{Namespace: c.Namespace, Name: c.Name, UID: c.UID},
			},
		}
		_, err := core.PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
		w.made[c.UID] = err == nil
	case c.Status.Phase == corev1.ClaimBound && has.Cmp(wants) < 0:
		next := c.DeepCopy()
		next.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: wants}
		_, _ = core.PersistentVolumeClaims(c.Namespace).UpdateStatus(ctx, next, metav1.UpdateOptions{})
	}
}

// report writes what the sidecars tell Kubernetes of their members.
func (l *land) report(ctx context.Context, w *town, v *view) {
	for n, m := range v.members {
		w.mu.Lock()
		if w.lodgers[n] == nil {
			w.mu.Unlock()
			continue
		}
		_, marked := m.Annotations[druidv1alpha1.AnnotationCreateAsLearner]
		unmark := marked && w.takesPart(n)
		status, holder := w.memberStatus(n)
		w.mu.Unlock()
		text, err := statusPatch(status)
		if err != nil {
			continue
		}
		// As sidecars do it: at once what has changed but for revisions, and all else every 10 s.
		news, err := statusPatch(withoutRevisions(status))
		key := fmt.Sprintf("%s %s %s %s", m.UID, time.Now().Truncate(10*time.Second), holder, news)
		if err != nil || !unmark && w.told[m.Name] == key {
			continue
		}
		at := types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
		members := l.s.objects.Resource(resources["EtcdMember"]).Namespace(at.Namespace)
		if unmark {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, druidv1alpha1.AnnotationCreateAsLearner)
			_, _ = members.Patch(ctx, at.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		if _, err := members.Patch(ctx, at.Name, types.MergePatchType, text, metav1.PatchOptions{}, "status"); err != nil {
			continue
		}
		lease := fmt.Appendf(nil, `{"spec":{"holderIdentity":%q,"renewTime":%q}}`, holder, w.clock().UTC().Format(metav1.RFC3339Micro))
		if _, err := l.s.Client.CoordinationV1().Leases(at.Namespace).Patch(ctx, v.etcd.MemberLeaseName(n), types.MergePatchType, lease, metav1.PatchOptions{}); err == nil {
			w.told[m.Name] = key
		}
	}
}

func withoutRevisions(status druidv1alpha1.MemberReport) druidv1alpha1.MemberReport {
	status.Revision = 0
	if s := status.Snapshots; s != nil && s.LastFull != nil {
		s, full := *s, *s.LastFull
		full.EndRevision = 0
		s.LastFull, status.Snapshots = &full, &s
	}
	return status
}

// statusPatch is the patch that makes a status this one: what it does not name goes.
func statusPatch(status druidv1alpha1.MemberReport) ([]byte, error) {
	text, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	fields := map[string]any{"snapshots": nil}
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	if s, is := fields["snapshots"].(map[string]any); is {
		for _, name := range []string{"failure", "lastFull", "nothingNew"} {
			if _, there := s[name]; !there {
				s[name] = nil
			}
		}
	}
	return json.Marshal(map[string]any{"status": fields})
}

// wrongs are what happened that must never happen.
func (w *town) wrongs() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.wrong)
}

// note writes down what must never happen, once.
func (w *town) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteLocked(format, args...)
}

func (w *town) noteLocked(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.wrong, text) {
		w.wrong = append(w.wrong, text)
	}
}
