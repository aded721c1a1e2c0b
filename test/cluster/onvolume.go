package cluster

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MakeReadOnly is a script for [Cluster.OnVolume]: the volume becomes read-only, as after an error of the disk. The kernel takes no
// writing away from who has a file open, so the pod's programs are killed before.
const MakeReadOnly = `
for attempt in $(seq 200); do
	for group in $(grep -l "$2" /proc/[0-9]*/cgroup); do
		pid=${group%/cgroup}
		test "$(cat "$pid/comm")" = pause || kill -9 "${pid#/proc/}"
	done
	mount -o remount,ro "$1" && exit
done 2>&1 | tail -1
grep " $1 " /proc/mounts | grep -q " ro,"`

// OnVolume runs a script on the node of a pod. $1 is where the volume of its claim is mounted, $2 what the names of the pod's control
// groups contain.
func (c *Cluster) OnVolume(ctx context.Context, namespace, pod, claim, script string) error {
	p, err := c.Client.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return err
	}
	v, err := c.Client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, claim, metav1.GetOptions{})
	if err != nil {
		return err
	}
	node, err := c.Node(p.Spec.NodeName)
	if err != nil {
		return err
	}
	dir := "/var/lib/kubelet/pods/" + string(p.UID) + "/volumes/kubernetes.io~local-volume/" + v.Spec.VolumeName
	if out, err := node.Run(ctx, "sh", "-c", script, "sh", dir, strings.ReplaceAll(string(p.UID), "-", "[-_]")); err != nil {
		return fmt.Errorf("on the node of pod %s: %w: %s", pod, err, out)
	}
	return nil
}
