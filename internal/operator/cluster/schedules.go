package cluster

import (
	"errors"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/desired"
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
		schedule, err := cron.ParseStandard(**f.field)
		if err == nil && schedule.Next(time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
			err = errors.New("it never comes: there is no such day")
		}
		if err == nil {
			continue
		}
		// What cannot be read holds no schedule.
		_ = yaml.Unmarshal([]byte(configMap[desired.SidecarFile]), &inForce)
		stays := *f.before
		if _, unusable := cron.ParseStandard(stays); unusable != nil {
			stays = f.otherwise
		}
		invalid = append(invalid, fmt.Sprintf("%s %q: %v; %q is in force", f.name, **f.field, err, stays))
		*f.field = &stays
	}
	return invalid
}
