// Package linear proves, or refutes, that an etcd behaved like one register per key that does one
// thing at a time, whatever happened to its members meanwhile: [Load] lets many clients read, put,
// swap and delete at once and records what each asked and was told, and [Check] looks for an order
// of all that explains every answer.
//
// An operation without an answer may have happened, may happen yet or never: it stays open to the
// end of the record, and every possibility is tried. A refused write is one of these, too, since
// no error of a cluster that loses its leader is proof that nothing was written.
//
// It does not check leases, ranges, watches or transactions over several keys, and it knows
// nothing of backups: a restore of an older state begins a new record.
package linear
