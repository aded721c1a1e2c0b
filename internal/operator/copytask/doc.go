// Package copytask is the controller of EtcdCopyBackupsTasks: each becomes one Job, which copies, and the
// task says how far that is. Each look at one goes through four files:
//
//	observe.go   what is there: the task, its Job and pods from the manager's cache, missing Secrets
//	decide.go    what follows from it: a plan with its reason. Pure
//	apply.go     carries the plan out
//	report.go    the status, written only when it differs
//
// Nothing is remembered between two looks. A task that has succeeded or failed once is never begun
// again, whatever becomes of its Job.
//
// It deliberately opens no store: what can be copied is found out by the Job, whose error is repeated.
// How the Job looks is in package desired.
package copytask
