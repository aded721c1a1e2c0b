package operatortask

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/kube"
	"druid.internal/druid/internal/operator/metrics"
)

// world is what outlives operators: objects, and a sidecar.
type world struct {
	objects client.Client
	cache   client.Reader // of the operators
	now     time.Time
	fulls   []agentapi.Snapshot
	silent  bool // snapshots are taken, and nobody hears of it
}

func (w *world) Full(ctx context.Context, final bool) (agentapi.Snapshot, error) {
	w.fulls = append(w.fulls, agentapi.Snapshot{SnapName: "Full-1", CreatedOn: w.now, IsFinal: final, LastRevision: 7, Size: 5})
	if w.silent {
		<-ctx.Done()
		return agentapi.Snapshot{}, ctx.Err()
	}
	return w.fulls[0], nil
}
func (w *world) Delta(context.Context) (*agentapi.Snapshot, error) { return nil, nil }
func (w *world) Latest(context.Context) (agentapi.LatestSnapshots, error) {
	if len(w.fulls) == 0 {
		return agentapi.LatestSnapshots{}, nil
	}
	return agentapi.LatestSnapshots{FullSnapshot: &w.fulls[0]}, nil
}
func (*world) Close() {}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, druidv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&druidv1alpha1.EtcdOperatorTask{}, &druidv1alpha1.EtcdOpsTask{}, &batchv1.Job{}).Build()
	return &world{objects: c, cache: c, now: testNow}
}

// operator is one that lives until stop.
func (w *world) operator(t *testing.T, kind string) (look func() reconcile.Result, told <-chan struct{}, stop func()) {
	t.Helper()
	a := newAttempts(func(context.Context, *druidv1alpha1.Etcd, []corev1.Pod) (sidecar, error) { return w, nil }, func() time.Time { return w.now }, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- a.Start(ctx) }()
	r := &Reconciler{
		settings: testSettings, now: func() time.Time { return w.now }, client: w.objects, cache: w.cache, live: w.objects,
		cluster: kube.NewCluster(w.objects), applier: kube.NewApplier(w.objects, w.objects), attempts: a, metrics: metrics.NewTasks(), logger: slog.New(slog.DiscardHandler),
	}
	for _, res := range resources() {
		if res.kind == kind {
			r.resource = res
		}
	}
	heard := make(chan struct{}, 9)
	go func() {
		for {
			select {
			case <-a.told[kind]:
				heard <- struct{}{}
			case <-ctx.Done():
				return
			}
		}
	}()
	look = func() reconcile.Result {
		t.Helper()
		got, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: "now"}})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	return look, heard, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func (w *world) task(t *testing.T) *druidv1alpha1.EtcdOperatorTask {
	t.Helper()
	var x druidv1alpha1.EtcdOperatorTask
	if err := w.objects.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "now"}, &x); err != nil {
		t.Fatal(err)
	}
	return &x
}

func written(final bool) *druidv1alpha1.EtcdOperatorTask {
	return &druidv1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Name: "now", Namespace: "shop", UID: "task-uid", CreationTimestamp: metav1.NewTime(testNow)},
		Spec: druidv1alpha1.EtcdOperatorTaskSpec{
			Type: druidv1alpha1.TaskOnDemandSnapshot, OwnerEtcdReference: &druidv1alpha1.OwnerEtcdReference{Name: "main"},
			Config: &druidv1alpha1.EtcdOperatorTaskConfig{OnDemandSnapshot: &druidv1alpha1.OnDemandSnapshotConfig{Type: druidv1alpha1.SnapshotFull, IsFinal: &final}},
		},
	}
}

