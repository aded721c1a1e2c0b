package initialize

import (
	"fmt"

	"druid.internal/druid/internal/agent/neighbours"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/datadir"
)

// Action is what is done next.
type Action string

// The actions. The first group ends the initialization.
const (
	Start         Action = "Start"         // etcd, on the data there are
	BootstrapSole Action = "BootstrapSole" // a new cluster of this member
	BootstrapNew  Action = "BootstrapNew"  // a new cluster of all wanted members
	BootstrapLate Action = "BootstrapLate" // the same, which others have begun already
	JoinAsLearner Action = "JoinAsLearner" // a cluster that exists

	RestoreSole Action = "RestoreSole" // from the backup: the one wanted member
	RestoreSeed Action = "RestoreSeed" // from the backup: a cluster of one that the others will join

	AskBackup Action = "AskBackup" // what the bucket holds matters
	Settle    Action = "Settle"    // apply to the data what is only in their log, to compare them
	Offer     Action = "Offer"     // to begin a cluster: make and publish a nonce
	Withdraw  Action = "Withdraw"  // that offer
	GiveUp    Action = "GiveUp"    // data that no client ever wrote to

	Wait       Action = "Wait"       // for something that comes by itself
	Refuse     Action = "Refuse"     // until a person has done something
	QuorumLost Action = "QuorumLost" // a majority lost its data, and some member has any: a person decides
)

// Decision is an action with its grounds.
type Decision struct {
	Action Action
	Rule   string          // which one decided, as in "5.3"
	Reason agentapi.Reason // of the state the member gets into, if it changes
	// Message says why in one sentence, and what a person has to do, if anything.
	Message string

	Cluster neighbours.Cluster // of JoinAsLearner, and of Start if it lists this member at other peer URLs than the wanted ones
	Remove  []uint64           // of JoinAsLearner: entries of the cluster's list that were this member
	Listed  uint64             // of JoinAsLearner: the learner this member was added as, and never began as; 0: none
	Keep    bool               // of RestoreSole: the data that there are reach further than the backup, and stay
	Saw     map[string]string  // of BootstrapNew and BootstrapLate: the nonces of all wanted members
}

// Decide says what to do next. It depends on its argument alone.
//
// The rules are tried in this order, and the first that fits decides:
//
//	1  the volume, and what no decision can be taken about
//	2  one wanted member that has data
//	3  several, and this one has data
//	4  several, and a cluster answers a member without data
//	5  several, no cluster answers a member without data
//	6  one wanted member without data, or with damaged data
//
// Where the members join a cluster outside, rules 2, 5 and 6 give way to
//
//	7  no cluster is begun and none restored: the one outside is waited for
func Decide(f Facts) Decision {
	if d, ok := decideVolume(f); ok {
		return d
	}
	switch {
	case f.Outside != nil:
		return decideOutside(f)
	case len(f.Wanted) == 1 && f.withData():
		return f.beside("2.17", decideSoleWithData(f))
	case len(f.Wanted) == 1:
		return f.beside("6.10", decideSoleWithout(f))
	}
	return f.beside("5.32", decideSeveral(f))
}

// beside is what is decided, but for beginning a cluster beside that of those who leave.
func (f Facts) beside(rule string, d Decision) Decision {
	switch {
	case !f.OthersLeave:
		return d
	case d.Action != RestoreSole && d.Action != BootstrapSole && d.Action != RestoreSeed && d.Action != BootstrapNew:
		return d
	}
	return waitForCluster(rule, "%s, but others, which are to leave the cluster, may still run and have the data: nothing is begun beside them; this member joins them when they are wanted again (of an Etcd the operator wants them when nobody that is to stay has taken part for half a minute; all ask each other then)", d.Message)
}

// decideVolume is rule 1.
func decideVolume(f Facts) (Decision, bool) {
	if f.Volume.Reason != "" {
		return Decision{Action: Refuse, Rule: "1.1", Reason: f.Volume.Reason, Message: f.Volume.Why}, true
	}
	if _, ok := f.own(); !ok {
		return Decision{Action: Refuse, Rule: "1.2", Reason: agentapi.WaitingForCluster,
			Message: fmt.Sprintf("%s is none of the wanted members; add it to initial-cluster, or stop it", f.Self)}, true
	}
	if m, known := f.Data.Self(); known && m.Name != "" && m.Name != f.Self {
		return Decision{Action: Refuse, Rule: "1.4", Reason: agentapi.VolumeMismatch,
			Message: fmt.Sprintf("the data are those of member %s (%016x), this is %s: two etcds must never run on the data of one member; give each member its own volume, or remove this data directory so that the member joins anew", m.Name, m.ID, f.Self)}, true
	}
	switch f.Data.State {
	case datadir.Missing, datadir.Blank, datadir.Valid, datadir.Invalid:
		return Decision{}, false
	}
	return Decision{Action: Refuse, Rule: "1.3", Reason: agentapi.DBValidationFailed, Message: f.Data.Why}, true
}

