package immutability

import (
	"fmt"
	"slices"
	"time"
)

// MinExtensionGrowth is the least that one of a fixed number of extensions must gain, as a part
// of the period: five careless ones of a day each would leave a container that can never be
// lengthened again.
const MinExtensionGrowth = 0.10

// BucketStepKind is what a step does.
type BucketStepKind string

// The kinds of steps. Each can be done again, and the plan made anew after any of them, done or
// broken off, ends in the same bucket.
const (
	BucketCreate     BucketStepKind = "create"            // with ObjectLock, and with Period where the provider can
	BucketVersions   BucketStepKind = "keep-versions"     // of what is overwritten
	BucketSuspend    BucketStepKind = "suspend-versions"  // never planned: takes back BucketVersions where the locks that it was for are refused
	BucketObjectLock BucketStepKind = "allow-locks"       // of single objects
	BucketPolicy     BucketStepKind = "set-policy"        // to Mode and Period, both at least what they are
	BucketExtend     BucketStepKind = "extend-policy"     // a locked one, to Period
	BucketLock       BucketStepKind = "lock-policy"       // for ever, if its period is Period
	BucketLengthen   BucketStepKind = "lengthen-versions" // locks of what is there to creation + Period, in Mode
	BucketUploads    BucketStepKind = "abort-uploads"     // adds a lifecycle rule to those that are there
	BucketLift       BucketStepKind = "lift-guard"        // for the steps until the guard is added again
	BucketGuard      BucketStepKind = "add-guard"         // to the bucket's policy
)

// BucketStep is one change of a bucket.
type BucketStep struct {
	Do         BucketStepKind `json:"do"`
	Mode       Mode           `json:"mode,omitempty"`
	Period     Period         `json:"retentionPeriod,omitempty"`
	ObjectLock bool           `json:"objectLock,omitempty"`
	Guard      Guard          `json:"guard,omitempty"`
	// Optional: that a server has no such thing is said, and is no failure.
	Optional bool `json:"optional,omitempty"`
	// Irreversible: nobody can undo it.
	Irreversible bool   `json:"irreversible,omitempty"`
	Text         string `json:"text"` // for people
}

// BucketPlan is what makes a bucket what it shall be, in this order.
type BucketPlan struct {
	Steps []BucketStep `json:"steps"`
	// Level is the protection without a lock of its own once all is done.
	Level Mode     `json:"level"`
	Notes []string `json:"notes,omitempty"` // sentences for people
}

// Done reports whether the bucket is what it shall be already, apart from what a server may not
// have and from locks of single versions, which only looking at each can tell.
func (p BucketPlan) Done() bool {
	return !slices.ContainsFunc(p.Steps, func(s BucketStep) bool { return !s.Optional && s.Do != BucketLengthen })
}

// BucketRefusal says why a bucket is not made what was asked for.
type BucketRefusal struct {
	// Impossible: no bucket of the provider can be that; else this bucket cannot, or would lose protection.
	Impossible bool
	Reason     string
	Remedy     string
	// Spends: BucketWish.SpendExtension would allow it.
	Spends bool
}

func (r *BucketRefusal) Error() string {
	if r.Remedy == "" {
		return r.Reason
	}
	return r.Reason + "; " + r.Remedy
}

func impossible(remedy, format string, args ...any) *BucketRefusal {
	return &BucketRefusal{Impossible: true, Reason: fmt.Sprintf(format, args...), Remedy: remedy}
}

func refused(remedy, format string, args ...any) *BucketRefusal {
	return &BucketRefusal{Reason: fmt.Sprintf(format, args...), Remedy: remedy}
}

// Complete fills in the mode that a wish means, and refuses with a *BucketRefusal what no bucket of the provider can be: for
// that no bucket has to be read.
func (w BucketWish) Complete(r BucketRules) (BucketWish, error) {
	if w.Mode == "" && w.locks() {
		w.Mode = ModeCompliance
	}
	if why := w.impossible(r); why != nil {
		return w, why
	}
	return w, nil
}

