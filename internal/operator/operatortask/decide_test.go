package operatortask

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/operatortask/task"
)

func TestDecide(t *testing.T) {
	unready := func(e *druidv1alpha1.Etcd) { e.Status.Conditions[0].Status = druidv1alpha1.ConditionFalse }
	leaving := func(e *druidv1alpha1.Etcd) { e.DeletionTimestamp = ptr(metav1.NewTime(testNow)) }
	ended := func(err error) *Attempt { return &Attempt{Err: err, Ended: testNow.Add(-time.Second)} }
	job := func(name string, age time.Duration, how batchv1.JobConditionType) batchv1.Job {
		j := batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(testNow.Add(-age))}}
		if how != "" {
			j.Status.Conditions = []batchv1.JobCondition{{Type: how, Status: corev1.ConditionTrue, Reason: "DeadlineExceeded", Message: "too long", LastTransitionTime: metav1.NewTime(testNow)}}
		}
		return j
	}
	once := func(how batchv1.JobConditionType) *batchv1.Job { j := job("now-1", 0, how); return &j }
	deleted := func(j *batchv1.Job) *batchv1.Job { j.DeletionTimestamp = ptr(metav1.NewTime(testNow)); return j }
	exit := func(code int32, log string) corev1.ContainerStateTerminated {
		return corev1.ContainerStateTerminated{ExitCode: code, Message: log}
	}
	old := func(j *batchv1.Job) *batchv1.Job {
		j.CreationTimestamp = metav1.NewTime(testNow.Add(-time.Minute))
		return j
	}
	suspended := func(j *batchv1.Job) *batchv1.Job { j.Spec.Suspend = ptr(true); return j }
	resumed := func(j *batchv1.Job) *batchv1.Job { j.Status.StartTime = ptr(metav1.NewTime(testNow)); return j }
	named := func(p corev1.Pod, phase corev1.PodPhase) []corev1.Pod {
		p.Name, p.Status.Phase = "now-1-x", phase
		return []corev1.Pod{p}
	}
	initialized := corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}
	unschedulable := corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no room"}}}}
	const (
		pending, progress   = druidv1alpha1.TaskPending, druidv1alpha1.TaskInProgress
		succeeded, failed   = druidv1alpha1.TaskSucceeded, druidv1alpha1.TaskFailed
		rejected            = druidv1alpha1.TaskRejected
		waits, goes         = druidv1alpha1.OperationPending, druidv1alpha1.OperationInProgress
		completed, failedOp = druidv1alpha1.OperationCompleted, druidv1alpha1.OperationFailed
	)
	for name, c := range map[string]struct {
		o     Observed
		state druidv1alpha1.TaskState
		step  task.Step
		is    druidv1alpha1.OperationState
		says  string // in the reason
		code  druidv1alpha1.ErrorCode
		does  string // begin, make, remove, delete with spaces between
	}{
		"a new task is begun":                                      {Observed{Task: newTask(), Etcd: newEtcd()}, progress, "Snapshot", goes, "begun", "", "begin"},
		"one in another namespace":                                 {Observed{Task: newTask(func(t *task.Task) { t.EtcdNamespace = "garden" }), Etcd: newEtcd()}, rejected, "Admit", failedOp, "make the task in garden", "ERR_ETCD_NAMESPACE", ""},
		"one that names its own namespace":                         {Observed{Task: newTask(func(t *task.Task) { t.EtcdNamespace = "shop" }), Etcd: newEtcd()}, progress, "Snapshot", goes, "", "", "begin"},
		"one that names no Etcd":                                   {Observed{Task: newTask(func(t *task.Task) { t.Etcd = "" })}, rejected, "Admit", failedOp, "write the name of one", "ERR_GET_ETCD", ""},
		"an Etcd that is not there":                                {Observed{Task: newTask()}, rejected, "Admit", failedOp, "there is no Etcd main in shop", "ERR_GET_ETCD", ""},
		"an Etcd that leaves":                                      {Observed{Task: newTask(), Etcd: newEtcd(leaving)}, rejected, "Admit", failedOp, "is being deleted", "ERR_GET_ETCD", ""},
		"an Etcd that left while the task was at work":             {Observed{Task: newTask(begun(time.Second)), Attempt: &Attempt{Running: true}}, failed, "Snapshot", failedOp, "there is no Etcd main", "ERR_GET_ETCD", ""},
		"another Etcd has the name of its own":                     {Observed{Task: newTask(of("former-uid")), Etcd: newEtcd()}, rejected, "Admit", failedOp, "another one has its name", "ERR_GET_ETCD", ""},
		"another Etcd has the name, and it was at work":            {Observed{Task: newTask(of("former-uid"), begun(time.Second)), Etcd: newEtcd(), Attempt: &Attempt{Running: true}}, failed, "Snapshot", failedOp, "another one has its name", "ERR_GET_ETCD", ""},
		"another Etcd has the name, and the task stands":           {Observed{Task: newTask(of("former-uid"), standing, begun(time.Hour)), Etcd: newEtcd(asleep), CronJob: &batchv1.CronJob{}}, failed, "Extension", failedOp, "another one has its name", "ERR_GET_ETCD", "remove"},
		"its Etcd owns it":                                         {Observed{Task: newTask(of("etcd-uid")), Etcd: newEtcd()}, progress, "Snapshot", goes, "begun", "", "begin"},
		"a type of a newer operator":                               {Observed{Task: newTask(func(t *task.Task) { t.Type = "Compaction" }), Etcd: newEtcd()}, rejected, "Admit", failedOp, `the type "Compaction"`, "ERR_TASK_TYPE", ""},
		"no store":                                                 {Observed{Task: newTask(), Etcd: newEtcd(withoutStore)}, rejected, "Admit", failedOp, "configure spec.backup.store", "ERR_BACKUP_NOT_ENABLED", ""},
		"no quorum":                                                {Observed{Task: newTask(), Etcd: newEtcd(unready)}, rejected, "Admit", failedOp, "wait for its condition Ready", "ERR_ETCD_NOT_READY", ""},
		"a hibernated Etcd":                                        {Observed{Task: newTask(), Etcd: newEtcd(asleep)}, rejected, "Admit", failedOp, "wake it up", "ERR_ETCD_NOT_READY", ""},
		"one that the annotation has asleep":                       {Observed{Task: newTask(), Etcd: newEtcd(annotated, func(e *druidv1alpha1.Etcd) { e.Status.Conditions[0].Reason = druidv1alpha1.ReasonNotChecked })}, rejected, "Admit", failedOp, "wake it up", "ERR_ETCD_NOT_READY", ""},
		"one whose members go on though the annotation is there":   {Observed{Task: newTask(), Etcd: newEtcd(annotated)}, progress, "Snapshot", goes, "begun", "", "begin"},
		"a standing one of an Etcd that the annotation has asleep": {Observed{Task: newTask(standing), Etcd: newEtcd(annotated)}, progress, "Extension", goes, "", "", "make"},

		"one like it is there":                        {Observed{Task: newTask(), Etcd: newEtcd(), Others: []*task.Task{other("first", time.Second)}}, rejected, "Admit", failedOp, "the EtcdOpsTask first does the same", "ERR_DUPLICATE_TASK", ""},
		"one like it came later":                      {Observed{Task: newTask(), Etcd: newEtcd(), Others: []*task.Task{other("later", -time.Second)}}, progress, "Snapshot", goes, "", "", "begin"},
		"one like it came later and is at work":       {Observed{Task: newTask(), Etcd: newEtcd(), Others: []*task.Task{other("later", -time.Second, begun(0))}}, rejected, "Admit", failedOp, "", "ERR_DUPLICATE_TASK", ""},
		"in the same second the name decides":         {Observed{Task: newTask(), Etcd: newEtcd(), Others: []*task.Task{other("a", 0)}}, rejected, "Admit", failedOp, "", "ERR_DUPLICATE_TASK", ""},
		"in the same second, the other name":          {Observed{Task: newTask(), Etcd: newEtcd(), Others: []*task.Task{other("z", 0)}}, progress, "Snapshot", goes, "", "", "begin"},
		"another type of snapshot came before":        {Observed{Task: newTask(), Etcd: newEtcd(), Others: []*task.Task{other("first", time.Second, delta)}}, pending, "Admit", waits, "waits for the EtcdOpsTask first", "", ""},
		"the first of several is named":               {Observed{Task: newTask(), Etcd: newEtcd(), Others: []*task.Task{other("second", time.Second, delta), other("first", time.Minute, delta)}}, pending, "Admit", waits, "waits for the EtcdOpsTask first", "", ""},
		"without a quorum it can wait":                {Observed{Task: newTask(), Etcd: newEtcd(unready), Others: []*task.Task{other("first", time.Second, delta)}}, pending, "Admit", waits, "waits for", "", ""},
		"without a store there is no waiting":         {Observed{Task: newTask(), Etcd: newEtcd(withoutStore), Others: []*task.Task{other("first", time.Second, delta)}}, rejected, "Admit", failedOp, "", "ERR_BACKUP_NOT_ENABLED", ""},
		"nobody waits for a standing one":             {Observed{Task: newTask(), Etcd: newEtcd(), Others: []*task.Task{other("stands", time.Second, standing)}}, progress, "Snapshot", goes, "", "", "begin"},
		"a standing one waits for nobody":             {Observed{Task: newTask(standing), Etcd: newEtcd(asleep), Others: []*task.Task{other("first", time.Second)}}, progress, "Extension", goes, "runs at 0 0 * * *; no run has ended yet", "", "make"},
		"two standing ones":                           {Observed{Task: newTask(standing), Etcd: newEtcd(asleep), Others: []*task.Task{other("first", time.Second, standing)}}, rejected, "Admit", failedOp, "", "ERR_DUPLICATE_TASK", ""},
		"a standing one of an Etcd that is awake":     {Observed{Task: newTask(standing), Etcd: newEtcd()}, rejected, "Admit", failedOp, "is not hibernated", "ERR_ETCD_NOT_HIBERNATED", ""},
		"a standing one of an Etcd that wakes up":     {Observed{Task: newTask(standing), Etcd: newEtcd(wakes)}, progress, "Extension", goes, "", "", "make"},
		"the same, and another one of its name slept": {Observed{Task: newTask(standing), Etcd: newEtcd(wakes, func(e *druidv1alpha1.Etcd) { e.Status.Hibernation.EtcdUID = "former" })}, rejected, "Admit", failedOp, "", "ERR_ETCD_NOT_HIBERNATED", ""},
		"a standing one without a store":              {Observed{Task: newTask(standing), Etcd: newEtcd(asleep, withoutStore)}, rejected, "Admit", failedOp, "", "ERR_BACKUP_NOT_ENABLED", ""},
		"a day that never comes":                      {Observed{Task: newTask(standing, func(t *task.Task) { t.Schedule = ptr("0 0 30 2 *") }), Etcd: newEtcd(asleep)}, rejected, "Admit", failedOp, "there is no such day", "ERR_SCHEDULE", ""},

		"nobody collects":                        {Observed{Task: newTask(collects), Etcd: newEtcd()}, rejected, "Admit", failedOp, "its sidecars delete what retention lets go: name a Secret in spec.backup.store.roles.collectorSecretRef", "ERR_NO_COLLECTOR", ""},
		"a collector begins":                     {Observed{Task: newTask(collects), Etcd: newEtcd(withCollector)}, progress, "Collection", goes, "/12 * * *; no run has ended yet", "", "make"},
		"a collector of an Etcd that sleeps":     {Observed{Task: newTask(collects), Etcd: newEtcd(withCollector, asleep)}, progress, "Collection", goes, "/12 * * *; no run has ended yet", "", "make"},
		"a collector by another schedule":        {Observed{Task: newTask(collects, func(t *task.Task) { t.Schedule = ptr("TZ=Asia/Tokyo 5 * * * *") }), Etcd: newEtcd(withCollector)}, progress, "Collection", goes, "runs at 5 * * * * of Asia/Tokyo", "", "make"},
		"a collector that never comes":           {Observed{Task: newTask(collects, func(t *task.Task) { t.Schedule = ptr("0 0 30 2 *") }), Etcd: newEtcd(withCollector)}, rejected, "Admit", failedOp, "spec.config.collectBackups.schedule", "ERR_SCHEDULE", ""},
		"two collectors":                         {Observed{Task: newTask(collects), Etcd: newEtcd(withCollector), Others: []*task.Task{other("first", time.Second, collects)}}, rejected, "Admit", failedOp, "", "ERR_DUPLICATE_TASK", ""},
		"a collector beside an extension":        {Observed{Task: newTask(collects), Etcd: newEtcd(withCollector, asleep), Others: []*task.Task{other("first", time.Second, standing)}}, progress, "Collection", goes, "", "", "make"},
		"a collector without credentials":        {Observed{Task: newTask(collects, begun(time.Hour)), Etcd: newEtcd(withCollector), SecretFault: "the Secret collector is not there", Jobs: []batchv1.Job{job("new", time.Hour, "")}}, progress, "Collection", failedOp, "the Secret collector is not there; until then no run of the CronJob now has credentials", "ERR_COLLECT_BACKUPS", "make"},
		"a collector that is not named any more": {Observed{Task: newTask(collects, begun(time.Hour)), Etcd: newEtcd(), CronJob: &batchv1.CronJob{}}, succeeded, "Collection", completed, "its sidecars delete what retention lets go", "", "remove"},
		"a collector whose store goes":           {Observed{Task: newTask(collects, begun(time.Hour)), Etcd: newEtcd(withCollector, withoutStore), CronJob: &batchv1.CronJob{}}, failed, "Collection", failedOp, "nothing is collected", "ERR_COLLECT_BACKUPS", "remove"},

		"an exclusion begins":                 {Observed{Task: newTask(excludes), Etcd: newEtcd()}, progress, "Exclusion", goes, "the work has begun", "", ""},
		"an exclusion of an Etcd that sleeps": {Observed{Task: newTask(excludes), Etcd: newEtcd(asleep)}, progress, "Exclusion", goes, "the work has begun", "", ""},
		"an exclusion without a store":        {Observed{Task: newTask(excludes), Etcd: newEtcd(withoutStore)}, rejected, "Admit", failedOp, "", "ERR_BACKUP_NOT_ENABLED", ""},
		"an exclusion of what is no snapshot": {Observed{Task: newTask(excludes, func(t *task.Task) { t.Exclusion.Names[0] = "Full-1" }), Etcd: newEtcd()}, rejected, "Admit", failedOp, "spec.config.excludeSnapshots.names[0]", "ERR_SNAPSHOT_NAME", ""},
		"an exclusion of the final snapshot": {Observed{Task: newTask(excludes), Etcd: newEtcd(asleep, func(e *druidv1alpha1.Etcd) {
			e.Status.Hibernation = &druidv1alpha1.HibernationStatus{EtcdUID: e.UID, FinalSnapshot: &druidv1alpha1.FinalSnapshot{Name: "Full-00000000-00009002-1565021494.zst"}}
		})}, rejected, "Admit", failedOp, "wake it up first, or write leaveNothing: true", "ERR_FINAL_SNAPSHOT", ""},
		"an exclusion of nothing":                      {Observed{Task: newTask(excludes, func(t *task.Task) { t.Exclusion = nil }), Etcd: newEtcd()}, rejected, "Admit", failedOp, `the type "ExcludeSnapshots"`, "ERR_TASK_TYPE", ""},
		"an exclusion without credentials":             {Observed{Task: newTask(excludes), Etcd: newEtcd(), SecretFault: "the Secret excluder is not there"}, rejected, "Admit", failedOp, "the Secret excluder is not there, and make another task", "ERR_SECRET", ""},
		"an exclusion behind a snapshot":               {Observed{Task: newTask(excludes), Etcd: newEtcd(), Others: []*task.Task{other("first", time.Second)}}, pending, "Admit", waits, "waits for the EtcdOpsTask first", "", ""},
		"a snapshot behind an exclusion":               {Observed{Task: newTask(), Etcd: newEtcd(), Others: []*task.Task{other("first", time.Second, excludes)}}, pending, "Admit", waits, "waits for the EtcdOpsTask first", "", ""},
		"an exclusion behind the same":                 {Observed{Task: newTask(excludes), Etcd: newEtcd(), Others: []*task.Task{other("first", time.Second, excludes)}}, pending, "Admit", waits, "waits for the EtcdOpsTask first", "", ""},
		"an exclusion that was begun":                  {Observed{Task: newTask(excludes, begun(0)), Etcd: newEtcd()}, progress, "Exclusion", goes, "is at work", "", "make"},
		"one that was begun, and its store goes":       {Observed{Task: newTask(excludes, begun(0)), Etcd: newEtcd(withoutStore)}, failed, "Exclusion", failedOp, "configure spec.backup.store, and make another task", "ERR_BACKUP_NOT_ENABLED", ""},
		"its Job is at work, and its store goes":       {Observed{Task: newTask(excludes, begun(0)), Etcd: newEtcd(withoutStore), Job: once("")}, progress, "Exclusion", goes, "the Job now-1 is at work", "", ""},
		"one that was begun, and its credentials go":   {Observed{Task: newTask(excludes, begun(0)), Etcd: newEtcd(), SecretFault: "the Secret excluder is not there"}, failed, "Exclusion", failedOp, "make another task", "ERR_SECRET", ""},
		"its Job is at work":                           {Observed{Task: newTask(excludes, begun(0)), Etcd: newEtcd(), Job: once("")}, progress, "Exclusion", goes, "the Job now-1 is at work", "", ""},
		"its pod cannot begin":                         {Observed{Task: newTask(excludes, begun(0)), Etcd: newEtcd(), Job: once(""), JobPods: []corev1.Pod{unschedulable}}, progress, "Exclusion", goes, "the Job now-1 does not begin: its pod cannot be scheduled (no room)", "", ""},
		"its Job is suspended":                         {Observed{Task: newTask(excludes, begun(59*time.Minute)), Etcd: newEtcd(), Job: suspended(old(once("")))}, progress, "Exclusion", goes, `the Job now-1 is suspended: kubectl patch job/now-1 -p '{"spec":{"suspend":false}}' has it begin`, "", ""},
		"its Job is suspended for too long":            {Observed{Task: newTask(excludes, begun(time.Hour), saying("the Job is suspended")), Etcd: newEtcd(), Job: suspended(once(""))}, failed, "Exclusion", failedOp, "it was not done within 1h0m0s; at last: the Job is suspended; make another task", "ERR_TIMEOUT", "remove"},
		"its Job goes for too long":                    {Observed{Task: newTask(excludes, begun(time.Hour)), Etcd: newEtcd(), Job: deleted(once(""))}, failed, "Exclusion", failedOp, "it was not done within 1h0m0s", "ERR_TIMEOUT", "remove"},
		"its Job cannot be made for too long":          {Observed{Task: newTask(excludes, begun(time.Hour), erring("quota exceeded")), Etcd: newEtcd()}, failed, "Exclusion", failedOp, "it was not done within 1h0m0s; the last error: quota exceeded; make another task", "ERR_TIMEOUT", ""},
		"its Job is at work for long":                  {Observed{Task: newTask(excludes, begun(2*time.Hour)), Etcd: newEtcd(), Job: old(once("")), JobPods: named(corev1.Pod{}, corev1.PodRunning)}, progress, "Exclusion", goes, "the Job now-1 is at work", "", ""},
		"its Job gets no pod":                          {Observed{Task: newTask(excludes, begun(0)), Etcd: newEtcd(), Job: old(once(""))}, progress, "Exclusion", goes, "the Job now-1 does not begin: no container of it has run since 2026-06-01T02:59:00Z; kubectl describe job/now-1 says why", "", ""},
		"its Job has just been resumed":                {Observed{Task: newTask(excludes, begun(0)), Etcd: newEtcd(), Job: resumed(old(once("")))}, progress, "Exclusion", goes, "the Job now-1 is at work", "", ""},
		"its pod is made and no more":                  {Observed{Task: newTask(excludes, begun(0)), Etcd: newEtcd(), Job: old(once("")), JobPods: named(corev1.Pod{}, corev1.PodPending)}, progress, "Exclusion", goes, "no container of it has run since 2026-06-01T02:59:00Z; kubectl describe pod/now-1-x says why", "", ""},
		"its pod is being prepared":                    {Observed{Task: newTask(excludes, begun(0)), Etcd: newEtcd(), Job: old(once("")), JobPods: named(initialized, corev1.PodPending)}, progress, "Exclusion", goes, "the Job now-1 is at work", "", ""},
		"its pod lacks its credentials":                {Observed{Task: newTask(excludes, begun(0)), Etcd: newEtcd(), Job: once(""), SecretFault: "the Secret excluder is not there", JobPods: named(corev1.Pod{}, corev1.PodPending)}, progress, "Exclusion", goes, "the Job now-1 does not begin: the Secret excluder is not there", "ERR_SECRET", ""},
		"its Job lacks its credentials":                {Observed{Task: newTask(excludes, begun(0)), Etcd: newEtcd(), Job: once(""), SecretFault: "the Secret excluder is not there"}, progress, "Exclusion", goes, "the Job now-1 does not begin: the Secret excluder is not there", "ERR_SECRET", ""},
		"its Job is ending":                            {Observed{Task: newTask(excludes, begun(0)), Etcd: newEtcd(), Job: once(batchv1.JobFailureTarget), JobPods: pods(exit(3, "Error: refused"))}, progress, "Exclusion", goes, "the Job now-1 is ending: refused", "ERR_LEAVES_NOTHING", ""},
		"its Job is ending, and its pod does not":      {Observed{Task: newTask(excludes, begun(2*time.Hour)), Etcd: newEtcd(), Job: once(batchv1.JobFailureTarget), JobPods: named(corev1.Pod{}, corev1.PodRunning)}, progress, "Exclusion", goes, "the Job now-1 is ending: DeadlineExceeded: too long; its pod now-1-x has not ended, and is waited for: kubectl describe pod/now-1-x says why", "ERR_EXCLUDE_SNAPSHOTS", ""},
		"the pod of a task that is gone is at work":    {Observed{Task: newTask(excludes, begun(0)), Etcd: newEtcd(), Unended: "the pod former-x of the task former"}, progress, "Exclusion", goes, "waits for the pod former-x of the task former, which has not ended", "", ""},
		"an attempt of its Job fails":                  {Observed{Task: newTask(excludes, begun(0)), Etcd: newEtcd(), Job: once(""), JobPods: pods(exit(5, "Error: no route"), exit(-1, ""))}, progress, "Exclusion", goes, "another one follows: no route", "ERR_EXCLUDE_SNAPSHOTS", ""},
		"its Job succeeds":                             {Observed{Task: newTask(excludes, begun(0)), Etcd: newEtcd(), Job: once(batchv1.JobComplete), JobPods: pods(exit(5, "Error: no route"))}, succeeded, "Exclusion", completed, "left out of restores: Full-00000000-00009002-1565021494.zst (kubectl logs job/now-1", "", ""},
		"its Job is refused":                           {Observed{Task: newTask(excludes, begun(0)), Etcd: newEtcd(), Job: once(batchv1.JobFailed), JobPods: pods(exit(3, "Error: nothing could be restored any more"))}, failed, "Exclusion", failedOp, "the Job now-1 failed: nothing could be restored any more; another task with leaveNothing: true in spec.config.excludeSnapshots", "ERR_LEAVES_NOTHING", ""},
		"its Job finds no such snapshot":               {Observed{Task: newTask(excludes, begun(0)), Etcd: newEtcd(), Job: once(batchv1.JobFailed), JobPods: pods(exit(2, "Error: no such snapshot"))}, failed, "Exclusion", failedOp, "failed: no such snapshot; once that is mended, make another task", "ERR_EXCLUDE_SNAPSHOTS", ""},
		"its Job takes too long":                       {Observed{Task: newTask(excludes, begun(0)), Etcd: newEtcd(), Job: once(batchv1.JobFailed)}, failed, "Exclusion", failedOp, "failed: DeadlineExceeded: too long; some may be done already", "ERR_EXCLUDE_SNAPSHOTS", ""},
		"somebody deletes its Job":                     {Observed{Task: newTask(excludes, begun(0)), Etcd: newEtcd(), Job: deleted(once(""))}, progress, "Exclusion", goes, "it is made anew when it is gone", "", ""},
		"somebody deleted its Job, and its pod runs":   {Observed{Task: newTask(excludes, begun(0)), Etcd: newEtcd(), JobPods: pods(exit(-1, ""))}, progress, "Exclusion", goes, "it is made anew when its pods are gone", "", ""},
		"somebody deleted its Job, and its pod failed": {Observed{Task: newTask(excludes, begun(0)), Etcd: newEtcd(), JobPods: pods(exit(5, ""))}, progress, "Exclusion", goes, "is at work", "", "make"},
		"somebody deletes its Job after the end":       {Observed{Task: newTask(excludes, begun(0)), Etcd: newEtcd(), Job: deleted(once(batchv1.JobComplete))}, succeeded, "Exclusion", completed, "left out of restores", "", ""},
		"the Etcd goes while its Job is at work":       {Observed{Task: newTask(excludes, begun(0)), Job: once("")}, failed, "Exclusion", failedOp, "there is no Etcd", "ERR_GET_ETCD", "remove"},
		"ended, and its Job is there":                  {Observed{Task: newTask(excludes, over(succeeded, 0)), Job: once(batchv1.JobComplete)}, succeeded, "", "", "", "", ""},

		"at work":                                  {Observed{Task: newTask(begun(time.Minute)), Etcd: newEtcd(), Attempt: &Attempt{Running: true}}, progress, "Snapshot", goes, "the work has begun", "", ""},
		"at work, and the quorum is lost":          {Observed{Task: newTask(begun(time.Minute)), Etcd: newEtcd(unready), Attempt: &Attempt{Running: true}}, progress, "Snapshot", goes, "", "", ""},
		"begun by an operator that died":           {Observed{Task: newTask(begun(time.Minute)), Etcd: newEtcd()}, progress, "Snapshot", goes, "", "", "begin"},
		"begun by the original, nobody knows when": {Observed{Task: newTask(begun(0), func(t *task.Task) { t.Status.Initiated = time.Time{} }), Etcd: newEtcd()}, progress, "Snapshot", goes, "", "", "begin"},
		"done":                                   {Observed{Task: newTask(begun(time.Minute)), Etcd: newEtcd(), Attempt: &Attempt{Result: druidv1alpha1.TaskResult{Snapshots: []druidv1alpha1.TakenSnapshot{{Name: "Full-1", Revision: 7, RetainUntil: ptr(metav1.NewTime(testNow))}}}}}, succeeded, "Snapshot", completed, "in the bucket: Full-1 up to revision 7, locked until 2026-06-01T03:00:00Z", "", ""},
		"done, and there was nothing":            {Observed{Task: newTask(begun(time.Minute)), Etcd: newEtcd(), Attempt: &Attempt{}}, succeeded, "Snapshot", completed, "everything is in the bucket already", "", ""},
		"the sidecar refuses":                    {Observed{Task: newTask(begun(time.Minute)), Etcd: newEtcd(), Attempt: ended(&task.Failure{Code: "ERR_CREATE_SNAPSHOT", Err: errors.New("no\nroom")})}, failed, "Snapshot", failedOp, "no room", "ERR_CREATE_SNAPSHOT", ""},
		"the sidecar is not there":               {Observed{Task: newTask(begun(time.Minute)), Etcd: newEtcd(), Attempt: ended(errors.New("connection refused"))}, progress, "Snapshot", goes, "another one follows: connection refused", "ERR_EXECUTE_HTTP_REQUEST", ""},
		"not there, and it is time to try again": {Observed{Task: newTask(begun(time.Minute)), Etcd: newEtcd(), Attempt: &Attempt{Err: errors.New("refused"), Ended: testNow.Add(-16 * time.Second)}}, progress, "Snapshot", goes, "", "ERR_EXECUTE_HTTP_REQUEST", "begin"},
		"the time is over, and one look is left": {Observed{Task: newTask(begun(15 * time.Minute)), Etcd: newEtcd(), Attempt: ended(errors.New("refused"))}, progress, "Snapshot", goes, "", "ERR_EXECUTE_HTTP_REQUEST", "begin"},
		"the last look fails":                    {Observed{Task: newTask(begun(15 * time.Minute)), Etcd: newEtcd(), Attempt: &Attempt{Late: true, Err: errors.New("refused")}}, failed, "Snapshot", failedOp, "not done within 15m0s: refused", "ERR_EXECUTE_HTTP_REQUEST", ""},
		"the last look finds nothing":            {Observed{Task: newTask(begun(15 * time.Minute)), Etcd: newEtcd(), Attempt: &Attempt{Late: true, Err: fmt.Errorf("look: %w", task.ErrLate)}}, failed, "Snapshot", failedOp, "not done within 15m0s", "ERR_TIMEOUT", ""},
		"the last look finds it":                 {Observed{Task: newTask(begun(15 * time.Minute)), Etcd: newEtcd(), Attempt: &Attempt{Late: true}}, succeeded, "Snapshot", completed, "", "", ""},
		"a delta has less time":                  {Observed{Task: newTask(begun(time.Minute), delta), Etcd: newEtcd(), Attempt: &Attempt{Late: true, Err: errors.New("refused")}}, failed, "Snapshot", failedOp, "within 1m0s", "ERR_EXECUTE_HTTP_REQUEST", ""},

		"the Etcd wakes up":                           {Observed{Task: newTask(standing, begun(time.Hour)), Etcd: newEtcd(), CronJob: &batchv1.CronJob{}}, succeeded, "Extension", completed, "makes new full snapshots by itself", "", "remove"},
		"the Etcd wakes up, and no new full is there": {Observed{Task: newTask(standing, begun(time.Hour)), Etcd: newEtcd(func(e *druidv1alpha1.Etcd) { e.Status.Hibernation = &druidv1alpha1.HibernationStatus{} }), CronJob: &batchv1.CronJob{}}, progress, "Extension", goes, "no run has ended yet", "", "make"},
		"its store goes":                              {Observed{Task: newTask(standing, begun(time.Hour)), Etcd: newEtcd(asleep, withoutStore), CronJob: &batchv1.CronJob{}}, failed, "Extension", failedOp, "no backup store any more", "ERR_EXTEND_IMMUTABILITY", "remove"},
		"the Etcd goes":                               {Observed{Task: newTask(standing, begun(time.Hour)), CronJob: &batchv1.CronJob{}}, failed, "Extension", failedOp, "there is no Etcd", "ERR_GET_ETCD", "remove"},
		"a run is under way":                          {Observed{Task: newTask(standing, begun(time.Hour)), Etcd: newEtcd(asleep), Jobs: []batchv1.Job{job("old", 2*time.Hour, batchv1.JobComplete), job("new", time.Hour, "")}, JobPods: pods(exit(-1, ""))}, progress, "Extension", goes, "the Job new runs since", "", "make"},
		"a run cannot begin":                          {Observed{Task: newTask(standing, begun(time.Hour)), Etcd: newEtcd(asleep), Jobs: []batchv1.Job{job("old", 2*time.Hour, batchv1.JobComplete), job("new", time.Minute, "")}, JobPods: []corev1.Pod{unschedulable}}, progress, "Extension", goes, "the Job new does not begin: its pod cannot be scheduled (no room)", "", "make"},
		"a run gets no pod":                           {Observed{Task: newTask(standing, begun(time.Hour)), Etcd: newEtcd(asleep), Jobs: []batchv1.Job{job("new", time.Hour, "")}}, progress, "Extension", goes, "kubectl describe job/new says why", "", "make"},
		"an attempt of a run fails":                   {Observed{Task: newTask(standing, begun(time.Hour)), Etcd: newEtcd(asleep), Jobs: []batchv1.Job{job("new", time.Hour, "")}, JobPods: pods(exit(5, "Error: no route"))}, progress, "Extension", goes, "an attempt of the Job new failed, and another one follows: no route", "", "make"},
		"the pod of a run was made anew":              {Observed{Task: newTask(standing, begun(time.Hour)), Etcd: newEtcd(asleep), Jobs: []batchv1.Job{job("new", time.Hour, "")}, JobPods: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(testNow.Add(-30 * time.Second))}}}}, progress, "Extension", goes, "the Job new runs since", "", "make"},
		"the last run failed":                         {Observed{Task: newTask(standing, begun(time.Hour)), Etcd: newEtcd(asleep), Jobs: []batchv1.Job{job("new", time.Hour, batchv1.JobFailed), job("old", 2*time.Hour, batchv1.JobComplete)}}, progress, "Extension", failedOp, "the Job new failed at 2026-06-01T03:00:00Z (DeadlineExceeded: too long): kubectl logs job/new", "ERR_EXTEND_IMMUTABILITY", "make"},
		"the last run succeeded":                      {Observed{Task: newTask(standing, begun(time.Hour)), Etcd: newEtcd(asleep), Jobs: []batchv1.Job{job("new", time.Hour, batchv1.JobComplete), job("old", 2*time.Hour, batchv1.JobFailed)}}, progress, "Extension", completed, "the last run succeeded at 2026-06-01T03:00:00Z", "", "make"},
		"a zone of time":                              {Observed{Task: newTask(standing, func(t *task.Task) { t.Schedule = ptr("CRON_TZ=Europe/Berlin 5 * * * *") }), Etcd: newEtcd(asleep)}, progress, "Extension", goes, "runs at 5 * * * * of Europe/Berlin", "", "make"},
		"the schedule of the Etcd":                    {Observed{Task: newTask(standing), Etcd: newEtcd(asleep, func(e *druidv1alpha1.Etcd) { e.Spec.Backup.FullSnapshotSchedule = ptr("@weekly") })}, progress, "Extension", goes, "runs at @weekly", "", "make"},

		"ended a while ago":                {Observed{Task: newTask(over(succeeded, time.Minute))}, succeeded, "", "", "", "", ""},
		"ended for as long as it may stay": {Observed{Task: newTask(over(rejected, time.Hour))}, rejected, "", "", "", "", "delete"},
		"without time to live":             {Observed{Task: newTask(over(failed, 0), func(t *task.Task) { t.TTL = 0 })}, failed, "", "", "", "", "delete"},
		"ended, and its CronJob is there":  {Observed{Task: newTask(standing, over(succeeded, 0)), CronJob: &batchv1.CronJob{}}, succeeded, "", "", "", "", "remove"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Decide(&c.o, testSettings, testNow)
			if err != nil {
				t.Fatal(err)
			}
			if p.State != c.state || p.Step != c.step || p.StepState != c.is || p.Error != c.code || !strings.Contains(p.Reason, c.says) {
				t.Errorf("it is %s, %s %s, error %q, %q; want %s, %s %s, error %q, ... %s", p.State, p.Step, p.StepState, p.Error, p.Reason, c.state, c.step, c.is, c.code, c.says)
			}
			var does []string
			for word, is := range map[string]bool{"begin": p.Begin, "make": p.Make != nil, "remove": p.Remove != nil, "delete": p.Delete} {
				if is {
					does = append(does, word)
				}
			}
			if got := strings.Join(does, " "); got != c.does {
				t.Errorf("it does %q, want %q", got, c.does)
			}
			if !p.State.Ended() && p.Again == 0 {
				t.Error("nobody would look again")
			}
		})
	}
}

