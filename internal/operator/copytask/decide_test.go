package copytask

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

func TestDecide(t *testing.T) {
	deleting := func(o *Observed) { o.Job.DeletionTimestamp = ptr(metav1.NewTime(testNow)) }
	foreign := func(o *Observed) { o.Job.OwnerReferences[0].UID = "somebody else" }
	unmarked := func(o *Observed) { o.Job.Annotations = nil }
	gone := func(o *Observed) { o.Job = nil }
	other := changed(func(t *druidv1alpha1.EtcdCopyBackupsTask) { t.Spec.MaxBackups = ptr(uint32(1)) })
	onto := changed(func(t *druidv1alpha1.EtcdCopyBackupsTask) { t.Spec.TargetStore = t.Spec.SourceStore })
	running := withPod(container(corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}))
	told := func(s string) func(*Observed) {
		return changed(func(t *druidv1alpha1.EtcdCopyBackupsTask) { t.Status.LastError = &s })
	}
	gaveUp := ends(batchv1.JobFailed, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
	unschedulable := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes"}}}
	for name, c := range map[string]struct {
		changes []func(*Observed)
		state   State
		reason  string
		says    string // in the message
		does    string // make, remove, or nothing
		trouble bool
	}{
		"there is no Job yet":                 {[]func(*Observed){gone}, Copying, "Copying", "the Job move-worker copies", "make", false},
		"the Job is at work":                  {[]func(*Observed){running}, Copying, "Copying", "the Job move-worker copies", "make", false},
		"the Job is done":                     {[]func(*Observed){ends(batchv1.JobComplete, "", "")}, Succeeded, "CopySucceeded", "the Job move-worker copied the backups", "", false},
		"done, and being deleted":             {[]func(*Observed){ends(batchv1.JobComplete, "", ""), deleting}, Succeeded, "CopySucceeded", "", "", false},
		"done, and the Secret is gone":        {[]func(*Observed){ends(batchv1.JobComplete, "", ""), lacks("target")}, Succeeded, "CopySucceeded", "", "", false},
		"done, of another specification":      {[]func(*Observed){ends(batchv1.JobComplete, "", ""), other}, Succeeded, "CopySucceeded", "", "", false},
		"about to be done":                    {[]func(*Observed){ends(batchv1.JobSuccessCriteriaMet, "", "")}, Copying, "Copying", "", "make", false},
		"the Job gave up":                     {[]func(*Observed){gaveUp}, Failed, "CopyFailed", "move-worker gave up (BackoffLimitExceeded: Job has reached the specified backoff limit). Once", "", true},
		"gave up, and its pod is there":       {[]func(*Observed){gaveUp, withPod(retried(5, "log\nError: access denied: name other credentials\n"))}, Failed, "CopyFailed", "; its last error: access denied: name other credentials. Once", "", true},
		"gave up, and its error is known":     {[]func(*Observed){gaveUp, told(attemptFailed + "no bucket")}, Failed, "CopyFailed", "; its last error: no bucket. Once", "", true},
		"ended well earlier":                  {[]func(*Observed){gone, condition(druidv1alpha1.ConditionSucceeded, druidv1alpha1.ConditionTrue)}, Over, "", "", "", false},
		"ended badly earlier":                 {[]func(*Observed){gone, condition(druidv1alpha1.ConditionFailed, druidv1alpha1.ConditionTrue)}, Over, "", "", "", false},
		"not ended, as the original says":     {[]func(*Observed){gone, condition(druidv1alpha1.ConditionFailed, druidv1alpha1.ConditionFalse)}, Copying, "Copying", "", "make", false},
		"changed after it ended":              {[]func(*Observed){condition(druidv1alpha1.ConditionSucceeded, druidv1alpha1.ConditionTrue), changed(func(t *druidv1alpha1.EtcdCopyBackupsTask) { t.Status.ObservedGeneration = ptr(int64(1)) })}, Over, "", "has no effect: make another task", "", true},
		"the same, on a node that is lost":    {[]func(*Observed){deleting, func(o *Observed) { o.Stuck = "move-worker-x does not; if its node is lost" }}, Replacing, "JobReplaced", "as soon as its pods have ended: move-worker-x does not; if its node is lost", "", false},
		"somebody deletes the Job":            {[]func(*Observed){deleting}, Replacing, "JobReplaced", "being deleted", "", false},
		"another specification":               {[]func(*Observed){other}, Replacing, "JobReplaced", "former specification", "remove", false},
		"a specification that cannot be":      {[]func(*Observed){onto}, Replacing, "JobReplaced", "former specification", "remove", false},
		"one that cannot be, without a Job":   {[]func(*Observed){onto, gone}, Hindered, "StoreInvalid", "spec.targetStore is the same place", "", true},
		"a Job of the original":               {[]func(*Observed){unmarked, other}, Copying, "Copying", "", "", false},
		"a Job of the original is done":       {[]func(*Observed){unmarked, ends(batchv1.JobComplete, "", "")}, Succeeded, "CopySucceeded", "", "", false},
		"somebody else's Job is done":         {[]func(*Observed){foreign, ends(batchv1.JobComplete, "", "")}, Copying, "Copying", "", "make", false},
		"Secrets are missing":                 {[]func(*Observed){gone, lacks("source", "target")}, Hindered, "SecretMissing", "no Secret source (spec.sourceStore.secretRef), target (spec.targetStore.secretRef) in shop: make it, or", "", true},
		"a Secret went after the Job came":    {[]func(*Observed){lacks("target")}, Copying, "SecretMissing", "no Secret target", "make", true},
		"a suspended Job":                     {[]func(*Observed){func(o *Observed) { o.Job.Spec.Suspend = ptr(true) }}, Copying, "PodNotStarted", "is suspended: it goes on when its spec.suspend is false", "make", true},
		"no node takes the pod":               {[]func(*Observed){withPod(unschedulable)}, Copying, "PodUnschedulable", "the Job move-worker does not begin: its pod cannot be scheduled (0/3 nodes)", "make", true},
		"the image cannot be had":             {[]func(*Observed){withPod(container(corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}))}, Copying, "ImagePullFailed", "own:1", "make", true},
		"a key of a Secret is missing":        {[]func(*Observed){withPod(container(corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: "couldn't find key endpoint"}}}))}, Copying, "PodNotStarted", "couldn't find key endpoint", "make", true},
		"the pod is being started":            {[]func(*Observed){withPod(container(corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}))}, Copying, "Copying", "", "make", false},
		"an attempt failed":                   {[]func(*Observed){withPod(retried(4, "a\nError: no snapshots\n"))}, Copying, "CopyRetried", "followed by another one: no snapshots", "make", true},
		"an attempt failed without a word":    {[]func(*Observed){withPod(retried(137, ""))}, Copying, "CopyRetried", "container copy-backups: Error, exit code 137", "make", true},
		"gave up, and another error is known": {[]func(*Observed){gaveUp, told("no node")}, Failed, "CopyFailed", "backoff limit). Once", "", true},
		"the pod of an attempt is gone":       {[]func(*Observed){told(attemptFailed + "no bucket")}, Copying, "CopyRetried", "another one: no bucket", "make", true},
		"an attempt failed, and no node":      {[]func(*Observed){told(attemptFailed + "no bucket"), withPod(unschedulable)}, Copying, "PodUnschedulable", "0/3 nodes", "make", true},
		"another error is over":               {[]func(*Observed){told("no node")}, Copying, "Copying", "", "make", false},
		"a container ended well":              {[]func(*Observed){withPod(container(corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "Error: no"}}}))}, Copying, "Copying", "", "make", false},
		"the newest attempt counts":           {[]func(*Observed){withPod(retried(4, "Error: old")), withPod(retried(4, "Error: new"))}, Copying, "CopyRetried", "another one: new", "make", true},
	} {
		t.Run(name, func(t *testing.T) {
			o := at(t, c.changes...)
			p, err := Decide(o, testSettings)
			if err != nil {
				t.Fatal(err)
			}
			does := ""
			switch {
			case p.Make != nil && p.Remove != nil:
				does = "both"
			case p.Make != nil:
				does = "make"
			case p.Remove != nil:
				does = "remove"
			}
			if p.State != c.state || p.Reason != c.reason || !strings.Contains(p.Message, c.says) || does != c.does || p.Trouble != c.trouble {
				t.Errorf("it is %s, %s %q, does %q, trouble %t; want %s, %s with %q, %q, %t", p.State, p.Reason, p.Message, does, p.Trouble, c.state, c.reason, c.says, c.does, c.trouble)
			}
		})
	}
}