func TestATaskFromItsBeginningToItsEnd(t *testing.T) {
	w := newWorld(t, newEtcd(), written(false))
	look, told, stop := w.operator(t, druidv1alpha1.KindEtcdOperatorTask)
	defer stop()
	look()
	if x := w.task(t); x.Status.State != druidv1alpha1.TaskInProgress || x.Status.InitiatedAt == nil || len(x.OwnerReferences) != 1 {
		t.Errorf("begun it is %+v", x)
	}
	<-told
	look()
	x := w.task(t)
	if s := x.Status; s.State != druidv1alpha1.TaskSucceeded || s.Result == nil || len(s.Result.Snapshots) != 1 || s.Result.Snapshots[0].Bytes != 5 || len(s.LastErrors) > 0 {
		t.Errorf("done it is %+v", s)
	}
	before := x.ResourceVersion
	if again := look(); again.RequeueAfter != time.Hour {
		t.Errorf("it is looked at again in %s", again.RequeueAfter)
	}
	if got := w.task(t).ResourceVersion; got != before {
		t.Error("it is written without a change")
	}
	w.now = w.now.Add(time.Hour)
	look()
	if err := w.objects.Get(t.Context(), client.ObjectKeyFromObject(x), x); !apierrors.IsNotFound(err) {
		t.Errorf("it is there after its time: %v", err)
	}
	look() // of one that is gone
}

func TestAnOperatorThatDiesWhileASnapshotIsTakenIsFollowedByOneThatTellsOfIt(t *testing.T) {
	for name, final := range map[string]bool{"a full": false, "a final full": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newEtcd(), written(final))
			w.silent = true
			look, _, stop := w.operator(t, druidv1alpha1.KindEtcdOperatorTask)
			look()
			if w.task(t).Status.State != druidv1alpha1.TaskInProgress {
				t.Fatal("it is not begun")
			}
			stop() // waits until the call was broken off
			w.silent = false
			look, told, stop := w.operator(t, druidv1alpha1.KindEtcdOperatorTask)
			defer stop()
			look()
			<-told
			look()
			if s := w.task(t).Status; s.State != druidv1alpha1.TaskSucceeded || len(s.Result.Snapshots) != 1 {
				t.Errorf("it is %+v", s)
			}
			if len(w.fulls) != 1 {
				t.Errorf("%d fulls were taken", len(w.fulls))
			}
		})
	}
}

// Nobody but the task tells of credentials that are not there: members start without them.
func TestTheCredentialsOfARoleAreLookedForUntilARunHadThem(t *testing.T) {
	x := written(false)
	x.Spec.Type, x.Spec.Config = druidv1alpha1.TaskCollectBackups, nil
	w := newWorld(t, newEtcd(withCollector), x, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "cluster-uid"}})
	look, _, stop := w.operator(t, druidv1alpha1.KindEtcdOperatorTask)
	defer stop()
	says := func(want string) {
		t.Helper()
		look()
		if op := w.task(t).Status.LastOperation; !strings.Contains(op.Reason, want) {
			t.Errorf("it says %q, want %q", op.Reason, want)
		}
	}
	says("the Secret collector (spec.backup.store.roles.collectorSecretRef) is not there")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "collector"}, Data: map[string][]byte{"accessKeyID": []byte("a"), "region": []byte("r")}}
	if err := w.objects.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	says("the Secret collector (spec.backup.store.roles.collectorSecretRef) has no secretAccessKey: add them")
	secret.Data["secretAccessKey"] = []byte("s")
	if err := w.objects.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	says("no run has ended yet")

	var cron batchv1.CronJob
	if err := w.objects.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "now"}, &cron); err != nil {
		t.Fatal(err)
	}
	run := cron.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Args
	if want := "--owner=cluster-uid/shop/main/etcd-uid"; !slices.Contains(run, want) {
		t.Errorf("it runs %q, want %s", run, want)
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "run", Labels: cron.Labels, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(&cron, batchv1.SchemeGroupVersion.WithKind("CronJob"))}},
		Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}}}
	if err := errors.Join(w.objects.Create(t.Context(), job), w.objects.Delete(t.Context(), secret)); err != nil {
		t.Fatal(err)
	}
	says("the last run succeeded")
}

