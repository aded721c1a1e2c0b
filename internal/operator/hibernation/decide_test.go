package hibernation

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/backup/immutability"
)

var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func in(d time.Duration) *metav1.Time { t := metav1.NewTime(now.Add(d)); return &t }

func full(change ...func(*druidv1alpha1.FinalSnapshot)) *druidv1alpha1.FinalSnapshot {
	s := &druidv1alpha1.FinalSnapshot{Name: "Full-9", Store: "aws backups/main", Revision: 9, VerifiedAt: *in(-time.Minute), ProtectedUntil: in(96 * time.Hour)}
	for _, c := range change {
		c(s)
	}
	return s
}

func record(final *druidv1alpha1.FinalSnapshot, change ...func(*druidv1alpha1.HibernationStatus)) *druidv1alpha1.HibernationStatus {
	r := &druidv1alpha1.HibernationStatus{EtcdUID: "u", Generation: 5, FinalSnapshot: final}
	if final != nil {
		final.LookedAt, final.ReadAt = final.VerifiedAt.DeepCopy(), final.VerifiedAt.DeepCopy()
	}
	for _, c := range change {
		c(r)
	}
	return r
}

// closed is a member that refuses clients, at a revision.
func closed(name string, revision int64) Member {
	return Member{Name: name, Known: true, Revision: revision, Refuses: time.Minute, Left: 9 * time.Minute}
}

