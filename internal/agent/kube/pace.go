package kube

import (
	"encoding/json"
	"time"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// How long after the last write a change is written. A busy etcd has another revision at every look:
// thousands of members must not write that every second.
const (
	atOnce   = time.Second       // what somebody may wait for: state, alarms, failures
	soon     = 10 * time.Second  // what people read: messages, deltas
	inAWhile = 50 * time.Second  // numbers: revision, sizes
	still    = 100 * time.Second // that nothing is new, and nothing else: what idle clusters write by the thousand
	anyway   = 5 * time.Minute   // no change: the object may have been changed by somebody else
)

// pace is how long after the write of one report the next one may be written.
func pace(written, next druidv1alpha1.MemberReport) time.Duration {
	switch {
	case !equal(essence(written), essence(next)):
		return atOnce
	case !equal(words(written), words(next)):
		return soon
	case !equal(numbers(written), numbers(next)):
		return inAWhile
	case !equal(written, next):
		return still
	}
	return anyway
}

// numbers is a report without when there was nothing new.
func numbers(r druidv1alpha1.MemberReport) druidv1alpha1.MemberReport {
	if r.Snapshots != nil {
		s := *r.Snapshots
		s.NothingNew = nil
		r.Snapshots = &s
	}
	return r
}

// words is a report without its numbers too.
func words(r druidv1alpha1.MemberReport) druidv1alpha1.MemberReport {
	r = numbers(r)
	r.Revision, r.DBSize, r.DBSizeInUse = 0, nil, nil
	return r
}

// essence is a report without its messages too.
func essence(r druidv1alpha1.MemberReport) druidv1alpha1.MemberReport {
	r = words(r)
	r.Version = ""
	if r.Waiting != "" {
		r.Waiting = "for something"
	}
	if r.Snapshots != nil {
		s := druidv1alpha1.MemberSnapshots{LastFull: r.Snapshots.LastFull}
		if f := r.Snapshots.Failure; f != nil {
			s.Failure = &druidv1alpha1.SnapshotFailure{Reason: f.Reason}
		}
		if p := r.Snapshots.Proof; p != nil {
			s.Proof = &druidv1alpha1.SnapshotProof{Result: p.Result, Base: p.Base}
		}
		r.Snapshots = &s
	}
	if x := r.LastRestoration; x != nil {
		r.LastRestoration = &druidv1alpha1.Restoration{Type: x.Type, Status: x.Status, StartTime: x.StartTime}
	}
	if x := r.LastDefragmentation; x != nil {
		r.LastDefragmentation = &druidv1alpha1.Defragmentation{Status: x.Status, StartTime: x.StartTime}
	}
	all := make([]druidv1alpha1.MemberTransition, len(r.Transitions))
	for i, t := range r.Transitions {
		t.Message = ""
		all[i] = t
	}
	r.Transitions = all
	return r
}

// equal: a report is what it is as JSON, in which times have whole seconds.
func equal(a, b druidv1alpha1.MemberReport) bool { return text(a) == text(b) }

func text(r druidv1alpha1.MemberReport) string {
	b, err := json.Marshal(r)
	if err != nil {
		return err.Error() // there are no values in it that have no JSON
	}
	return string(b)
}