func TestAnotherImageOfTheOperatorLeavesARunningJobAlone(t *testing.T) {
	o := at(t)
	newer := testSettings
	newer.Images.Sidecar = "own:2"
	p, err := Decide(o, newer)
	if err != nil {
		t.Fatal(err)
	}
	if p.State != Copying || p.Make.Spec.Template.Spec.Containers[0].Image != "own:1" {
		t.Errorf("%s, with the image %s, want the Job as it is", p.State, p.Make.Spec.Template.Spec.Containers[0].Image)
	}
}

func TestTheGenerationIsThatOfWhichTheJobWasMade(t *testing.T) {
	other := changed(func(t *druidv1alpha1.EtcdCopyBackupsTask) { t.Spec.MaxBackups = ptr(uint32(1)) })
	for name, how := range map[string]batchv1.JobConditionType{"done": batchv1.JobComplete, "gave up": batchv1.JobFailed} {
		same, err := Decide(at(t, ends(how, "", "")), testSettings)
		if err != nil || !same.Acted {
			t.Errorf("%s: it is not told that this was what the specification says (%v)", name, err)
		}
		former, err := Decide(at(t, ends(how, "", ""), other), testSettings)
		if err != nil || former.Acted {
			t.Errorf("%s: it is told that this was what the newest specification says (%v)", name, err)
		}
	}
}

