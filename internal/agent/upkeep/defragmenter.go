package upkeep

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/member"
	"druid.internal/druid/internal/schedule"
)

// DefaultSchedule is every third day of the month at midnight, UTC.
const DefaultSchedule = "0 0 */3 * *"

// DefaultDefragTimeout bounds the defragmentation of one member.
const DefaultDefragTimeout = 8 * time.Minute

// DefragOptions say when to defragment. The zero value of each means its default.
type DefragOptions struct {
	// Schedule is a cron expression of five fields, in UTC unless it begins with CRON_TZ=.
	// NoSchedule: by threshold and on request only.
	Schedule   string
	NoSchedule bool
	// Thresholds nil: the default ones.
	Thresholds *Thresholds
	// Quota is etcd's quota-backend-bytes as configured, 0: its default, negative: none.
	Quota func() int64
	// Timeout bounds one member.
	Timeout time.Duration
	// Retry lies between two attempts while something forbids to go on. Default one minute.
	Retry time.Duration
	// Settle is how long the member must have led. Default one minute; above half a minute
	// outside of tests.
	Settle time.Duration
	// Stall is how long the leader may be locked without handing on. Default DefaultStall.
	Stall time.Duration
	// Result, if any, is told what became of each member, as soon as it begins and when it ends.
	Result func(p member.Peer, d agentapi.Defragmentation)
	// Streams, if any, says that a snapshot is read from the own etcd just now. A defragmentation would wait until that has ended, and
	// everybody for the defragmentation.
	Streams func() bool
	// Spare says who is not to be defragmented, because others look after it; nil: nobody.
	Spare  func(member.Peer) bool
	Common // an interval of 5 seconds
}

// The bounds of a run.
const (
	maxAttempts = 3                      // for one member
	catchUp     = time.Hour              // how late a new leader's sidecar still does what was due
	patience    = time.Hour              // how long a request is postponed before it fails
	quick       = 200 * time.Millisecond // between looks for the new leader
)

// Defragmenter defragments the members of the cluster, one after the other, while its member
// leads. There is one per sidecar.
type Defragmenter struct {
	etcd     Etcd
	schedule schedule.Schedule // zero: none
	DefragOptions
	said said
	wake chan struct{}

	// Of Run alone.
	nextCron  time.Time
	due       time.Time // zero: nothing is due
	leadSince time.Time // zero: it does not lead
	checked   time.Time // the thresholds
	notBefore time.Time // the next attempt
	attempts  map[uint64]*Attempt
	run       *run

	mu        sync.Mutex
	asked     bool     // on request
	alarmed   []uint64 // for an alarm
	operation *agentapi.Operation
}

// run is one way through the members.
type run struct {
	reason   string
	began    time.Time
	left     []uint64
	total    int
	tries    map[uint64]int
	handedOn time.Time
	longest  time.Duration // of one member
	outcome  []string      // a line for each member that was treated
	failed   bool
}

// NewDefragmenter checks the options.
func NewDefragmenter(etcd Etcd, o DefragOptions) (*Defragmenter, error) {
	if o.Schedule == "" {
		o.Schedule = DefaultSchedule
	}
	if o.Thresholds == nil {
		t := DefaultThresholds()
		o.Thresholds = &t
	}
	if err := o.Thresholds.Validate(); err != nil {
		return nil, err
	}
	if o.Quota == nil {
		o.Quota = func() int64 { return 0 }
	}
	if o.Result == nil {
		o.Result = func(member.Peer, agentapi.Defragmentation) {}
	}
	if o.Spare == nil {
		o.Spare = func(member.Peer) bool { return false }
	}
	for _, d := range []struct {
		of       *time.Duration
		standard time.Duration
	}{{&o.Timeout, DefaultDefragTimeout}, {&o.Retry, time.Minute}, {&o.Settle, settle}, {&o.Stall, DefaultStall}} {
		if *d.of < 0 {
			return nil, fmt.Errorf("defragmentation: a timeout or an interval is negative (%v)", *d.of)
		}
		if *d.of == 0 {
			*d.of = d.standard
		}
	}
	o.Common = o.complete(5 * time.Second)
	d := &Defragmenter{etcd: etcd, DefragOptions: o, wake: make(chan struct{}, 1), attempts: map[uint64]*Attempt{}}
	if !o.NoSchedule {
		var err error
		if d.schedule, err = schedule.Parse(o.Schedule); err != nil {
			return nil, fmt.Errorf("defragmentation: %w", err)
		}
		d.nextCron = d.schedule.Next(o.Now())
	}
	return d, nil
}

// Run works until ctx ends. A member that is being defragmented then is not waited for: it
// finishes by itself.
func (d *Defragmenter) Run(ctx context.Context) error {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.wake:
		case <-t.C:
		}
		d.tick(ctx)
		wait := d.Interval
		if d.run != nil && d.notBefore.Sub(d.Now()) < wait {
			wait = max(0, d.notBefore.Sub(d.Now()))
		}
		t.Reset(wait)
	}
}

