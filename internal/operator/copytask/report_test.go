package copytask

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

func TestStatus(t *testing.T) {
	earlier := newTask(func(t *druidv1alpha1.EtcdCopyBackupsTask) {
		t.Status.ObservedGeneration = ptr(int64(1))
		t.Status.LastError = ptr("an earlier one")
	})
	for name, c := range map[string]struct {
		plan Plan
		err  error
		want string
	}{
		"copying":             {Plan{State: Copying, Reason: "Copying", Message: "m", Acted: true}, nil, "Succeeded=False Copying m; generation 2; error -"},
		"in trouble":          {Plan{State: Copying, Reason: "CopyRetried", Message: "m", Acted: true, Trouble: true}, nil, "Succeeded=False CopyRetried m; generation 2; error m"},
		"hindered":            {Plan{State: Hindered, Reason: "SecretMissing", Message: "m", Acted: true, Trouble: true}, nil, "Succeeded=False SecretMissing m; generation 2; error m"},
		"the Job is not made": {Plan{State: Copying, Reason: "Copying", Message: "m", Acted: true}, errors.New("apply:\n  refused"), "Succeeded=False JobNotMade apply: refused; generation 1; error apply: refused"},
		"succeeded":           {Plan{State: Succeeded, Reason: "CopySucceeded", Message: "m", Acted: true}, nil, "Succeeded=True CopySucceeded m; generation 2; error -"},
		"with a former Job":   {Plan{State: Succeeded, Reason: "CopySucceeded", Message: "m"}, nil, "Succeeded=True CopySucceeded m; generation 1; error -"},
		"failed":              {Plan{State: Failed, Reason: "CopyFailed", Message: "m", Acted: true, Trouble: true}, nil, "Succeeded=False CopyFailed m, Failed=True CopyFailed m; generation 2; error m"},
		"over":                {Plan{State: Over}, nil, "; generation 1; error an earlier one"},
		"over and changed":    {Plan{State: Over, Message: "m", Trouble: true}, nil, "; generation 1; error m"},
	} {
		s := statusOf(earlier, c.plan, c.err, testNow)
		var all []string
		for _, c := range s.Conditions {
			all = append(all, fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message))
		}
		last := "-"
		if s.LastError != nil {
			last = *s.LastError
		}
		if got := fmt.Sprintf("%s; generation %d; error %s", strings.Join(all, ", "), *s.ObservedGeneration, last); got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}

func TestTheSameLookWritesTheSameStatus(t *testing.T) {
	task := newTask()
	p := Plan{State: Hindered, Reason: "StoreInvalid", Message: "m", Acted: true, Trouble: true}
	task.Status = statusOf(task, p, nil, testNow)
	again := statusOf(task, p, nil, testNow.Add(time.Hour))
	if *druidv1alpha1.FindCondition(again.Conditions, druidv1alpha1.ConditionSucceeded) != task.Status.Conditions[0] {
		t.Errorf("it is %+v an hour later, was %+v", again.Conditions, task.Status.Conditions)
	}
}

func TestAConditionOfTheOriginalThatDoesNotHoldGoes(t *testing.T) {
	task := newTask()
	task.Status.Conditions = []druidv1alpha1.Condition{{Type: druidv1alpha1.ConditionFailed, Status: druidv1alpha1.ConditionFalse}, {Type: "Other"}}
	s := statusOf(task, Plan{State: Copying, Reason: "Copying", Acted: true}, nil, testNow)
	if len(s.Conditions) != 2 || s.Conditions[0].Type != "Other" || s.Conditions[1].Type != druidv1alpha1.ConditionSucceeded {
		t.Errorf("conditions %+v, want Other and Succeeded", s.Conditions)
	}
}
