package cluster

import (
	"fmt"

	"sigs.k8s.io/yaml"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/schedule"
)

// schedules takes schedules that cannot be read out of the specification: those that the ConfigMap has,
// which is what the sidecars run with, stay in force. e is changed; what is wrong is told.
func schedules(e *druidv1alpha1.Etcd, configMap map[string]string) (invalid []string) {
	var inForce struct {
		Snapshotter struct {
			Schedule string `json:"schedule"`
		} `json:"snapshotterConfig"`
		Defragmentation struct {
			Schedule string `json:"schedule"`
		} `json:"defragmentationConfig"`
	}
	for _, f := range []struct {
		name      string
		field     **string
		before    *string
		otherwise string
	}{
		{"spec.backup.fullSnapshotSchedule", &e.Spec.Backup.FullSnapshotSchedule, &inForce.Snapshotter.Schedule, "0 0 * * *"},
		{"spec.etcd.defragmentationSchedule", &e.Spec.Etcd.DefragmentationSchedule, &inForce.Defragmentation.Schedule, "0 0 */3 * *"},
	} {
		if *f.field == nil {
			continue
		}
		_, err := schedule.Parse(**f.field)
		if err == nil {
			continue
		}
		// What cannot be read holds no schedule.
		_ = yaml.Unmarshal([]byte(configMap[desired.SidecarFile]), &inForce)
		stays := *f.before
		if _, unusable := schedule.Parse(stays); unusable != nil {
			stays = f.otherwise
		}
		invalid = append(invalid, fmt.Sprintf("%s: %v; %q is in force", f.name, err, stays))
		*f.field = &stays
	}
	return invalid
}