// Request asks for a defragmentation of all members and returns at once. While one goes on, it
// answers with that one.
func (d *Defragmenter) Request() agentapi.Operation {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.operation != nil && d.operation.Status == agentapi.InProgress {
		return *d.operation
	}
	d.asked = true
	d.operation = &agentapi.Operation{Kind: "defragment", Status: agentapi.InProgress, Start: d.Now(), Phase: "begins"}
	d.poke()
	return *d.operation
}

// Operation is what goes on, or the last one; nil: there was none.
func (d *Defragmenter) Operation() *agentapi.Operation {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.operation == nil {
		return nil
	}
	op := *d.operation
	return &op
}

// forAlarm asks for a defragmentation of some members.
func (d *Defragmenter) forAlarm(ids []uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.alarmed = ids
	d.poke()
}

func (d *Defragmenter) poke() {
	select {
	case d.wake <- struct{}{}:
	default: // it is awake
	}
}

// tick notes what is due, begins a run and takes it as far as it goes now.
func (d *Defragmenter) tick(ctx context.Context) {
	now := d.Now()
	if !d.nextCron.IsZero() && !now.Before(d.nextCron) { // zero: no schedule, or no further run
		d.due, d.nextCron = now, d.schedule.Next(now)
	}
	_, self, err := status(ctx, d.etcd.Local)
	switch {
	case err != nil || self.Leader != self.MemberID:
		d.leadSince = time.Time{}
	case d.leadSince.IsZero():
		d.leadSince = now
	}
	if d.run == nil && !d.begin(ctx, now, self) {
		return
	}
	for ctx.Err() == nil && d.run != nil && !d.Now().Before(d.notBefore) {
		d.step(ctx)
	}
}

// begin starts a run if there is a reason and the member leads, and has done so long enough.
func (d *Defragmenter) begin(ctx context.Context, now time.Time, self member.Status) bool {
	d.mu.Lock()
	asked, alarmed := d.asked, d.alarmed
	d.mu.Unlock()
	if d.leadSince.IsZero() {
		d.mu.Lock()
		d.alarmed = nil // the new leader's sidecar sees the alarm too
		d.mu.Unlock()
		if asked {
			d.reject("this sidecar's member does not lead: ask the leader's")
		}
		if now.Sub(d.due) > catchUp {
			d.due = time.Time{}
		}
		d.checked = time.Time{}
		return false
	}
	threshold := now.Sub(d.checked) >= max(d.Interval, min(d.Retry, time.Minute))
	if !asked && len(alarmed) == 0 && d.due.IsZero() && !threshold {
		return false
	}
	v, err := observe(ctx, d.etcd)
	if err != nil {
		d.said.news(d.Log, slog.LevelWarn, "the cluster cannot be observed; nothing is defragmented", "error", err.Error())
		if asked && now.Sub(d.started()) > patience {
			d.reject("the cluster cannot be observed: " + err.Error())
		}
		return false
	}
	wait := d.Settle
	if len(alarmed) > 0 {
		wait = min(wait, settleAlarmed)
	}
	if len(v.Members) > 1 && now.Sub(d.leadSince) < wait {
		d.phase("waits until this member has led for " + wait.String())
		return false
	}
	r := &run{began: now, tries: map[uint64]int{}}
	switch {
	case len(alarmed) > 0:
		r.reason, r.left = ByAlarm, alarmed
	case asked:
		r.reason = ByRequest
	case !d.due.IsZero():
		r.reason = BySchedule
	default:
		d.checked = now
		for _, m := range v.Members {
			if !d.Spare(m.Peer) && d.Thresholds.Exceeds(m, orDefault(d.Quota()), d.attempts[m.ID], now) != "" {
				r.left = append(r.left, m.ID)
			}
		}
		if len(r.left) == 0 {
			return false
		}
		r.reason = ByThreshold
	}
	if r.left == nil {
		for _, m := range v.Members {
			if !d.Spare(m.Peer) {
				r.left = append(r.left, m.ID)
			}
		}
	}
	if r.reason == BySchedule || r.reason == ByRequest {
		d.due = time.Time{}
	}
	r.total = len(r.left)
	d.run, d.notBefore = r, now
	d.mu.Lock()
	defer d.mu.Unlock()
	d.alarmed = nil
	if !d.asked || r.reason != ByRequest {
		d.operation = &agentapi.Operation{Kind: "defragment", Start: now}
	}
	d.asked = false
	d.operation.Status, d.operation.Total = agentapi.InProgress, int64(r.total)
	d.Log.Info("defragmentation begins", "reason", r.reason, "members", r.total)
	return true
}

// reject ends a request that did not begin.
func (d *Defragmenter) reject(why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.Now()
	d.asked = false
	d.operation.Status, d.operation.End, d.operation.Phase, d.operation.Message = agentapi.Failed, &now, "", why
}

func (d *Defragmenter) started() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.operation.Start
}

// phase tells how far the operation is.
func (d *Defragmenter) phase(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.operation != nil && d.operation.Status == agentapi.InProgress {
		d.operation.Phase = text
		if d.run != nil {
			d.operation.Done = int64(d.run.total - len(d.run.left))
		}
	}
}

func orDefault(quota int64) int64 {
	if quota == 0 {
		return defaultQuota
	}
	return quota
}
