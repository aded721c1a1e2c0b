package main

import (
	"fmt"
	"slices"
	"strings"

	"druid.internal/druid/internal/operator/cluster"
	"druid.internal/druid/internal/operator/metrics"
)

// metricsPage is the reference of what the operator measures.
func metricsPage() string {
	var b strings.Builder
	b.WriteString("# Metrics of the operator\n\n" + generated + ` They are served at /metrics of the port for metrics. Of several operators only the one
that works shows the Etcds. An Etcd has series of its own only while one of its conditions is in trouble or something is found in its bucket, and for tasks; all other labels
have closed sets of values. What a member and its backups measure is in [metrics of the sidecar](metrics.md).

| metric | kind | labels | |
| --- | --- | --- | --- |
`)
	for _, r := range slices.Concat(metrics.New().Rows(), metrics.NewTasks().Rows()) {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Name, r.Kind, strings.Join(r.Labels, ", "), r.Help)
	}
	b.WriteString("\nThe library controller-runtime adds its own, among them " + "`leader_election_master_status`, `workqueue_depth`, `controller_runtime_reconcile_time_seconds` and `rest_client_requests_total`.\n" +
		"\nWorth an alert:\n\n| condition | what it means |\n| --- | --- |\n")
	for _, a := range alerts {
		fmt.Fprintf(&b, "| `%s` | %s |\n", a.condition, a.meaning)
	}
	b.WriteString("\n## Of the original\n\nIts documentation has these. The operator has no compaction yet, so nothing is measured under these names.\n\n| metric | kind | labels |\n| --- | --- | --- |\n")
	for _, r := range unmeasured {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Name, r.Kind, strings.Join(r.Labels, ", "))
	}
	return b.String()
}

// alerts are conditions that somebody should be told of.
var alerts = []struct{ condition, meaning string }{
	{`max by (etcd_namespace, etcd) (etcddruid_etcd_condition_seconds{condition="Ready"}) > 60`, "a cluster has had no quorum for a minute; its conditions name the members"},
	{`etcddruid_etcd_condition_seconds{condition="QuorumLost", status="True"} > 0`, "a majority of the members is away for longer than the thresholds: bring nodes and volumes back first, with which it comes back by itself; [recovering](../operations/recovering.md) says what if they are lost"},
	{`etcddruid_etcd_condition_seconds{condition="BackupReady"} > 600`, "backups are late, fail, or cannot be restored; the condition says which"},
	{`etcddruid_etcd_condition_seconds{condition="AllMembersUpdated"} > 3600`, "a rollout has not ended for an hour; the condition says what it waits for"},
	{`etcddruid_etcd_condition_seconds{condition="DataVolumesReady"} > 300`, "a volume is full, read-only, cannot be had, or has somebody else's data"},
	{`etcddruid_etcd_backup_tamper_findings > 0`, "somebody may have changed, hidden or deleted something in the bucket; `status.backup` and `etcdbrctl list` name it"},
	{`etcddruid_etcd_backup_excluded_snapshots > 0`, "somebody excluded snapshots; `status.backup` names them"},
	{`etcddruid_etcd_condition_seconds{condition="BackupsProtected"} > 600`, "the newest backups are not locked, or nobody knows that they are; the condition says why"},
	{`etcddruid_etcd_condition_seconds{condition="Hibernated"} > 3600`, "a cluster has been falling asleep, or waking up, for an hour; the condition says what it waits for"},
	{`etcddruid_etcd_condition_seconds{condition="HibernationBackupProtected", status="False"} > 0`, "the backup of a hibernated cluster can be deleted, or soon will be, or it is held for longer than it needs to be; the condition says when or why, and what to do"},
	{`etcddruid_etcd_condition_seconds{condition="HibernationBackupProtected", status="Unknown"} > 86400`, "nobody has told for a day whether the backup of a hibernated cluster is locked"},
	{`etcddruid_etcd_operations{state="Error"} > 0`, "a specification cannot be carried out: `status.lastErrors` of the Etcd says why"},
	{`increase(etcddruid_operator_tasks_total{state!="succeeded"}[1h]) > 0 or etcddruid_operator_tasks_total{state!="succeeded"} unless etcddruid_operator_tasks_total offset 1h`, "a task was not done: `status.lastErrors` of the task says why"},
	{`absent(etcddruid_etcds)`, "no operator works"},
	{`histogram_quantile(0.99, rate(workqueue_queue_duration_seconds_bucket{name="etcd"}[10m])) > 60`, "Etcds wait for a minute until they are looked at: more `concurrentSyncs`, or a larger `clientConnection.qps`"},
}

// unmeasured are the metrics of the original that belong to controllers which this operator has not got.
var unmeasured = []metrics.Row{
	{Name: "etcddruid_compaction_jobs_total", Kind: "counter", Labels: []string{"succeeded", "failureReason", "etcd_namespace"}},
	{Name: "etcddruid_compaction_jobs_current", Kind: "gauge", Labels: []string{"etcd_namespace"}},
	{Name: "etcddruid_compaction_job_duration_seconds", Kind: "histogram", Labels: []string{"succeeded", "etcd_namespace"}},
	{Name: "etcddruid_compaction_num_delta_events", Kind: "gauge", Labels: []string{"etcd_namespace"}},
	{Name: "etcddruid_compaction_full_snapshot_triggered_total", Kind: "counter", Labels: []string{"succeeded", "etcd_namespace"}},
}

// eventsPage is the reference of the events about Etcds.
func eventsPage() string {
	var b strings.Builder
	b.WriteString("# Events of the operator\n\n" + generated + " They are about the Etcd: `kubectl events --for etcd/NAME`. One that repeats is counted by Kubernetes. The API server\n" +
		"forgets events after an hour; what lasts is in the conditions, `status.lastOperation` and `status.lastErrors`.\n\n| reason | type | action | |\n| --- | --- | --- | --- |\n")
	for _, e := range cluster.Events() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", e.Reason, e.Type, e.Action, e.Meaning)
	}
	return b.String()
}
