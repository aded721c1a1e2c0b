package desired

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// CollectionInput is everything that a CronJob depends on which deletes backups.
type CollectionInput struct {
	TaskInput
	Owner string // as in Input
	// CopiesSince: only expired copies go that extensions made since then; zero: whatever retention lets go.
	CopiesSince time.Time
}

// CollectionCronJob deletes backups on a schedule, by the policy that sidecars have which collect by themselves.
func CollectionCronJob(in CollectionInput) *batchv1.CronJob {
	b := in.Etcd.Spec.Backup
	deltas := "--delta-snapshot-retention-period=" + b.DeltaSnapshotRetentionPeriod.Duration.String()
	// The newest chain is read whole before anything is deleted.
	args := []string{"--owner=" + in.Owner, "--yes", "--restoration-temp-snapshots-dir=" + scratchDir}
	switch policy := *b.GarbageCollectionPolicy; {
	case !in.CopiesSince.IsZero():
		args = append(args, "--copies-from-timestamp="+in.CopiesSince.UTC().Format(time.RFC3339))
	case policy == druidv1alpha1.GarbageCollectionLimitBased:
		args = append(args, "--garbage-collection-policy="+string(policy), fmt.Sprintf("--max-backups=%d", *b.MaxBackupsLimitBasedGC), deltas)
	default:
		args = append(args, "--garbage-collection-policy="+string(policy), deltas)
	}
	return taskCronJob(in.TaskInput, taskRun{
		component: druidv1alpha1.ComponentCollectionJob, verb: "collect", scratch: "collection-scratch",
		args: args, secret: credentialsOf(in.Etcd, (*druidv1alpha1.Etcd).CollectorSecret),
	})
}