// PlanBucket says what makes b what w asks for, or refuses with a *BucketRefusal. It only ever adds
// protection: a period is never shortened, a mode never weakened, a lock never lifted.
func PlanBucket(b Bucket, w BucketWish, r BucketRules) (BucketPlan, error) {
	w, err := w.Complete(r)
	if err != nil {
		return BucketPlan{}, err
	}
	if why := b.refuses(w, r); why != nil {
		return BucketPlan{}, why
	}
	p := &bucketPlanner{b: b, w: w, r: r}
	p.make()
	p.guards()
	return p.BucketPlan, nil
}

// impossible is about the wish alone.
func (w BucketWish) impossible(r BucketRules) *BucketRefusal {
	const leave = "leave out the retention, and the bucket is made without protection; or use another store"
	for _, g := range w.Guards {
		if !slices.Contains(r.Guards, g) {
			return impossible("leave it out", "the statement %q cannot be had of %s, whose buckets have no such policies", g, r.Provider)
		}
	}
	if w.Period == 0 {
		if w.Type != "" || w.Mode != "" || w.Locked != nil {
			return impossible("give it, for example 96h", "retention is asked for without a period")
		}
		return nil
	}
	d := w.Period.Duration()
	longest := min(r.Max, MaxPeriod)
	switch {
	case r.None != "":
		return impossible(leave, "%s", r.None)
	case w.Type != ByBucket && w.Type != ByObject:
		return impossible("use one of them", "the retention type %q is neither %s nor %s", w.Type, ByBucket, ByObject)
	case w.Type == ByBucket && r.NoDefault != "":
		return impossible("", "%s", r.NoDefault)
	case w.Type == ByObject && r.NoObjects != "":
		return impossible("", "%s", r.NoObjects)
	case d < r.Min:
		return impossible(fmt.Sprintf("ask for %s or more", Period(r.Min)), "a period of %s is %s less than the shortest of %s, %s", w.Period, Period(r.Min-d), r.Provider, Period(r.Min))
	case d > longest && longest < r.Max:
		return impossible("", "a period of %s is more than %s, the longest that this program sets: a lock cannot be shortened, so a slip of the pen would be paid for until it ends", w.Period, Period(longest))
	case d > longest:
		return impossible("", "a period of %s is more than the longest of %s, %s", w.Period, r.Provider, Period(longest))
	case d%r.Unit != 0:
		whole := d - d%r.Unit
		return impossible("", "a period of %s is not a multiple of %s, which is what %s counts in: ask for %s or %s", w.Period, Period(r.Unit), r.Provider, Period(max(whole, r.Min)), Period(whole+r.Unit))
	case w.Mode == "" && r.Lapses > 0:
		return impossible(giveLocked, "%s", r.lapse())
	case w.Mode == "":
		return impossible("give --retention-mode=governance (privileged identities can lift a lock) or --retention-mode=compliance (nobody can)", "retention is asked for without a mode")
	case w.Mode != ModeGovernance && w.Mode != ModeCompliance:
		return impossible("say which", "the mode %q is neither %s (privileged identities can lift a lock) nor %s (nobody can)", string(w.Mode), ModeGovernance, ModeCompliance)
	case w.locks() && w.Mode == ModeGovernance:
		return impossible("ask for compliance, or leave locked out", "what is locked can be lifted by nobody, which is compliance and not governance")
	case w.Type == ByObject && w.Locked != nil:
		return impossible("leave locked out: the mode says whether the lock of an object can be lifted", "only the policy of a bucket is locked, and with the retention type object there is none")
	case r.Lapses > 0 && w.unlocks():
		return impossible(giveLocked, "%s", r.lapse())
	}
	return nil
}

const giveLocked = "give --locked"