// The specification of an Etcd that sleeps was changed, which is refused, or nobody asked for.
func TestTasksOfASleepGoByWhatWasApplied(t *testing.T) {
	for _, c := range []struct {
		of           druidv1alpha1.TaskType
		want, secret string
	}{
		{of: druidv1alpha1.TaskExtendFullSnapshotImmutability, want: "--retention-period=96h0m0s", secret: "extender"},
		{of: druidv1alpha1.TaskCollectBackups, want: "--store-container=bucket", secret: "collector"},
	} {
		x := written(false)
		x.Spec.Type, x.Spec.Config = c.of, nil
		e := newEtcd(asleep)
		e.SetDefaults()
		was := e.Spec.Backup.Store.DeepCopy()
		was.Immutability = &druidv1alpha1.ImmutabilitySpec{RetentionType: druidv1alpha1.RetentionObject, RetentionPeriod: &metav1.Duration{Duration: 96 * time.Hour}}
		was.Roles = &druidv1alpha1.StoreRoles{ExtenderSecretRef: &corev1.SecretReference{Name: "extender"}, CollectorSecretRef: &corev1.SecretReference{Name: "collector"}}
		e.Status.Hibernation = &druidv1alpha1.HibernationStatus{EtcdUID: e.UID, Applied: &druidv1alpha1.AppliedBackup{Store: was, FullSnapshotSchedule: ptr("0 2 * * *")}}
		e.Spec.Backup.FullSnapshotSchedule, e.Spec.Backup.Store = ptr("0 0 1 * *"), nil
		w := newWorld(t, e, x, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "cluster-uid"}})
		look, _, stop := w.operator(t, druidv1alpha1.KindEtcdOperatorTask)
		look()
		stop()
		var cron batchv1.CronJob
		if err := w.objects.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "now"}, &cron); err != nil {
			t.Errorf("%s: %v; %+v", c.of, err, w.task(t).Status)
			continue
		}
		pod := cron.Spec.JobTemplate.Spec.Template.Spec
		mounted := slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == c.secret })
		if run := pod.Containers[0].Args; !slices.Contains(run, c.want) || !mounted {
			t.Errorf("%s: it runs %q with %+v, want %s and the Secret %s", c.of, run, pod.Volumes, c.want, c.secret)
		}
		if c.of == druidv1alpha1.TaskExtendFullSnapshotImmutability && cron.Spec.Schedule != "0 2 * * *" {
			t.Errorf("it runs at %s, want as was applied", cron.Spec.Schedule)
		}
		if says := w.task(t).Status.LastOperation.Reason; !strings.Contains(says, "the Secret "+c.secret) {
			t.Errorf("%s: it looks for other credentials: %s", c.of, says)
		}
	}
}

// excluding is a task that a Job does.
func excluding() *druidv1alpha1.EtcdOperatorTask {
	x := written(false)
	x.Spec.Type = druidv1alpha1.TaskExcludeSnapshots
	x.Spec.Config = &druidv1alpha1.EtcdOperatorTaskConfig{ExcludeSnapshots: &druidv1alpha1.ExcludeSnapshotsConfig{Names: []druidv1alpha1.SnapshotName{"Full-00000000-00009002-1565021494.zst"}}}
	return x
}

// job is that of the task.
func (w *world) job(t *testing.T) *batchv1.Job {
	t.Helper()
	var j batchv1.Job
	if err := w.objects.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: excluding().JobName()}, &j); err != nil {
		t.Fatal(err)
	}
	return &j
}

// end has the Job of the task end so.
func (w *world) end(t *testing.T, how batchv1.JobConditionType) {
	t.Helper()
	j := w.job(t)
	j.Status.Conditions = []batchv1.JobCondition{{Type: how, Status: corev1.ConditionTrue, Reason: "PodFailurePolicy", Message: "exit code 3"}}
	if err := w.objects.Status().Update(t.Context(), j); err != nil {
		t.Fatal(err)
	}
}