func TestSecretsAreLookedForUntilAPodHasStarted(t *testing.T) {
	running := withPod(container(corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}))
	ambient := changed(func(t *druidv1alpha1.EtcdCopyBackupsTask) { t.Spec.TargetStore.SecretRef = nil })
	deleting := func(o *Observed) { o.Job.DeletionTimestamp = ptr(metav1.NewTime(testNow)) }
	for name, c := range map[string]struct {
		changes []func(*Observed)
		again   bool
	}{
		"a Job is being deleted":       {[]func(*Observed){running, deleting}, true}, // its pods tell nobody that they end
		"before there is a Job":        {[]func(*Observed){func(o *Observed) { o.Job = nil }}, true},
		"while there is no pod":        {nil, true},
		"one is missing":               {[]func(*Observed){func(o *Observed) { o.Job = nil }, lacks("target")}, true},
		"a container runs":             {[]func(*Observed){running}, false},
		"no store needs one":           {[]func(*Observed){func(o *Observed) { o.Job = nil }, ambient}, false},
		"an attempt failed":            {[]func(*Observed){withPod(retried(1, ""))}, false},
		"the Job has ended":            {[]func(*Observed){ends(batchv1.JobComplete, "", "")}, false},
		"nothing can be done about it": {[]func(*Observed){func(o *Observed) { o.Job = nil }, changed(func(t *druidv1alpha1.EtcdCopyBackupsTask) { t.Spec.TargetStore.Provider = nil })}, false},
	} {
		p, err := Decide(at(t, c.changes...), testSettings)
		if err != nil || (p.Again > 0) != c.again {
			t.Errorf("%s: again after %s (%v), want it %t", name, p.Again, err, c.again)
		}
	}
}