func (r BucketRules) lapse() string {
	return fmt.Sprintf("a policy of %s that is not locked ends by itself after %s: only a locked one, which nobody can undo, protects anything", r.Provider, time.Duration(r.Lapses))
}

// refuses is about this bucket.
func (b Bucket) refuses(w BucketWish, r BucketRules) *BucketRefusal {
	if b.Owner != "" {
		return refused("choose another name, or ask with credentials of its owner", "the bucket belongs to %s and not to whoever these credentials are of", b.Owner)
	}
	for _, g := range w.Guards {
		if why := b.NoGuards[g]; why != "" {
			return impossible("leave it out", "the statement %q cannot be had: %s", g, why)
		}
	}
	d, have := w.Period.Duration(), b.Period.Duration()
	if d == 0 {
		if slices.Contains(w.Guards, GuardMarkers) && !b.Versioned {
			return refused("ask for retention, which keeps versions, or leave it out", "the statement %q would stop every deletion: the bucket keeps no versions", GuardMarkers)
		}
		return nil
	}
	switch {
	case r.Lapses > 0 && !w.locks() && !b.Locked:
		return impossible(giveLocked, "%s", r.lapse())
	case w.unlocks() && b.Locked:
		return refused("leave locked out", "the bucket is locked, and what is locked stays so")
	case w.unlocks() && b.LockedByStatement() && !slices.Contains(w.Guards, GuardSettings):
		return refused("leave locked out", "the bucket is locked by a statement of its policy (%s), and what is locked stays so", GuardSettings)
	case w.Type == ByObject && b.Exists && !b.ObjectLock && r.OnlyNew != "":
		return refused("", "the bucket was created without locks of single objects. %s", r.OnlyNew)
	case w.Type == ByObject:
		return nil
	case have > d:
		remedy := fmt.Sprintf("ask for %s or more", b.Period)
		return refused(remedy, "the bucket keeps everything for %s, and %s would be %s less: retention is only ever lengthened here", b.Period, w.Period, Period(have-d))
	case have > 0 && Compare(b.Mode, w.Mode) > 0:
		return refused("ask for "+b.Mode.String(), "the bucket's retention is of mode %s, and %s would be weaker: retention is only ever strengthened here", b.Mode, w.Mode)
	case have < d && b.Locked && r.MaxExtensions > 0:
		return b.refusesExtension(w, r)
	}
	return nil
}

// refusesExtension guards what can be done only so often.
func (b Bucket) refusesExtension(w BucketWish, r BucketRules) *BucketRefusal {
	left := r.MaxExtensions - b.Extensions
	if left <= 0 {
		return refused("make a new bucket with the longer period and copy the backups (etcdbrctl copy)",
			"the period of %s can never be raised again: its locked policy was raised %d of %d times", b.Period, b.Extensions, r.MaxExtensions)
	}
	growth := float64(w.Period-b.Period) / float64(b.Period)
	if growth < MinExtensionGrowth && !w.SpendExtension {
		worth := Period(float64(b.Period) * (1 + MinExtensionGrowth))
		if rest := worth.Duration() % r.Unit; rest != 0 {
			worth += Period(r.Unit - rest)
		}
		return &BucketRefusal{Spends: true, Remedy: fmt.Sprintf("ask for %s or more", worth), Reason: fmt.Sprintf(
			"raising %s to %s gains %.1f %% and uses up one of %d extensions that are left of %d for ever", b.Period, w.Period, 100*growth, left, r.MaxExtensions)}
	}
	return nil
}

// Advice is what has to be known of a store that is [BucketRules.Advisory].
const Advice = "protection is advisory: locks are kept by this program alone, and whoever may write to the directory can delete everything"

// bucketPlanner collects the steps. There is nothing left to refuse.
type bucketPlanner struct {
	BucketPlan
	b Bucket
	w BucketWish
	r BucketRules
}