func TestATaskThatAJobDoesFromItsBeginningToItsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		how  batchv1.JobConditionType
		log  string
		want druidv1alpha1.TaskState
		says string
		code druidv1alpha1.ErrorCode
	}{
		"it succeeds":   {batchv1.JobComplete, "", druidv1alpha1.TaskSucceeded, "left out of restores: Full-", ""},
		"it is refused": {batchv1.JobFailed, "Error: nothing could be restored any more", druidv1alpha1.TaskFailed, "nothing could be restored any more; another task with leaveNothing: true", "ERR_LEAVES_NOTHING"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newEtcd(), excluding())
			look := func() {
				t.Helper()
				look, _, stop := w.operator(t, druidv1alpha1.KindEtcdOperatorTask)
				defer stop() // each operator looks once, and dies
				look()
			}
			look()
			if s := w.task(t).Status; s.State != druidv1alpha1.TaskInProgress || s.InitiatedAt == nil {
				t.Fatalf("begun it is %+v", s)
			}
			look()
			made := w.job(t)
			if !metav1.IsControlledBy(made, w.task(t)) || made.Labels[druidv1alpha1.LabelName] != made.Name {
				t.Errorf("its Job has %+v", made.ObjectMeta)
			}
			look()
			if got := w.job(t); got.ResourceVersion != made.ResourceVersion {
				t.Error("its Job is written twice")
			}
			if c.log != "" {
				pod := pods(corev1.ContainerStateTerminated{ExitCode: 3, Message: c.log})[0]
				pod.Namespace, pod.Name, pod.Labels = "shop", "attempt", made.Spec.Template.Labels
				if err := w.objects.Create(t.Context(), &pod); err != nil {
					t.Fatal(err)
				}
			}
			w.end(t, c.how)
			look()
			s := w.task(t).Status
			if s.State != c.want || !strings.Contains(s.LastOperation.Reason, c.says) {
				t.Errorf("at its end it is %s: %s", s.State, s.LastOperation.Reason)
			}
			if (c.code != "") != (len(s.LastErrors) == 1) || c.code != "" && s.LastErrors[0].Code != c.code {
				t.Errorf("its errors are %+v, want %q", s.LastErrors, c.code)
			}
			look()
			w.job(t) // it stays for what it said
		})
	}
}

// What was asked for last is to hold, also if what was asked for before is taken away while it is at work.
func TestAnExclusionWaitsForThePodOfOneThatWasDeleted(t *testing.T) {
	former := excluding()
	former.Name, former.UID = "former", "former-uid"
	in := desired.ExclusionInput{TaskInput: desired.TaskInput{Task: former, Etcd: newEtcd()}, What: *former.Spec.Config.ExcludeSnapshots}
	job := desired.ExclusionJob(in)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "former-x", Labels: job.Spec.Template.Labels}}
	elsewhere := newEtcd()
	elsewhere.Name = "events"
	in.Etcd, in.Task = elsewhere, former.DeepCopy()
	in.Task.Name = "of-another"
	goes := job.DeepCopy()
	goes.Name, goes.Finalizers, goes.DeletionTimestamp = "goes", []string{"example.org/held"}, ptr(metav1.NewTime(testNow))
	w := newWorld(t, newEtcd(), excluding(), job, pod, goes, desired.ExclusionJob(in))
	says := func(want string) {
		t.Helper()
		look, _, stop := w.operator(t, druidv1alpha1.KindEtcdOperatorTask)
		defer stop()
		again := look()
		if op := w.task(t).Status.LastOperation; !strings.Contains(op.Reason, want) || again.RequeueAfter == 0 {
			t.Errorf("it says %q, want %q; again after %s", op.Reason, want, again.RequeueAfter)
		}
	}
	says("the work has begun")
	says("waits for the Job " + job.Name + " of the task former, which has not ended")
	if err := w.objects.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	says("waits for the pod former-x of the task former, which has not ended")
	w.cache = withoutPods{w.objects} // it has not heard of it
	says("waits for the pod former-x of the task former, which has not ended")
	pod.Status.Phase = corev1.PodSucceeded
	if err := w.objects.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	says("is at work")
	w.job(t)
}

// withoutPods is a cache that knows of none.
type withoutPods struct{ client.Reader }

func (w withoutPods) List(ctx context.Context, l client.ObjectList, o ...client.ListOption) error {
	if _, is := l.(*corev1.PodList); is {
		return nil
	}
	return w.Reader.List(ctx, l, o...)
}

// before is a cache that has a task as it was once, and knows of no Jobs.
type before struct {
	client.Reader
	was *druidv1alpha1.EtcdOperatorTask
}

