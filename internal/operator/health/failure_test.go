package health

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTheLastFailureIsThatOfTheNewestPodThatFailed(t *testing.T) {
	pod := func(age time.Duration, exitCode int32, log string) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age))},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				Name: "exclude", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exitCode, Message: log}},
			}}},
		}
	}
	for phrase, c := range map[string]struct {
		pods     []corev1.Pod
		said     string
		exitCode int32
	}{
		"no pods":           {nil, "", 0},
		"done":              {[]corev1.Pod{pod(0, 0, "bye")}, "", 0},
		"two attempts":      {[]corev1.Pod{pod(time.Hour, 5, "Error: no route"), pod(time.Minute, 3, "a table\nError: refused\n")}, "refused", 3},
		"something follows": {[]corev1.Pod{pod(0, 5, "Error: a warning\nError: no route\nlevel=INFO msg=bye\n")}, "no route", 5},
		"no error in it":    {[]corev1.Pod{pod(0, 2, "panic: no\ngoroutine 1\n")}, "goroutine 1", 2},
		"without a log":     {[]corev1.Pod{pod(0, 137, "")}, "container exclude: it ended, exit code 137", 137},
		"the next is done":  {[]corev1.Pod{pod(time.Hour, 5, "Error: no route"), pod(time.Minute, 0, "")}, "no route", 5},
	} {
		if said, exitCode := LastFailure(c.pods); said != c.said || exitCode != c.exitCode {
			t.Errorf("%s: %q, %d, want %q, %d", phrase, said, exitCode, c.said, c.exitCode)
		}
	}
}