func (p *bucketPlanner) step(s BucketStep, format string, args ...any) {
	s.Text = fmt.Sprintf(format, args...)
	p.Steps = append(p.Steps, s)
}

func (p *bucketPlanner) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

// make is about the bucket and its retention.
func (p *bucketPlanner) make() {
	b, w, r := p.b, p.w, p.r
	p.Level = b.Level()
	byBucket, byObject := w.Period > 0 && w.Type == ByBucket, w.Period > 0 && w.Type == ByObject
	lockable := !r.Advisory && (byObject || byBucket && r.StampsMode)
	switch {
	case !b.Exists:
		s := BucketStep{Do: BucketCreate, ObjectLock: lockable}
		text := "create the bucket"
		if lockable {
			text += " with locks of single objects"
		}
		if byBucket && r.CreatedWhole {
			s.Mode, s.Period = ModeGovernance, w.Period
			text += fmt.Sprintf(" and a retention policy of %s", w.Period)
			b.Mode, b.Period = s.Mode, s.Period
		}
		p.step(s, "%s", text)
	case lockable && r.StampsMode && !b.Versioned:
		p.step(BucketStep{Do: BucketVersions}, "keep versions of what is overwritten")
		fallthrough
	case lockable && !b.ObjectLock:
		p.step(BucketStep{Do: BucketObjectLock, Irreversible: true}, "allow locks of single objects, which cannot be switched off again; a server that gives them to new buckets alone refuses, and the bucket stays as it is")
	}
	switch {
	case byBucket && r.StampsMode:
		p.stamped(b)
	case byBucket:
		p.policy(b)
	case byObject:
		p.note("whoever writes locks each object for %s (%s); the bucket itself locks nothing that is written without", w.Period, w.Mode)
		if b.Period > 0 {
			p.note("the bucket's own retention of %s stays as it is", b.Period)
		}
	case b.Period > 0:
		p.note("the bucket's retention of %s stays as it is", b.Period)
	case r.None != "":
		p.note("%s", r.None)
	default:
		p.note("no retention is asked for: whoever may delete can delete backups")
	}
	if r.Advisory {
		p.Level = ModeAdvisory
		if !byObject {
			p.Level = ModeNone
		}
		p.note("%s", Advice)
	}
	if r.Uploads && !b.AbortsUploads {
		p.step(BucketStep{Do: BucketUploads, Optional: true}, "add a lifecycle rule that removes what is left of interrupted uploads after %d days; rules that are there stay", AbortUploadsAfter)
	}
}

// AbortUploadsAfter is how many days an upload may take before what was sent of it is removed.
const AbortUploadsAfter = 7

// stamped is the default lock whose mode is stamped on what is written.
func (p *bucketPlanner) stamped(b Bucket) {
	w := p.w
	if b.Period != w.Period || Compare(b.Mode, w.Mode) != 0 {
		p.step(BucketStep{Do: BucketPolicy, Mode: w.Mode, Period: w.Period}, "lock everything that is written from now on for %s (%s)", w.Period, w.Mode)
	}
	if b.Exists {
		p.step(BucketStep{Do: BucketLengthen, Mode: w.Mode, Period: w.Period, Irreversible: w.Mode == ModeCompliance},
			"look at every version that is younger than %s, and lock it for %s from its creation (%s) where its lock ends sooner", w.Period, w.Period, w.Mode)
	}
	p.Level = w.Mode
	switch {
	case w.Mode != ModeGovernance:
	case b.has(GuardSettings) || slices.Contains(w.Guards, GuardSettings):
		p.note("a lock of mode governance can be lifted by whoever may take the statement %q out of the bucket's policy and holds s3:BypassGovernanceRetention", GuardSettings)
	default:
		p.note("privileged identities can lift a lock of mode governance (s3:BypassGovernanceRetention)")
	}
}