func (b before) Get(ctx context.Context, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	switch o := o.(type) {
	case *druidv1alpha1.EtcdOperatorTask:
		b.was.DeepCopyInto(o)
		return nil
	case *batchv1.Job:
		return apierrors.NewNotFound(batchv1.Resource("jobs"), k.Name)
	}
	return b.Reader.Get(ctx, k, o, opts...)
}

func TestAJobThatEndedIsNotMadeAgainByWhoseCacheIsBehindhand(t *testing.T) {
	w := newWorld(t, newEtcd(), excluding())
	look, _, stop := w.operator(t, druidv1alpha1.KindEtcdOperatorTask)
	look() // it is begun
	was := w.task(t)
	look() // its Job is made
	w.end(t, batchv1.JobComplete)
	look() // it has ended
	stop()
	if err := w.objects.Delete(t.Context(), w.job(t)); err != nil {
		t.Fatal(err)
	}
	w.cache = before{w.objects, was}
	look, _, stop = w.operator(t, druidv1alpha1.KindEtcdOperatorTask)
	defer stop()
	if again := look(); again.RequeueAfter == 0 {
		t.Error("nobody would look again")
	}
	err := w.objects.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: excluding().JobName()}, &batchv1.Job{})
	if s := w.task(t).Status; !apierrors.IsNotFound(err) || s.State != druidv1alpha1.TaskSucceeded {
		t.Errorf("the Job: %v; the task: %+v", err, s)
	}
}

func TestATaskThatAJobDoesIsRejectedWithoutItsCredentials(t *testing.T) {
	w := newWorld(t, newEtcd(func(e *druidv1alpha1.Etcd) {
		e.Spec.Backup.Store.Roles = &druidv1alpha1.StoreRoles{ExcluderSecretRef: &corev1.SecretReference{Name: "excluder"}}
	}), excluding())
	look, _, stop := w.operator(t, druidv1alpha1.KindEtcdOperatorTask)
	defer stop()
	look()
	if s := w.task(t).Status; s.State != druidv1alpha1.TaskRejected || !strings.Contains(s.LastOperation.Reason, "the Secret excluder (spec.backup.store.roles.excluderSecretRef) is not there") {
		t.Errorf("it is %+v", s)
	}
}

func TestATaskThatAJobDoesSaysWhichCredentialsItsPodLacks(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "backup"}, Data: map[string][]byte{"accessKeyID": []byte("a"), "region": []byte("r"), "secretAccessKey": []byte("s")}}
	w := newWorld(t, secret, newEtcd(func(e *druidv1alpha1.Etcd) { e.Spec.Backup.Store.SecretRef = &corev1.SecretReference{Name: "backup"} }), excluding())
	look, _, stop := w.operator(t, druidv1alpha1.KindEtcdOperatorTask)
	defer stop()
	look()
	look()
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "attempt", Labels: w.job(t).Spec.Template.Labels}}
	if err := errors.Join(w.objects.Create(t.Context(), &pod), w.objects.Delete(t.Context(), secret)); err != nil {
		t.Fatal(err)
	}
	look()
	const want = "does not begin: the Secret backup (spec.backup.store.secretRef) is not there"
	if s := w.task(t).Status; s.State != druidv1alpha1.TaskInProgress || !strings.Contains(s.LastOperation.Reason, want) {
		t.Errorf("it is %+v", s)
	}
	pod.Status.Phase = corev1.PodRunning // it has read them
	if err := w.objects.Status().Update(t.Context(), &pod); err != nil {
		t.Fatal(err)
	}
	look()
	if s := w.task(t).Status; !strings.Contains(s.LastOperation.Reason, "is at work") {
		t.Errorf("it is %+v", s)
	}
}

