// Package operatortask is the controller of tasks: EtcdOperatorTasks, and EtcdOpsTasks as the original has
// them. An adapter for each resource makes the same task.Task of it, and all that follows knows only that.
// Each look at one goes through four files:
//
//	observe.go   what is there: the task, its Etcd, the other tasks of that Etcd, its CronJob or Job
//	decide.go    what follows from it: a plan with its reason. Pure
//	apply.go     carries the plan out
//	report.go    the status, written only when it differs, and never over a newer one
//
// What a type of task does is in a package of its own, and registry.go has a row for each.
//
// The states of a task that is done once:
//
//	       a precondition does not hold ──> Rejected
//	new ──> Pending ──(its turn)──> InProgress ──> Succeeded | Failed ──(ttlSecondsAfterFinished)──> deleted
//	        waits for those made before
//
// A standing task is InProgress at once, and waits for nobody.
//
// The work is done in a goroutine per task, of which there is one per Etcd, so that no worker of the
// controller waits for an upload and no Etcd for another one's. InProgress is written before the work is
// begun: an operator that finds a task InProgress which it has not begun itself takes it that another
// operator did, and died, and tells the work so.
//
// What needs the store and no member a Job does. It is made when InProgress is written, under a name that no other task's has,
// and its end is the task's: whoever goes on after an operator that died finds it.
//
// It deliberately opens no store, and makes no task by itself: that is cluster/standingtasks.go.
package operatortask
