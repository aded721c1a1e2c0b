package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// LastFailure is the error of the container that failed in the newest of the pods of a Job, and its exit code; "" if none
// failed, or the pods are gone.
func LastFailure(pods []corev1.Pod) (said string, exitCode int32) {
	newest := slices.SortedFunc(slices.Values(pods), func(a, b corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	for _, p := range newest {
		for _, c := range append(append([]corev1.ContainerStatus{}, p.Status.ContainerStatuses...), p.Status.InitContainerStatuses...) {
			for _, s := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
				if s != nil && s.ExitCode != 0 {
					return cmp.Or(lastLine(s.Message), fmt.Sprintf("container %s: %s, exit code %d", c.Name, cmp.Or(s.Reason, "it ended"), s.ExitCode)), s.ExitCode
				}
			}
		}
	}
	return "", 0
}

// lastLine is the error that a program ended with, the last line that says it is one, or else the last line of the log.
func lastLine(log string) string {
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(log, "")), "\n")
	for _, line := range slices.Backward(lines) {
		if said, is := strings.CutPrefix(strings.TrimSpace(line), "Error: "); is {
			return said
		}
	}
	return strings.TrimSpace(lines[len(lines)-1])
}