// decideSoleWithData is rule 2.
func decideSoleWithData(f Facts) Decision {
	switch {
	case f.Data.Removed:
		return Decision{Action: Refuse, Rule: "2.1", Reason: agentapi.WaitingForCluster,
			Message: fmt.Sprintf("the data belong to member %016x, which its cluster has removed, and no other member is wanted; add the other members to initial-cluster, or remove the data directory to restore from the backup", f.Data.MemberID)}
	case len(f.Data.Voters) > 1:
		// The others may still run, with newer data: they are about to be removed. Whether this
		// member is behind the backup says nothing then, as with several members.
		return Decision{Action: Start, Rule: "2.2", Reason: agentapi.DBValidationSucceeded,
			Message: fmt.Sprintf("the data are one of %d members of a cluster, though one member is wanted; if the others are gone for good, remove the data directory to restore from the backup", len(f.Data.Voters))}
	}
	switch f.Backup.State {
	case BackupUnasked:
		return Decision{Action: AskBackup, Rule: "2.3", Message: "the data must not be behind the backup"}
	case BackupCrowded:
		if f.Data.State == datadir.Valid {
			return Decision{Action: Start, Rule: "2.18", Reason: agentapi.DBValidationSucceeded,
				Message: fmt.Sprintf("the data (revision %d) are valid, and etcd does not wait until the bucket is read: %s", f.Data.Revision, f.Backup.Why)}
		}
		return waitForStore("2.4", f, "whether the data are behind the backup cannot be told")
	case BackupUnreachable:
		return waitForStore("2.4", f, "whether the data are behind the backup cannot be told")
	case BackupNotConfigured:
		return Decision{Action: Start, Rule: "2.5", Reason: agentapi.DBValidationSucceeded, Message: "the data are valid, and there is no backup"}
	case BackupNone:
		return Decision{Action: Start, Rule: "2.6", Reason: agentapi.DBValidationSucceeded, Message: "the data are valid, and nothing is in the bucket yet"}
	}
	if f.Backup.Broken != "" && f.Backup.Relation != RelationOther {
		return decideSoleAlone(f)
	}
	rev, latest := f.Data.Revision, f.Backup.Latest
	switch {
	case f.Data.State == datadir.Blank && rev < latest && f.Backup.Owned != "":
		return ownedByAnother("2.16", f, "no client ever wrote to the data")
	case f.Data.State == datadir.Blank && rev < latest:
		return Decision{Action: RestoreSole, Rule: "2.7", Reason: agentapi.DBValidationFailed,
			Message: fmt.Sprintf("no client ever wrote to the data, and the backup reaches revision %d", latest)}
	case f.Backup.Relation == RelationOther:
		return Decision{Action: Refuse, Rule: "2.8", Reason: agentapi.OtherLineage,
			Message: fmt.Sprintf("the data (revision %d) are not of the history in the bucket (revision %d): %s; restore explicitly, or let the member write to another prefix", rev, max(latest, f.Backup.Uploaded), f.Backup.Why)}
	case rev >= latest:
		return Decision{Action: Start, Rule: "2.9", Reason: agentapi.DBValidationSucceeded,
			Message: fmt.Sprintf("the data (revision %d) are not behind the backup (revision %d)", rev, latest)}
	case latest <= f.Data.AtMost && !f.Settled:
		return Decision{Action: Settle, Rule: "2.10",
			Message: fmt.Sprintf("the database reaches revision %d and with its log up to %d; the backup reaches %d", rev, f.Data.AtMost, latest)}
	case f.Backup.Relation == RelationSame && f.Backup.Owned != "":
		return ownedByAnother("2.16", f, fmt.Sprintf("the data (revision %d) are behind the backup (revision %d) of the same history", rev, latest))
	case f.Backup.Relation == RelationSame:
		return Decision{Action: RestoreSole, Rule: "2.11", Reason: agentapi.DBValidationFailed,
			Message: fmt.Sprintf("the data (revision %d) are behind the backup (revision %d) of the same history", rev, latest)}
	}
	return Decision{Action: Refuse, Rule: "2.12", Reason: agentapi.OtherLineage,
		Message: fmt.Sprintf("the data (revision %d) are behind the backup (revision %d), and do not say whether they are of the same history; remove the data directory to restore from the backup, or let the member write to another prefix", rev, latest)}
}