func TestATaskStaysForItsTimeAfterTheEnd(t *testing.T) {
	p, err := Decide(&Observed{Task: newTask(over(druidv1alpha1.TaskSucceeded, 20*time.Minute))}, testSettings, testNow)
	if err != nil || p.Delete || p.Again != 40*time.Minute {
		t.Errorf("delete %t, again in %s (%v), want in 40m", p.Delete, p.Again, err)
	}
}

func TestAnEndIsForGood(t *testing.T) {
	x := newTask(over(druidv1alpha1.TaskFailed, time.Minute))
	if got := statusOf(x, Plan{State: druidv1alpha1.TaskInProgress, Step: "Snapshot"}, "run", testNow); got.State != druidv1alpha1.TaskFailed || got.Since != x.Status.Since {
		t.Errorf("it is %s since %s", got.State, got.Since)
	}
}

func TestTheStatusChangesOnlyWithTheFacts(t *testing.T) {
	x := newTask(begun(time.Minute))
	p, err := Decide(&Observed{Task: x, Etcd: newEtcd(), Attempt: &Attempt{Running: true}}, testSettings, testNow)
	if err != nil {
		t.Fatal(err)
	}
	if got := statusOf(x, p, "another run", testNow); got.Since != x.Status.Since || got.Run != x.Status.Run || got.Reason != x.Status.Reason {
		t.Errorf("it was %+v and is %+v", x.Status, got)
	}
}

