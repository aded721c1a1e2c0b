package cluster

import (
	"testing"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// The record stays with the store of before until a member with the newest template took a full in the present one.
func TestTheLastBackupIsWhereItWasTaken(t *testing.T) {
	const first, second = "Full-00000000-00000900-1763000000.zst", "Full-00000000-00000950-1763000100.zst"
	took := func(name string, end int64, taken bool) func(*Observed) {
		return func(o *Observed) {
			for i := range o.Members {
				if s := o.Members[i].Status.Snapshots; s != nil {
					s.LastFull.Name, s.LastFull.EndRevision, s.LastFull.Taken = name, end, taken
				}
			}
		}
	}
	recorded := func(store, name string, revision int64) func(*Observed) {
		return func(o *Observed) {
			o.Etcd.Status.LastBackup = &druidv1alpha1.LastBackup{Store: store, Name: name, Revision: revision}
		}
	}
	everyPod := func(checksum string) func(*Observed) {
		return func(o *Observed) {
			for _, p := range o.Pods {
				p.Annotations[druidv1alpha1.AnnotationBackupChecksum] = checksum
			}
		}
	}
	here := storeOf(running(t, 3).Etcd)
	for phrase, c := range map[string]struct {
		seen []func(*Observed)
		want *druidv1alpha1.LastBackup
	}{
		"none yet":                             {[]func(*Observed){took(first, 900, false)}, nil},
		"the first one":                        {[]func(*Observed){took(first, 900, true)}, &druidv1alpha1.LastBackup{Store: here, Name: first, Revision: 900}},
		"another one":                          {[]func(*Observed){took(second, 950, true), recorded(here, first, 900)}, &druidv1alpha1.LastBackup{Store: here, Name: second, Revision: 950}},
		"one was only found in the new store":  {[]func(*Observed){took(second, 950, false), recorded("before", first, 900)}, &druidv1alpha1.LastBackup{Store: "before", Name: first, Revision: 900}},
		"one was taken in the new store":       {[]func(*Observed){took(second, 950, true), recorded("before", first, 900)}, &druidv1alpha1.LastBackup{Store: here, Name: second, Revision: 950}},
		"what is told is still of the old one": {[]func(*Observed){took(first, 900, true), recorded("before", first, 900)}, &druidv1alpha1.LastBackup{Store: "before", Name: first, Revision: 900}},
		"the pods still write to the old one":  {[]func(*Observed){took(second, 950, true), recorded("before", first, 900), everyPod("former")}, &druidv1alpha1.LastBackup{Store: "before", Name: second, Revision: 950}},
		"they do, and nothing is known of it":  {[]func(*Observed){took(second, 950, true), everyPod("former")}, nil},
		"the pods do not tell":                 {[]func(*Observed){took(second, 950, true), recorded("before", first, 900), everyPod("")}, &druidv1alpha1.LastBackup{Store: "before", Name: first, Revision: 900}},
		"all pods are gone":                    {[]func(*Observed){took(second, 950, true), recorded("before", first, 900), func(o *Observed) { o.Pods = nil }}, &druidv1alpha1.LastBackup{Store: "before", Name: first, Revision: 900}},
		"what was taken has no name":           {[]func(*Observed){took("Full", 950, true), recorded("before", first, 900)}, &druidv1alpha1.LastBackup{Store: "before", Name: first, Revision: 900}},
	} {
		got := lastBackup(running(t, 3, c.seen...))
		if got == nil != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: %+v, want %+v", phrase, got, c.want)
		}
	}
}

// Members without data begin neither from less than another store held nor, where there were backups, from nothing.
func TestWhatTheBackupsMustHold(t *testing.T) {
	here, yes := storeOf(newEtcd(3)), true
	unprotected := func(e *druidv1alpha1.Etcd) {
		e.Spec.Hibernation = &druidv1alpha1.HibernationSpec{AllowUnprotected: &yes}
	}
	accepted := func(e *druidv1alpha1.Etcd) {
		e.Annotations = map[string]string{druidv1alpha1.AnnotationTakeOverBackups: "true"}
	}
	for phrase, c := range map[string]struct {
		store  string // of the last backup; empty: there is none
		change func(*druidv1alpha1.Etcd)
		want   int64
	}{
		"no member took one":                 {"", nil, 0},
		"it is here":                         {here, nil, 1},
		"it is elsewhere":                    {"before", nil, 900},
		"here, and nothing is accepted":      {here, accepted, 0},
		"elsewhere, and that is accepted":    {"before", accepted, 0},
		"here, and sleep is not protected":   {here, unprotected, 0},
		"elsewhere, and sleep is not either": {"before", unprotected, 0},
	} {
		e := newEtcd(3)
		if c.store != "" {
			e.Status.LastBackup = &druidv1alpha1.LastBackup{Store: c.store, Name: "Full-00000000-00000900-1763000000.zst", Revision: 900}
		}
		if c.change != nil {
			c.change(e)
		}
		if got := heldBefore(e); got != c.want {
			t.Errorf("%s: %d, want %d", phrase, got, c.want)
		}
	}
}