// falling is a cluster of three that is to stop, on a store that locks. Its members refuse clients.
func falling(change ...func(*Facts)) Facts {
	f := Facts{
		Now: now, UID: "u", Generation: 5, Replicas: 3, Pods: 3, Store: "aws backups/main", Locks: true, Keep: true, Claims: 3, Slept: 3, Revision: 9, Settle: 10 * time.Second,
		Members: []Member{closed("main-0", 9), closed("main-1", 9), closed("main-2", 9)},
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

func taken(change ...func(*druidv1alpha1.FinalSnapshot)) func(*Facts) {
	return func(f *Facts) {
		s := full(change...)
		f.Attempt = Attempt{Taken: s, Ended: s.VerifiedAt.Time}
	}
}

// began is after [taken].
func began(d time.Duration) func(*Facts) {
	return func(f *Facts) {
		f.Attempt.Began, f.Attempt.Ended, f.Attempt.Taken.VerifiedAt = now.Add(d), now.Add(-15*time.Second), *in(-15 * time.Second)
	}
}

func ended(ago time.Duration) func(*Facts) { return func(f *Facts) { f.Attempt.Ended = now.Add(-ago) } }
func repeated(f *Facts)                    { f.Attempt.Repeated = true }

func recorded(change ...func(*druidv1alpha1.HibernationStatus)) func(*Facts) {
	return func(f *Facts) { f.Record = record(full(), change...) }
}

func member(i int, change func(*Member)) func(*Facts) {
	return func(f *Facts) { change(&f.Members[i]) }
}
func left(d time.Duration) func(*Member)   { return func(m *Member) { m.Left = d } }
func serves(m *Member)                     { m.Refuses, m.Left = 0, 0 }
func early(m *Member)                      { m.Refuses = time.Second }
func closing(d time.Duration) func(*Facts) { return func(f *Facts) { f.ClosingSince = now.Add(-d) } }
func former(m *Member)                     { m.Refuses, m.Left, m.Cannot = 0, 0, "it is of a former version" }
func unprotected(f *Facts)                 { f.Unprotected = true }
func stopped(f *Facts)                     { f.Replicas, f.Pods, f.Members = 0, 0, nil }
func wanted(f *Facts)                      { f.Wanted = true }
func unlocked(f *Facts)                    { f.Locks = false }
func deletes(f *Facts)                     { f.Keep = false }
func generation(n int64) func(*Facts)      { return func(f *Facts) { f.Generation = n } }
func revision(i int, n int64) func(*Facts) { return func(f *Facts) { f.Members[i].Revision = n } }
func failed(ago time.Duration, spoilt string) func(*Facts) {
	return func(f *Facts) { f.Attempt = Attempt{Failed: "a hole at 7", Spoilt: spoilt, Ended: now.Add(-ago)} }
}
func until(d time.Duration) func(*druidv1alpha1.FinalSnapshot) {
	return func(s *druidv1alpha1.FinalSnapshot) { s.ProtectedUntil = in(d) }
}
func proven(d time.Duration) func(*druidv1alpha1.FinalSnapshot) {
	return func(s *druidv1alpha1.FinalSnapshot) { s.VerifiedAt = *in(d) }
}
func noLock(s *druidv1alpha1.FinalSnapshot)        { s.ProtectedUntil = nil }
func damaged(s *druidv1alpha1.FinalSnapshot)       { s.Damaged = "Full-9: a hole" }
func outdone(s *druidv1alpha1.FinalSnapshot)       { s.Newer = "Full-10, which goes to revision 9" }
func elsewhere(r *druidv1alpha1.HibernationStatus) { r.FinalSnapshot.Store = "aws former/main" }
func going(r *druidv1alpha1.HibernationStatus)     { r.VolumesGoSince = in(-time.Minute) }
func no(claims int) func(*Facts)                   { return func(f *Facts) { f.Claims = claims } }
func with(change ...func(*druidv1alpha1.FinalSnapshot)) func(*Facts) {
	return func(f *Facts) { f.Record = record(full(change...)) }
}
func awake(r *druidv1alpha1.HibernationStatus)  { r.AwakeSince = in(-time.Minute) }
func isHeld(r *druidv1alpha1.HibernationStatus) { r.FinalSnapshot.Held = true }
func mode(m immutability.Mode) func(*Facts)     { return func(f *Facts) { f.Mode = m } }
func isOf(m immutability.Mode) func(*Facts)     { return func(f *Facts) { f.Attempt.Mode = m } }
func newer(f *Facts)                            { f.NewFull = "Full-10" }

func TestMembersStopWhenEverythingTheyHaveIsInTheBucketAndProven(t *testing.T) {
	for phrase, c := range map[string]struct {
		seen   Facts
		reason string
		hold   string // in it; empty: the members stop
		take   string // the purpose; empty: none is taken
	}{
		"nothing is known":                {falling(), "TakingFinalSnapshot", "final full snapshot", "u/5"},
		"it is being taken":               {falling(func(f *Facts) { f.Attempt.Running = true }), "TakingFinalSnapshot", "being taken", ""},
		"it was just proven":              {falling(taken(proven(-time.Second))), "TakingFinalSnapshot", "some seconds after", ""},
		"it is good":                      {falling(taken()), "ScalingToZero", "", ""},
		"it is good, by the record alone": {falling(recorded()), "ScalingToZero", "", ""},
		"by the record, and a member served clients since":           {falling(recorded(), member(1, func(m *Member) { m.Refuses = 20 * time.Second })), "TakingFinalSnapshot", "main-1", "u/5/after-Full-9"},
		"the same, and no lock is asked for":                         {falling(unlocked, recorded(), member(1, func(m *Member) { m.Refuses = 20 * time.Second })), "TakingFinalSnapshot", "main-1", "u/5/after-Full-9"},
		"the same, and another one was taken":                        {falling(recorded(), taken(proven(-15*time.Second)), member(1, func(m *Member) { m.Refuses = 20 * time.Second })), "ScalingToZero", "", ""},
		"a member served clients since it was asked for":             {falling(taken(), began(-59*time.Second), member(1, func(m *Member) { m.Refuses = 50 * time.Second })), "TakingFinalSnapshot", "main-1", ""},
		"a member served clients, and that is allowed":               {falling(unprotected, taken(), began(-59*time.Second), member(1, func(m *Member) { m.Refuses = 50 * time.Second })), "ScalingToZero", "", ""},
		"one did again after another one":                            {falling(taken(), began(-59*time.Second), member(1, func(m *Member) { m.Refuses = 50 * time.Second }), ended(2*time.Minute)), "TakingFinalSnapshot", "main-1", "u/5/after-Full-9"},
		"one did again and again, and locks fill the bucket":         {falling(taken(), began(-59*time.Second), member(1, func(m *Member) { m.Refuses = 50 * time.Second }), ended(2*time.Minute), repeated), "TakingFinalSnapshot", "main-1", ""},
		"one did again, a while ago":                                 {falling(taken(), began(-59*time.Second), member(1, func(m *Member) { m.Refuses = 50 * time.Second }), ended(16*time.Minute), repeated), "TakingFinalSnapshot", "main-1", "u/5/after-Full-9"},
		"by the record, of an operator whose clock is ahead":         {falling(recorded(func(r *druidv1alpha1.HibernationStatus) { r.FinalSnapshot.VerifiedAt = *in(5 * time.Minute) })), "TakingFinalSnapshot", "main-0, main-1, main-2", "u/5/after-Full-9"},
		"a member did so before it was asked for":                    {falling(taken(), began(-59*time.Second)), "ScalingToZero", "", ""},
		"all refuse clients, one for a moment":                       {falling(member(1, func(m *Member) { m.Refuses = 9 * time.Second })), "ClosingToClients", "main-1", ""},
		"by the record, and a member cannot refuse":                  {falling(recorded(), member(1, former)), "ScalingToZero", "", ""},
		"it failed just now":                                         {falling(failed(30*time.Second, "")), "FinalSnapshotFailed", "a hole at 7", ""},
		"it failed a while ago":                                      {falling(failed(2*time.Minute, "")), "FinalSnapshotFailed", "a hole at 7", "u/5"},
		"it is corrupt":                                              {falling(failed(2*time.Minute, "Full-8")), "FinalSnapshotFailed", "a hole at 7", "u/5/after-Full-8"},
		"it has no lock":                                             {falling(taken(noLock)), "FinalSnapshotNoLock", "not known to be locked", ""},
		"it has no lock for a while":                                 {falling(taken(noLock, proven(-16*time.Minute))), "FinalSnapshotNoLock", "not known to be locked", "u/5/after-Full-9"},
		"its lock has ended, by a clock that is 30m late":            {falling(taken(until(30*time.Minute), proven(-16*time.Minute))), "FinalSnapshotNoLock", "too soon", "u/5/after-Full-9"},
		"its lock is weaker than was asked for":                      {falling(mode("compliance"), taken(), isOf("governance")), "FinalSnapshotNoLock", "of mode governance, and spec.backup.store.immutability.mode asks for compliance", ""},
		"the same, a while ago":                                      {falling(mode("compliance"), taken(proven(-16*time.Minute)), isOf("governance")), "FinalSnapshotNoLock", "mode governance", "u/5/after-Full-9"},
		"the same, and that is allowed":                              {falling(mode("compliance"), taken(), isOf("governance"), unprotected), "ScalingToZero", "", ""},
		"its lock is advisory":                                       {falling(mode("governance"), taken(), isOf("advisory")), "FinalSnapshotNoLock", "mode advisory", ""},
		"its lock is as strong":                                      {falling(mode("compliance"), taken(), isOf("compliance")), "ScalingToZero", "", ""},
		"its lock is stronger":                                       {falling(mode("governance"), taken(), isOf("compliance")), "ScalingToZero", "", ""},
		"its lock is weak, and the bucket says how strong":           {falling(taken(), isOf("governance")), "ScalingToZero", "", ""},
		"how strong its lock is is not told":                         {falling(mode("compliance"), taken()), "ScalingToZero", "", ""},
		"it was proven long ago":                                     {falling(taken(proven(-61 * time.Minute))), "TakingFinalSnapshot", "another proof", "u/5/after-Full-9"},
		"it was proven by a clock that was set back since, a little": {falling(taken(proven(20 * time.Minute))), "TakingFinalSnapshot", "some seconds after", ""},
		"it was proven by a clock that was set back since, a lot":    {falling(taken(proven(2*time.Hour)), func(f *Facts) { f.Attempt.Ended = now.Add(-time.Minute) }), "TakingFinalSnapshot", "another proof", "u/5/after-Full-9"},
		"etcd says that data differ":                                 {falling(taken(), func(f *Facts) { f.Differ = []string{"main-1"} }), "RevisionsNotKnown", "CORRUPT for main-1", ""},
		"sidecars write elsewhere":                                   {falling(taken(), func(f *Facts) { f.Elsewhere = []string{"main-1"} }), "StoreChanged", "those of main-1 do not yet", ""},
		"sidecars write elsewhere, and that is allowed":              {falling(taken(), func(f *Facts) { f.Elsewhere, f.Unprotected = []string{"main-1"}, true }), "ScalingToZero", "", ""},
		"the record is of another store":                             {falling(recorded(elsewhere)), "TakingFinalSnapshot", "final full snapshot", "u/5"},
		"allowed, by the record, and a member does not tell":         {falling(recorded(), func(f *Facts) { f.Unprotected, f.Members[1].Known = true, false }), "ScalingToZero", "", ""},
		"its lock is long enough for any clock":                      {falling(taken(until(31 * time.Minute))), "ScalingToZero", "", ""},
		"it is held":                                                 {falling(taken(func(s *druidv1alpha1.FinalSnapshot) { s.ProtectedUntil, s.Held = nil, true })), "ScalingToZero", "", ""},
		"no lock is asked for":                                       {falling(unlocked, taken(noLock)), "ScalingToZero", "", ""},
		"a member has more":                                          {falling(taken(), revision(1, 10)), "WritesAfterSnapshot", "main-1 at 10", "u/5/after-Full-9"},
		"a member has less":                                          {falling(taken(), revision(2, 8)), "RevisionsNotKnown", "main-2 at 8 to catch up", ""},
		"a member does not tell":                                     {falling(taken(), func(f *Facts) { f.Members[0].Known = false }), "RevisionsNotKnown", "main-0", ""},
		"no member is known":                                         {falling(taken(), func(f *Facts) { f.Members = nil }), "RevisionsNotKnown", "do not tell", ""},
		"the record is of an earlier hibernation":                    {falling(recorded(), generation(7)), "TakingFinalSnapshot", "final full snapshot", "u/7"},
		"the record is of another Etcd":                              {falling(recorded(func(r *druidv1alpha1.HibernationStatus) { r.EtcdUID = "other" })), "TakingFinalSnapshot", "final full snapshot", "u/5"},
		"the record is from before it woke up":                       {falling(recorded(awake)), "TakingFinalSnapshot", "final full snapshot", "u/5"},
		"without a store":                                            {falling(func(f *Facts) { f.Store, f.Locks = "", false }), "ScalingToZero", "", ""},
		"without data":                                               {falling(func(f *Facts) { f.Untouched = true }), "ScalingToZero", "", ""},
		"by annotation":                                              {falling(func(f *Facts) { f.Skip = "the annotation" }), "ScalingToZero", "", ""},
		"allowed, and not tried":                                     {falling(func(f *Facts) { f.Unprotected = true }), "TakingFinalSnapshot", "final full snapshot", "u/5"},
		"allowed, and they serve clients":                            {falling(unprotected, member(1, serves)), "ClosingToClients", "30s at most", ""},
		"allowed, and they have refused for a moment":                {falling(unprotected, closing(time.Second), member(1, early)), "ClosingToClients", "30s at most", ""},
		"allowed, and one does not refuse clients for a while":       {falling(unprotected, closing(30*time.Second), member(1, serves)), "TakingFinalSnapshot", "final full snapshot", "u/5"},
		"allowed, and being tried":                                   {falling(func(f *Facts) { f.Unprotected, f.Attempt.Running = true, true }), "TakingFinalSnapshot", "being taken", ""},
		"allowed, and failed":                                        {falling(failed(time.Second, ""), func(f *Facts) { f.Unprotected = true }), "ScalingToZero", "", ""},
		"allowed, and a member lags":                                 {falling(taken(), revision(2, 8), func(f *Facts) { f.Unprotected, f.Attempt.Ended = true, now.Add(-30*time.Second) }), "RevisionsNotKnown", "catch up", ""},
		"allowed, and a member lags for a while":                     {falling(taken(), revision(2, 8), func(f *Facts) { f.Unprotected = true }), "ScalingToZero", "", ""},
		"others depend on them":                                      {falling(taken(), func(f *Facts) { f.Shared = "those outside" }), "SharedWithOthers", "those outside", ""},
	} {
		s := Decide(c.seen)
		if s.Reason != c.reason || (s.Hold == "") != (c.hold == "") || !strings.Contains(s.Hold, c.hold) || s.Take != c.take {
			t.Errorf("%s: reason %s, hold %q, take %q; want %s, %q, %q", phrase, s.Reason, s.Hold, s.Take, c.reason, c.hold, c.take)
		}
		if !s.Closed || s.Asleep || s.DeleteClaims {
			t.Errorf("%s: closed to clients %t, asleep %t, volumes go %t", phrase, s.Closed, s.Asleep, s.DeleteClaims)
		}
		if s.Hold == "" && (s.Record == nil || s.Record.EtcdUID != "u" || s.Record.Generation != c.seen.Generation || s.Record.AwakeSince != nil) {
			t.Errorf("%s: the members stop with the record %+v", phrase, s.Record)
		}
		if s.Hold == "" && c.seen.Attempt.Taken != nil && strings.HasPrefix(phrase, "a member served clients, and that") && s.Record.FinalSnapshot != nil {
			t.Errorf("%s: what may lack users, roles and leases is recorded as the final one", phrase)
		}
		// Whoever decides anew from what was written, knowing nothing else, comes to the same.
		if s.Hold == "" && s.Record.FinalSnapshot != nil {
			again := c.seen
			again.Attempt, again.Record = Attempt{}, s.Record
			if r := Decide(again); r.Hold != "" || r.Take != "" {
				t.Errorf("%s: after a crash hold %q, take %q, want the members to stop", phrase, r.Hold, r.Take)
			}
		}
	}
}

// Whoever has a connection from before could write between the last look at the revisions and the end of the members.
func TestMembersRefuseClientsFromBeforeTheFinalSnapshotToTheirEnd(t *testing.T) {
	for phrase, c := range map[string]struct {
		seen   Facts
		reason string
		hold   string // in it; empty: the members stop
		take   bool
		refuse bool
		admit  bool
	}{
		"nobody refuses":                       {falling(member(0, serves), member(1, serves), member(2, serves)), "ClosingToClients", "main-0, main-1, main-2 to refuse clients", false, true, false},
		"one does not yet":                     {falling(member(1, serves)), "ClosingToClients", "main-1 to refuse clients", false, true, false},
		"all do":                               {falling(), "TakingFinalSnapshot", "final full snapshot", true, false, false},
		"one does not answer":                  {falling(member(1, serves), member(1, func(m *Member) { m.Known = false })), "TakingFinalSnapshot", "final full snapshot", true, false, false},
		"one was started anew, it is taken":    {falling(member(1, serves), func(f *Facts) { f.Attempt.Running = true }), "TakingFinalSnapshot", "being taken", false, true, false},
		"it lasts, and they are asked again":   {falling(member(1, left(RefuseAgain-1)), func(f *Facts) { f.Attempt.Running = true }), "TakingFinalSnapshot", "being taken", false, true, false},
		"it failed, and one serves again":      {falling(failed(2*time.Minute, ""), member(2, serves)), "ClosingToClients", "main-2", false, true, false},
		"it is good, and one serves again":     {falling(taken(), member(2, serves)), "ClosingToClients", "main-2 to refuse clients until", false, true, false},
		"it is good, and one soon will":        {falling(taken(), member(2, left(RefuseLeast-1))), "ClosingToClients", "main-2 to refuse clients until", false, true, false},
		"it is good, and there is time enough": {falling(taken(), member(2, left(RefuseLeast))), "ScalingToZero", "", false, true, false},
		"what is told may be from before":      {falling(taken(), member(2, func(m *Member) { m.Refuses = 9 * time.Second })), "ClosingToClients", "anew", false, false, false},
		"somebody wrote, and one serves again": {falling(taken(), revision(1, 10), member(1, serves)), "ClosingToClients", "main-1", false, true, false},
		"somebody wrote before":                {falling(taken(), revision(1, 10)), "WritesAfterSnapshot", "main-1 at 10", true, false, false},
		"one cannot":                           {falling(member(1, former)), "TakingFinalSnapshot", "final full snapshot", true, false, false},
		"one cannot, and it is good":           {falling(taken(), member(1, former)), "ScalingToZero", "", false, false, false},
		"none can, and it is good":             {falling(taken(), member(0, former), member(1, former), member(2, former)), "ScalingToZero", "", false, false, false},
		"allowed, and nobody refuses yet":      {falling(unprotected, member(0, serves), member(1, serves), member(2, serves)), "ClosingToClients", "30s at most", false, true, false},
		"allowed, and nobody refuses":          {falling(unprotected, closing(time.Minute), member(0, serves), member(1, serves), member(2, serves)), "TakingFinalSnapshot", "final full snapshot", true, true, false},
		"allowed, and one does not for long":   {falling(unprotected, taken(), member(1, serves)), "ScalingToZero", "", false, true, false},
		"skipped":                              {falling(member(1, serves), func(f *Facts) { f.Skip = "the annotation" }), "ScalingToZero", "", false, false, false},
		"without a store":                      {falling(member(1, serves), func(f *Facts) { f.Store, f.Locks = "", false }), "ScalingToZero", "", false, false, false},
		"sidecars write elsewhere":             {falling(refusing, func(f *Facts) { f.Elsewhere = []string{"main-1"} }), "StoreChanged", "those of main-1", false, false, true},
		"others depend on them":                {falling(refusing, func(f *Facts) { f.Shared = "those outside" }), "SharedWithOthers", "those outside", false, false, true},
	} {
		s := Decide(c.seen)
		if s.Reason != c.reason || (s.Hold == "") != (c.hold == "") || !strings.Contains(s.Hold, c.hold) || (s.Take != "") != c.take {
			t.Errorf("%s: reason %s, hold %q, take %q; want %s, %q, %t", phrase, s.Reason, s.Hold, s.Take, c.reason, c.hold, c.take)
		}
		if s.Refuse != c.refuse || s.Admit != c.admit {
			t.Errorf("%s: refuse %t, admit %t; want %t, %t", phrase, s.Refuse, s.Admit, c.refuse, c.admit)
		}
		if cannot := strings.Contains(phrase, "cannot") || strings.Contains(phrase, "none can"); strings.Contains(s.Message, "does not refuse clients (it is of a former version)") != cannot {
			t.Errorf("%s: the message is %q", phrase, s.Message)
		}
	}
}

func refusing(f *Facts) { f.Refusing = []string{"main-0", "main-2"} }

// Members that are wanted again serve clients as soon as somebody looks.
func TestMembersThatAreWantedAreAdmittedTo(t *testing.T) {
	for phrase, c := range map[string]struct {
		seen   Facts
		reason string
		admit  bool
	}{
		"nobody refuses":                       {falling(wanted), "", false},
		"hibernation is given up":              {falling(wanted, refusing), "WakingUp", true},
		"it is given up with the record there": {falling(wanted, refusing, recorded()), "WakingUp", true},
		"waking up":                            {falling(wanted, recorded(awake)), "WakingUp", false},
	} {
		if s := Decide(c.seen); s.Reason != c.reason || s.Admit != c.admit || s.Refuse || s.Hold != "" {
			t.Errorf("%s: %+v; want reason %q, admit %t", phrase, s, c.reason, c.admit)
		}
	}
}

// Pods that take their time to end do not serve clients meanwhile.
func TestMembersThatStopAreAskedToGoOnRefusing(t *testing.T) {
	stopping := func(f *Facts) { f.Replicas = 0 }
	for phrase, c := range map[string]struct {
		seen   Facts
		refuse bool
	}{
		"there is time enough":       {falling(stopping, recorded()), false},
		"one has little time left":   {falling(stopping, recorded(), member(1, left(time.Minute))), true},
		"one has ended":              {falling(stopping, recorded(), member(1, serves), member(1, func(m *Member) { m.Known = false })), false},
		"nothing was proven":         {falling(stopping, member(1, serves)), false},
		"the others cannot be asked": {falling(stopping, recorded(), member(1, former)), false},
	} {
		if s := Decide(c.seen); s.Reason != druidv1alpha1.ReasonScalingToZero || s.Refuse != c.refuse {
			t.Errorf("%s: %+v, want refuse %t", phrase, s, c.refuse)
		}
	}
}

func TestWithoutAProofNothingIsRecordedAsProven(t *testing.T) {
	for phrase, f := range map[string]Facts{
		"skipped":            falling(recorded(), generation(7), func(f *Facts) { f.Skip = "somebody" }),
		"allowed and failed": falling(recorded(), generation(7), failed(time.Second, ""), func(f *Facts) { f.Unprotected = true }),
	} {
		s := Decide(f)
		if s.Hold != "" || s.Record.FinalSnapshot != nil {
			t.Fatalf("%s: hold %q, record %+v; want the members to stop without a snapshot", phrase, s.Hold, s.Record)
		}
		stopped(&f)
		deletes(&f)
		f.Record = s.Record
		if s = Decide(f); s.DeleteClaims || !s.Asleep || s.Reason != druidv1alpha1.ReasonHibernatedUnproven {
			t.Errorf("%s, asleep: %+v; want the volumes to stay", phrase, s)
		}
	}
}

func TestVolumesGoOnlyWhenAProvenSnapshotHasEverything(t *testing.T) {
	for phrase, c := range map[string]struct {
		seen    Facts
		reason  string
		deletes bool
	}{
		"they stay by default":                                     {falling(stopped, recorded()), "Hibernated", false},
		"they go":                                                  {falling(stopped, deletes, recorded()), "DeletingVolumes", true},
		"they go, wanted later":                                    {falling(stopped, deletes, recorded(), generation(6)), "DeletingVolumes", true},
		"they are gone":                                            {falling(stopped, deletes, recorded(), func(f *Facts) { f.Claims = 0 }), "Hibernated", false},
		"it is damaged":                                            {falling(stopped, deletes, with(damaged)), "HibernatedUnproven", false},
		"something newer is there":                                 {falling(stopped, deletes, with(outdone)), "HibernatedUnproven", false},
		"too few told the hash of their data":                      {falling(stopped, deletes, with(func(s *druidv1alpha1.FinalSnapshot) { s.Suspect = "no majority" })), "HibernatedUnproven", false},
		"a member told of it alone":                                {falling(stopped, deletes, recorded(), unread), "DeletingVolumes", false},
		"the same, and nothing is locked":                          {falling(stopped, deletes, unlocked, recorded(), unread), "DeletingVolumes", true},
		"the same, some have gone":                                 {falling(stopped, deletes, recorded(going), unread, no(1)), "DeletingVolumes", false},
		"the same, some have gone, and members are wanted":         {falling(stopped, deletes, recorded(going), unread, no(1), wanted), "DeletingVolumes", false},
		"the same, and an unproven sleep is allowed":               {falling(stopped, deletes, recorded(going), unread, no(1), unprotected), "DeletingVolumes", true},
		"an unproven sleep is allowed":                             {falling(stopped, deletes, recorded(), unprotected), "Hibernated", false},
		"it is damaged, and they are gone":                         {falling(stopped, deletes, with(damaged), no(0)), "HibernatedUnproven", false},
		"its lock has ended":                                       {falling(stopped, deletes, with(until(-time.Hour))), "Hibernated", false},
		"its lock has ended, and nobody has read it":               {falling(stopped, deletes, with(until(-time.Hour)), unread), "DeletingVolumes", false},
		"its lock ends by some clocks":                             {falling(stopped, deletes, with(until(Clocks))), "Hibernated", false},
		"its lock is not known":                                    {falling(stopped, deletes, with(noLock)), "Hibernated", false},
		"locks were asked for, and nobody has read or looked":      {falling(stopped, deletes, unlocked, with(proven(-24*time.Hour)), unread), "Hibernated", false},
		"the same, and a run has read it":                          {falling(stopped, deletes, unlocked, with(proven(-24*time.Hour))), "DeletingVolumes", true},
		"the same, unread, and they were going":                    {falling(stopped, deletes, unlocked, with(proven(-24*time.Hour)), unread, recordedGoing, no(1)), "DeletingVolumes", true},
		"unlocked, proven just now":                                {falling(stopped, deletes, unlocked, with(noLock)), "DeletingVolumes", true},
		"unlocked, proven long ago":                                {falling(stopped, deletes, unlocked, with(noLock, proven(-ProofLasts-time.Second))), "Hibernated", false},
		"locked, proven long ago":                                  {falling(stopped, deletes, with(proven(-24*time.Hour))), "DeletingVolumes", true},
		"it is in another store":                                   {falling(stopped, deletes, recorded(elsewhere)), "StoreChanged", false},
		"some have gone, and now they are to stay":                 {falling(stopped, recorded(going), no(1)), "DeletingVolumes", true},
		"some have gone, and members are wanted":                   {falling(stopped, recorded(going), no(1), wanted), "DeletingVolumes", true},
		"they were to go, and now they are to stay":                {falling(stopped, recorded(going)), "Hibernated", false},
		"one has gone, and now they are to stay":                   {falling(stopped, recorded(going), no(2)), "Hibernated", false},
		"two are going, and now they are to stay":                  {falling(stopped, recorded(going), func(f *Facts) { f.Going = 2 }), "DeletingVolumes", true},
		"they were to go, and the lock has ended":                  {falling(stopped, deletes, recorded(going), expired), "Hibernated", false},
		"the same, and members are wanted":                         {falling(stopped, deletes, recorded(going), expired, wanted), "WakingUp", false},
		"they were to go, unlocked, proven long ago":               {falling(stopped, deletes, unlocked, recorded(going), longAgo), "Hibernated", false},
		"some have gone, unlocked, proven long ago":                {falling(stopped, deletes, unlocked, recorded(going), longAgo, no(1)), "HibernatedUnproven", false},
		"some have gone, and the lock has ended":                   {falling(stopped, deletes, recorded(going), expired, no(1)), "HibernatedUnproven", false},
		"some have gone, and it is damaged":                        {falling(stopped, deletes, with(damaged), recordedGoing, no(1)), "HibernatedUnproven", false},
		"the same, and members are wanted, which a person decides": {falling(stopped, deletes, with(damaged), recordedGoing, no(1), wanted), "DeletingVolumes", false},
		"the same, members are wanted, accepted":                   {falling(stopped, deletes, with(damaged), recordedGoing, no(1), wanted, unprotected), "DeletingVolumes", true},
		"the same, and that is accepted":                           {falling(stopped, deletes, recorded(going), expired, no(1), unprotected), "DeletingVolumes", true},
		"the same, members are wanted, and that is accepted":       {falling(stopped, deletes, recorded(going), expired, no(1), unprotected, wanted), "DeletingVolumes", true},
		"some have gone, it is elsewhere, and that is accepted":    {falling(stopped, deletes, recorded(going, elsewhere), no(1), unprotected), "DeletingVolumes", true},
		"elsewhere, accepted, and members are wanted again":        {falling(stopped, deletes, recorded(going, elsewhere), no(1), unprotected, wanted), "DeletingVolumes", true},
		"none has gone, it is elsewhere, and that is accepted":     {falling(stopped, deletes, recorded(elsewhere), unprotected), "StoreChanged", false},
		"some have gone, a member had more, and that is accepted":  {falling(stopped, deletes, recorded(going), no(1), more, unprotected), "DeletingVolumes", true},
		"a member had more, and they stay by default":              {falling(stopped, recorded(), more), "Hibernated", false},
		"pods end first":                                           {falling(stopped, deletes, recorded(), func(f *Facts) { f.Pods = 1 }), "ScalingToZero", false},
		"nothing is recorded":                                      {falling(stopped, deletes), "HibernatedUnproven", false},
		"the record is of another Etcd":                            {falling(stopped, deletes, recorded(func(r *druidv1alpha1.HibernationStatus) { r.EtcdUID = "other" })), "HibernatedUnproven", false},
		"it was to wake up since":                                  {falling(stopped, deletes, recorded(awake)), "HibernatedUnproven", false},
		"a member had more":                                        {falling(stopped, deletes, recorded(), more), "Hibernated", false},
		"there is no store any more":                               {falling(stopped, deletes, recorded(), func(f *Facts) { f.Store = "" }), "Hibernated", false},
		"members are wanted":                                       {falling(stopped, deletes, recorded(), wanted), "WakingUp", false},
		"never began":                                              {falling(stopped, deletes, func(f *Facts) { f.Untouched = true }), "Hibernated", false},
	} {
		s := Decide(c.seen)
		if s.Reason != c.reason || s.DeleteClaims != c.deletes {
			t.Errorf("%s: reason %s, volumes go %t; want %s, %t", phrase, s.Reason, s.DeleteClaims, c.reason, c.deletes)
		}
		if c.seen.Keep == strings.Contains(s.Message, "volumes is Delete") && (c.seen.Keep || strings.HasPrefix(phrase, "a member had more")) {
			t.Errorf("%s: it is said that %s", phrase, s.Message)
		}
		if strings.Contains(phrase, "elsewhere") == strings.Contains(s.Message, "wakes the cluster") && c.deletes {
			t.Errorf("%s: it is said that %s", phrase, s.Message)
		}
		if c.deletes && (s.Record == nil || s.Record.VolumesGoSince == nil || c.seen.Wanted && s.Hold == "") {
			t.Errorf("%s: volumes go, the record is %+v, and members are held by %q", phrase, s.Record, s.Hold)
		}
	}
}

// Restored from the bucket they would lack what is on the volume, and with it alone there is no cluster.
func TestWithTooFewVolumesAndNoProofSomebodyDecides(t *testing.T) {
	s := Decide(falling(stopped, deletes, recorded(going), expired, no(1), wanted))
	if s.DeleteClaims || s.Reason != druidv1alpha1.ReasonDeletingVolumes || !strings.Contains(s.Hold, "volumes that are left: 1 of 3") || !strings.Contains(s.Hold, "and Full-9 is not known to be locked any more") {
		t.Errorf("%+v, want members to be held and nothing to go", s)
	}
}

// Whoever waits for volumes to go is told why they do not.
func TestItIsSaidWhyNobodyReadsTheFinalSnapshot(t *testing.T) {
	for why, want := range map[string]string{"": "a run of the extension does within minutes", "it has no credentials": "no run of the extension does: it has no credentials"} {
		s := Decide(falling(stopped, deletes, recorded(), unread, func(f *Facts) { f.Unread = why }))
		if s.Asleep || s.DeleteClaims || !strings.Contains(s.Message, want) {
			t.Errorf("%q: %+v", why, s)
		}
	}
}

func recordedGoing(f *Facts) { going(f.Record) }

func expired(f *Facts) { f.Record.FinalSnapshot.ProtectedUntil = in(-time.Hour) }

// longAgo: nothing locks it, and it was looked at ten days ago.
func longAgo(f *Facts) {
	f.Record.FinalSnapshot.ProtectedUntil, f.Record.FinalSnapshot.VerifiedAt, f.Record.FinalSnapshot.LookedAt = nil, *in(-240 * time.Hour), nil
}

// unread: that it can be restored a member told alone.
func unread(f *Facts) { f.Record.FinalSnapshot.ReadAt = nil }

func kept(f *Facts)     { f.Kept = true }
func nowhere(f *Facts)  { f.Store = "" }
func more(f *Facts)     { f.Revision = 10 }
func unproven(f *Facts) { f.Unprotected = true }

func holds(r *druidv1alpha1.HibernationStatus) { r.HoldsLeft = true }

// The volumes of a first sleep went, and others were made. They wake the cluster from another sleep without a store.
func TestVolumesThatWereMadeSinceWakeTheClusterFromAnotherSleep(t *testing.T) {
	again := Decide(falling(unlocked, recorded(awake, elsewhere, going), kept, nowhere, generation(7)))
	f := falling(stopped, wanted, unlocked, kept, nowhere, generation(8), func(f *Facts) { f.Record = again.Record })
	if s := Decide(f); s.Hold != "" {
		t.Errorf("with %d volumes: %s", f.Claims, s.Hold)
	}
}

// What an extension holds is released when the cluster is awake and a member has taken a full. The cluster may sleep again before.
func TestWhatIsHeldIsRememberedUntilItIsReleased(t *testing.T) {
	for phrase, c := range map[string]struct {
		seen Facts
		want bool
	}{
		"nothing was held":                 {falling(taken(), recorded(awake), generation(7)), false},
		"the former one was":               {falling(taken(), recorded(awake, isHeld), generation(7)), true},
		"one before that was":              {falling(taken(), recorded(awake, holds), generation(7)), true},
		"it was, and no proof is wanted":   {falling(recorded(isHeld), generation(7), func(f *Facts) { f.Skip = "somebody" }), true},
		"it was, and a member took a full": {falling(taken(), recorded(awake, isHeld, func(r *druidv1alpha1.HibernationStatus) { r.NewFull = "Full-10" }), generation(7)), true},
	} {
		s := Decide(c.seen)
		if s.Hold != "" || s.Record == nil || s.Record.HoldsLeft != c.want {
			t.Errorf("%s: hold %q, record %+v; want that something is held: %t", phrase, s.Hold, s.Record, c.want)
		}
	}
}

func TestProtectionGoesOnUntilThereIsSomethingNewer(t *testing.T) {
	for phrase, c := range map[string]struct {
		seen   Facts
		reason string
		extend bool
		record bool
	}{
		"asleep":                                            {falling(stopped, recorded()), "Hibernated", true, true},
		"asleep, without locks":                             {falling(stopped, unlocked, recorded()), "Hibernated", false, true},
		"asleep, and the store is another one":              {falling(stopped, recorded(elsewhere)), "StoreChanged", true, true},
		"the same, of another that locks nothing":           {falling(stopped, unlocked, recorded(elsewhere)), "StoreChanged", false, true},
		"the same, and the former is kept locked":           {falling(stopped, unlocked, recorded(elsewhere), kept), "StoreChanged", true, true},
		"there is no store, and it is kept locked":          {falling(stopped, unlocked, recorded(), kept, nowhere), "StoreChanged", true, true},
		"to wake up from volumes, and it is kept":           {falling(stopped, unlocked, wanted, recorded(elsewhere), kept), "WakingUp", true, true},
		"to wake up":                                        {falling(stopped, wanted, recorded()), "WakingUp", true, true},
		"waking up":                                         {falling(wanted, recorded(awake)), "WakingUp", true, true},
		"a new full is there":                               {falling(wanted, recorded(awake), newer), "", false, false},
		"a new full is there, the former is held":           {falling(wanted, recorded(awake, isHeld), newer), "", true, true},
		"it was released":                                   {falling(wanted, recorded(awake), newer), "", false, false},
		"it is held, and nothing is newer":                  {falling(wanted, recorded(awake, isHeld)), "WakingUp", true, true},
		"it is held, and no lock is asked for":              {falling(wanted, unlocked, recorded(awake, isHeld), newer), "", true, true},
		"the same, and nothing is newer":                    {falling(wanted, unlocked, recorded(awake, isHeld)), "WakingUp", false, true},
		"the same, in another store":                        {falling(wanted, unlocked, recorded(awake, isHeld, elsewhere), newer), "", false, false},
		"waking up without a store, and it is kept":         {falling(wanted, unlocked, recorded(awake, elsewhere), kept, nowhere), "WakingUp", true, true},
		"the same, and that is given up":                    {falling(wanted, unlocked, recorded(awake, elsewhere), kept, nowhere, unproven), "", false, false},
		"waking up without a store, and not kept":           {falling(wanted, unlocked, recorded(awake), nowhere), "", false, false},
		"to sleep again before it is released":              {falling(recorded(awake, isHeld), generation(7)), "TakingFinalSnapshot", true, true},
		"to sleep again without a store, and it is kept":    {falling(unlocked, recorded(awake, elsewhere), kept, nowhere, generation(7)), "ScalingToZero", true, true},
		"the same, and it sleeps":                           {falling(stopped, unlocked, recorded(awake, elsewhere), kept, nowhere), "HibernatedUnproven", true, true},
		"the same, and that is given up again":              {falling(unlocked, recorded(awake, elsewhere), kept, nowhere, generation(7), unproven), "ScalingToZero", false, true},
		"to sleep again without a proof":                    {falling(recorded(awake), generation(7), func(f *Facts) { f.Skip = "somebody" }), "ScalingToZero", true, true},
		"a new full is there, the former is held elsewhere": {falling(wanted, unlocked, recorded(awake, elsewhere, isHeld), kept, newer), "", false, false},
		"a new full is there, holds are left of before":     {falling(wanted, recorded(awake, holds), newer), "", true, true},
		"the same, and it slept without a final":            {falling(wanted, func(f *Facts) { f.Record = record(nil, awake, holds) }, newer), "", true, true},
		"awake":                                             {falling(wanted), "", false, false},
		"awake, with the record of another Etcd":            {falling(wanted, recorded(func(r *druidv1alpha1.HibernationStatus) { r.EtcdUID = "other" })), "", false, false},
		"to sleep again before a new full":                  {falling(recorded(awake), generation(7)), "TakingFinalSnapshot", true, true},
	} {
		s := Decide(c.seen)
		if s.Reason != c.reason || s.Extend != c.extend || (s.Record != nil) != c.record {
			t.Errorf("%s: reason %q, extended %t, record %+v; want %q, %t, %t", phrase, s.Reason, s.Extend, s.Record, c.reason, c.extend, c.record)
		}
		if c.seen.Wanted && s.Record != nil && s.Record.AwakeSince == nil {
			t.Errorf("%s: the record does not say that the cluster wakes up", phrase)
		}
		if s.Record != nil && s.Record.NewFull != c.seen.NewFull {
			t.Errorf("%s: the record says that the new full is %q, want %q", phrase, s.Record.NewFull, c.seen.NewFull)
		}
	}
}

// Members that have neither volumes nor the final snapshot would begin with nothing.
func TestNobodyWakesUpEmpty(t *testing.T) {
	for phrase, c := range map[string]struct {
		seen Facts
		hold string // in it; empty: the members start
	}{
		"from volumes and bucket":                 {falling(stopped, wanted, recorded()), ""},
		"from the bucket":                         {falling(stopped, wanted, recorded(), no(0)), ""},
		"from volumes, and the store is another":  {falling(stopped, wanted, recorded(elsewhere)), ""},
		"the store is another":                    {falling(stopped, wanted, recorded(elsewhere), no(0)), "is in aws former/main, and the specification names aws backups/main"},
		"the store is another, some volumes went": {falling(stopped, wanted, recorded(elsewhere, going), no(1)), "the specification names aws backups/main"},
		"the store is another, the members start": {falling(stopped, wanted, recorded(elsewhere, awake), no(0)), "the specification names aws backups/main"},
		"there is no store":                       {falling(stopped, wanted, recorded(), no(0), func(f *Facts) { f.Store = "" }), "the specification names no store"},
		"it is damaged, some volumes went":        {falling(stopped, wanted, recorded(going, func(r *druidv1alpha1.HibernationStatus) { damaged(r.FinalSnapshot) }), no(2)), ""},
		"volumes are left, and members start":     {falling(stopped, wanted, recorded(going, awake), no(2)), ""},
	} {
		s := Decide(c.seen)
		if (s.Hold == "") != (c.hold == "") || !strings.Contains(s.Hold, c.hold) || s.DeleteClaims {
			t.Errorf("%s: hold %q, volumes go %t; want %q", phrase, s.Hold, s.DeleteClaims, c.hold)
		}
	}
}

// What is locked cannot be removed, so a bucket is not filled with it.
func TestSnapshotsWithoutAGoodLockAreTakenRarely(t *testing.T) {
	for phrase, lock := range map[string]time.Duration{"no lock": 0, "a lock of ten minutes": 10 * time.Minute} {
		f := falling(taken())
		fulls := 0
		for range 24 * 60 {
			f.Attempt.Taken.ProtectedUntil = nil
			if lock > 0 {
				f.Attempt.Taken.ProtectedUntil = in(f.Attempt.Ended.Add(lock).Sub(now))
			}
			f.Now = f.Now.Add(time.Minute)
			if s := Decide(f); s.Take != "" {
				fulls++
				f.Attempt.Ended, f.Attempt.Taken.VerifiedAt = f.Now, *in(f.Now.Sub(now))
			}
		}
		if fulls < 24 || fulls > 100 {
			t.Errorf("%s: %d fulls in a day", phrase, fulls)
		}
	}
}