// decideSoleAlone is rule 2 where the backups cannot be restored: good data are all there is, and
// data that lack what was uploaded are for a person, who may get more out of the bucket.
func decideSoleAlone(f Facts) Decision {
	rev, uploaded := f.Data.Revision, f.Backup.Uploaded
	switch {
	case rev >= uploaded:
		return Decision{Action: Start, Rule: "2.13", Reason: agentapi.DBValidationSucceeded,
			Message: fmt.Sprintf("the data (revision %d) have all that was uploaded (revision %d); the backups cannot be restored: %s", rev, uploaded, f.Backup.Broken)}
	case uploaded <= f.Data.AtMost && !f.Settled:
		return Decision{Action: Settle, Rule: "2.14",
			Message: fmt.Sprintf("the database reaches revision %d and with its log up to %d; revision %d was uploaded, and the backups cannot be restored: %s", rev, f.Data.AtMost, uploaded, f.Backup.Broken)}
	}
	return Decision{Action: Refuse, Rule: "2.15", Reason: agentapi.RestorationFailed,
		Message: fmt.Sprintf("the data (revision %d) lack what was uploaded (revision %d), and the backups cannot be restored: %s; %s", rev, uploaded, f.Backup.Broken, brokenRemedy)}
}

// brokenRemedy is what a person can do about backups that cannot be restored.
const brokenRemedy = "look at them with etcdbrctl list, restore what is left with etcdbrctl restore, or let the member write to another prefix to go on without"

// decideSoleWithout is rule 6.
func decideSoleWithout(f Facts) Decision {
	invalid := f.Data.State == datadir.Invalid
	switch f.Backup.State {
	case BackupUnasked:
		return Decision{Action: AskBackup, Rule: "6.1", Message: "there are no usable data"}
	case BackupUnreachable, BackupCrowded:
		return waitForStore("6.2", f, "whether there is anything to restore cannot be told")
	case BackupExists:
		why := "there are no data"
		if invalid {
			why = f.Data.Why
		}
		if f.Backup.Owned != "" {
			return ownedByAnother("6.9", f, why)
		}
		if invalid && f.Backup.Relation == RelationOther {
			return Decision{Action: Refuse, Rule: "6.3", Reason: agentapi.OtherLineage,
				Message: fmt.Sprintf("%s, and they are not of the history in the bucket: %s; remove the data directory to restore that history nevertheless, or mend the data", f.Data.Why, f.Backup.Why)}
		}
		if f.Backup.Broken != "" {
			return Decision{Action: Refuse, Rule: "6.8", Reason: agentapi.RestorationFailed,
				Message: fmt.Sprintf("%s, and the backups cannot be restored: %s; %s", why, f.Backup.Broken, brokenRemedy)}
		}
		d := Decision{Action: RestoreSole, Rule: "6.4", Reason: agentapi.DBValidationFailed,
			Message: fmt.Sprintf("%s, and the backup reaches revision %d", why, f.Backup.Latest)}
		switch reached := max(f.Data.Revision, f.Data.AtMost); {
		case !invalid:
		case reached > f.Backup.Latest:
			d.Keep, d.Message = true, fmt.Sprintf("%s; the data reached revision %d", d.Message, reached)
		case reached <= 1:
			d.Keep, d.Message = true, d.Message+"; the data do not tell which revision they reached"
		case f.Data.AtMost == 0:
			d.Keep, d.Message = true, fmt.Sprintf("%s; the database reached revision %d, and how far its log went beyond cannot be told", d.Message, reached)
		}
		return d
	}
	bucket := "there is no backup"
	if f.Backup.State == BackupNone {
		bucket = "the bucket holds nothing to restore from"
	}
	switch {
	case invalid:
		return Decision{Action: Refuse, Rule: "6.5", Reason: agentapi.DBValidationFailed,
			Message: fmt.Sprintf("%s, and %s; mend the data, or remove the data directory to begin without any", f.Data.Why, bucket)}
	case f.Journal.Restoring:
		return Decision{Action: Refuse, Rule: "6.6", Reason: agentapi.RestorationFailed,
			Message: "a restore was interrupted, and by now " + bucket + "; the data from before are set aside beside the data directory: rename them back, or remove " + JournalFile + " to begin without any"}
	}
	return Decision{Action: BootstrapSole, Rule: "6.7", Reason: agentapi.NewSingleNodeClusterCreated, Message: "there are no data, and " + bucket}
}

// ownedByAnother is what backups lead to that would be restored if they were not another's: his data would be served, and what
// becomes of them is in no backup. The remedy stands before what is said of the other one, which may be long.
func ownedByAnother(rule string, f Facts, why string) Decision {
	return Decision{Action: Refuse, Rule: rule, Reason: agentapi.WaitingForStore,
		Message: fmt.Sprintf("%s, and nothing is restored, as the backups are another's: let the member write to another prefix, or, if the other owner is gone for good, take his over "+
			"(of an Etcd: annotate it with druid.gardener.cloud/take-over-backups=true); %s", why, f.Backup.Owned)}
}

// waitForStore is what a bucket that cannot be read leads to: it is never taken for empty.
func waitForStore(rule string, f Facts, what string) Decision {
	return Decision{Action: Wait, Rule: rule, Reason: agentapi.WaitingForStore,
		Message: fmt.Sprintf("the bucket cannot be read, so %s: %s; check the store and its credentials", what, f.Backup.Why)}
}