func TestTheLastErrorsAreKept(t *testing.T) {
	var all []druidv1alpha1.LastError
	add := func(code, text string) {
		all = remember(all, druidv1alpha1.LastError{Code: druidv1alpha1.ErrorCode(code), Description: text, ObservedAt: metav1.NewTime(testNow)})
	}
	add("A", "1")
	add("A", "1") // says nothing new
	for i := range 5 {
		add("B", fmt.Sprint(i))
	}
	var got []string
	for _, e := range all {
		got = append(got, string(e.Code)+e.Description)
	}
	if want := "A1 B2 B3 B4"; strings.Join(got, " ") != want {
		t.Errorf("kept are %q, want %q", got, want)
	}
	for i := range 20 {
		add(fmt.Sprint("C", i), "")
	}
	if len(all) != maxErrors {
		t.Errorf("%d are kept", len(all))
	}
}

func TestATaskThatIsRejectedSaysWhenItStoppedWaiting(t *testing.T) {
	x := newTask()
	p, err := Decide(&Observed{Task: x}, testSettings, testNow)
	if err != nil {
		t.Fatal(err)
	}
	got := statusOf(x, p, "run", testNow)
	if got.Initiated != testNow || len(got.Errors) != 1 || got.Errors[0].Code != "ERR_GET_ETCD" {
		t.Errorf("it is %+v", got)
	}
}