func TestATaskThatIsDeletedLosesTheFinalizerOfTheOriginal(t *testing.T) {
	x := &druidv1alpha1.EtcdOpsTask{ObjectMeta: metav1.ObjectMeta{Name: "now", Namespace: "shop", UID: "task-uid", Finalizers: []string{druidv1alpha1.FinalizerOpsTask}}}
	w := newWorld(t, x)
	if err := w.objects.Delete(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	look, _, stop := w.operator(t, druidv1alpha1.KindEtcdOpsTask)
	defer stop()
	look()
	if err := w.objects.Get(t.Context(), client.ObjectKeyFromObject(x), x); !apierrors.IsNotFound(err) {
		t.Errorf("it is there: %v", err)
	}
}

// behindhand is a cache that lists a task as it was once; nil: it was not there.
type behindhand struct {
	client.Reader
	name string
	was  *druidv1alpha1.EtcdOperatorTask
}

func (b behindhand) List(ctx context.Context, l client.ObjectList, o ...client.ListOption) error {
	if err := b.Reader.List(ctx, l, o...); err != nil {
		return err
	}
	if l, is := l.(*druidv1alpha1.EtcdOperatorTaskList); is {
		l.Items = slices.DeleteFunc(l.Items, func(x druidv1alpha1.EtcdOperatorTask) bool { return x.Name == b.name })
		if b.was != nil {
			l.Items = append(l.Items, *b.was)
		}
	}
	return nil
}

func TestATaskIsAdmittedByWhatTheOthersAreAndNotByWhatTheyWere(t *testing.T) {
	another := func(name string, state druidv1alpha1.TaskState) *druidv1alpha1.EtcdOperatorTask {
		x := written(false)
		x.Name, x.UID = name, types.UID(name)
		if state != "" {
			x.Status.State, x.Status.InitiatedAt = state, ptr(metav1.NewTime(testNow))
		}
		return x
	}
	for name, c := range map[string]struct {
		was, is *druidv1alpha1.EtcdOperatorTask
		want    druidv1alpha1.TaskState
	}{
		"of the same second, and begun a moment ago": {another("z", ""), another("z", druidv1alpha1.TaskInProgress), druidv1alpha1.TaskRejected},
		"made a moment ago in the same second":       {nil, another("a", ""), druidv1alpha1.TaskRejected},
		"at its end a moment ago":                    {another("a", druidv1alpha1.TaskInProgress), another("a", druidv1alpha1.TaskSucceeded), druidv1alpha1.TaskInProgress},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newEtcd(), written(false), c.is)
			w.cache = behindhand{w.objects, c.is.Name, c.was}
			look, _, stop := w.operator(t, druidv1alpha1.KindEtcdOperatorTask)
			defer stop()
			look()
			if s := w.task(t).Status; s.State != c.want {
				t.Errorf("it is %+v, want %s", s, c.want)
			}
		})
	}
}

func TestNobodyWaitsForATaskThatGoes(t *testing.T) {
	x := written(false)
	x.Name, x.UID, x.Finalizers, x.DeletionTimestamp = "a", "a", []string{"example.com/somebody-elses"}, ptr(metav1.NewTime(testNow))
	x.Status.State, x.Status.InitiatedAt = druidv1alpha1.TaskInProgress, ptr(metav1.NewTime(testNow))
	w := newWorld(t, newEtcd(), written(false), x)
	look, _, stop := w.operator(t, druidv1alpha1.KindEtcdOperatorTask)
	defer stop()
	look()
	if s := w.task(t).Status; s.State != druidv1alpha1.TaskInProgress {
		t.Errorf("it is %+v", s)
	}
}

// strict refuses names that no object can have, as a client of an API server does.
type strict struct{ client.Client }

func (s strict) Get(ctx context.Context, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if why := content.IsPathSegmentName(k.Name); len(why) > 0 {
		return fmt.Errorf("invalid resource name %q: %v", k.Name, why)
	}
	return s.Client.Get(ctx, k, o, opts...)
}

func TestATaskForANameThatNoEtcdCanHaveIsRejected(t *testing.T) {
	x := written(false)
	x.Spec.OwnerEtcdReference.Name = "shop/main"
	w := newWorld(t, newEtcd(), x)
	w.objects = strict{w.objects}
	look, _, stop := w.operator(t, druidv1alpha1.KindEtcdOperatorTask)
	defer stop()
	look()
	if s := w.task(t).Status; s.State != druidv1alpha1.TaskRejected || !strings.Contains(s.LastOperation.Reason, "there is no Etcd shop/main in shop") {
		t.Errorf("it is %+v", s)
	}
}