// policy is the bucket's own, which counts for everything in it.
func (p *bucketPlanner) policy(b Bucket) {
	w, r := p.w, p.r
	locked := b.Locked
	lock := func(period Period) {
		p.step(BucketStep{Do: BucketLock, Period: period, Irreversible: true}, "lock the retention policy of %s for ever: it can only be made longer from then on, and the bucket can be deleted only when it is empty", period)
		locked = true
	}
	if b.Period > 0 && r.Lapses > 0 && !locked {
		lock(b.Period) // as it is, since changing it would mean to be without for a moment
	}
	switch {
	case b.Period == 0:
		p.step(BucketStep{Do: BucketPolicy, Mode: ModeGovernance, Period: w.Period}, "give the bucket a retention policy of %s, for everything that is in it", w.Period)
	case b.Period < w.Period && locked:
		text := ""
		if r.MaxExtensions > 0 {
			text = fmt.Sprintf("; %d of %d extensions are left then", r.MaxExtensions-b.Extensions-1, r.MaxExtensions)
		}
		p.step(BucketStep{Do: BucketExtend, Period: w.Period, Irreversible: true}, "raise the locked retention policy from %s to %s, for everything that is in the bucket%s", b.Period, w.Period, text)
	case b.Period < w.Period:
		p.step(BucketStep{Do: BucketPolicy, Mode: ModeGovernance, Period: w.Period}, "raise the retention policy from %s to %s, for everything that is in the bucket", b.Period, w.Period)
	}
	if w.locks() && !locked {
		lock(w.Period)
	}
	p.Level = ModeGovernance
	if locked {
		p.Level = ModeCompliance
	}
	if w.Mode == ModeCompliance && !locked {
		p.note("the policy is not locked, so whoever manages the bucket can remove it: the level is governance until it is locked (etcdbrctl bucket lock)")
	}
}

// guards adds the statements of the bucket's policy, and lifts the one that would refuse the steps.
func (p *bucketPlanner) guards() {
	wanted := slices.Clone(p.w.Guards)
	for _, g := range []Guard{GuardPlainHTTP, GuardOldTLS} {
		if slices.Contains(p.r.Guards, g) {
			wanted = append(wanted, g)
		}
	}
	if p.w.locks() && p.r.StampsMode {
		wanted = append(wanted, GuardSettings)
		p.note("%s cannot lock a bucket's configuration: a statement refuses changes of it to everybody, and whoever may change the bucket's policy can remove that; locks that are there stay whatever happens", p.r.Provider)
	}
	lifted := p.b.has(GuardSettings) && slices.ContainsFunc(p.Steps, func(s BucketStep) bool { return s.Do != BucketLengthen && s.Do != BucketCreate })
	if lifted {
		lift := BucketStep{Do: BucketLift, Guard: GuardSettings, Text: fmt.Sprintf("lift the statement %q for the changes that follow", GuardSettings)}
		p.Steps = append([]BucketStep{lift}, p.Steps...)
		wanted = append(wanted, GuardSettings)
	}
	for _, g := range Guards() {
		if !slices.Contains(wanted, g) || p.b.has(g) && !(lifted && g == GuardSettings) {
			continue
		}
		if why := p.b.NoGuards[g]; why != "" {
			p.note("the bucket's policy does not %s: %s", guardText[g], why)
			continue
		}
		own := !slices.Contains(p.w.Guards, g) && g != GuardSettings
		p.step(BucketStep{Do: BucketGuard, Guard: g, Optional: own}, "add to the bucket's policy: %s; statements that are there stay", guardText[g])
	}
}

var guardText = map[Guard]string{
	GuardPlainHTTP: "deny everything over plain HTTP",
	GuardOldTLS:    "deny everything over TLS before 1.2",
	GuardMarkers:   "deny everybody deletions without a version, which leave markers (s3:DeleteObject)",
	GuardSettings:  "deny everybody changes of versioning, default lock and lifecycle, and the bypass of governance locks",
}
