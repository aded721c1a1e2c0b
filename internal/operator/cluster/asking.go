package cluster

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
)

const (
	// askedAtOnce is how many Etcds are asked, or told how to treat clients, at the same time. The others wait in the order in
	// which they came.
	askedAtOnce = 64
	// answersFor is for how long answers are used, from when they were asked for: until the next pass.
	answersFor = 10 * time.Second
	// answersAtMost is after how long the next pass comes without an event.
	answersAtMost = 30 * time.Second
	// A pod that does not answer within askTimeout is asked again at once, then after silentOften, and twice as late after each
	// further time.
	silentOften, silentSeldom = 4 * time.Second, 15 * time.Second
	// forgottenAfter is for how long a pod that is not asked any more is known to be silent.
	forgottenAfter = time.Minute
)

// asking asks the sidecars of Etcds outside of the workers of the controller, which a pod that accepts
// connections and never answers would occupy for seconds. When the answers are there, an event has the
// Etcd reconciled. Each answer is used by one pass.
type asking struct {
	sidecars asker
	now      func() time.Time
	log      *slog.Logger
	told     chan event.GenericEvent // an Etcd whose answers are there
	slots    chan struct{}

	mu      sync.Mutex
	of      map[types.UID]*inquiry // by Etcd
	stop    context.CancelFunc
	ctx     context.Context // ends what is under way
	running sync.WaitGroup
}

// inquiry is what is known of the pods of an Etcd.
type inquiry struct {
	under   bool // they are being asked
	answers *answers
	silent  map[types.UID]silence // by pod
	telling bool                  // they are being told how to treat clients
	next    func()                // what they are told after that; nil: nothing
}

// answers are those of the pods at a moment.
type answers struct {
	began    time.Time
	pods     string
	sidecars map[int]agentapi.Member
	unasked  string
}

// silence is how often a pod did not answer in time, one time after the other, and until when it is not
// asked again.
type silence struct {
	times int
	until time.Time
}

func newAsking(sidecars asker, now func() time.Time, log *slog.Logger) *asking {
	ctx, stop := context.WithCancel(context.Background())
	return &asking{
		sidecars: sidecars, now: now, log: log, told: make(chan event.GenericEvent), slots: make(chan struct{}, askedAtOnce),
		of: map[types.UID]*inquiry{}, ctx: ctx, stop: stop,
	}
}

// Start owns the questions: when ctx ends it ends them, and waits for that.
func (a *asking) Start(ctx context.Context) error {
	<-ctx.Done()
	a.mu.Lock()
	a.stop() // none begins from now on
	a.mu.Unlock()
	a.running.Wait()
	return nil
}

// forget drops what is known of an Etcd that is gone.
func (a *asking) forget(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.of, uid)
}

// state is what is known of an Etcd. The caller holds the lock.
func (a *asking) state(uid types.UID) *inquiry {
	s := a.of[uid]
	if s == nil {
		s = &inquiry{silent: map[types.UID]silence{}}
		a.of[uid] = s
	}
	return s
}

// take puts the answers of the sidecars into o, and reports whether there are any that count. If not,
// the sidecars are asked, and an event follows.
func (a *asking) take(o *Observed) bool {
	pods := askable(o)
	if len(pods) == 0 {
		o.Sidecars = map[int]agentapi.Member{}
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s, print, now := a.state(o.Etcd.UID), podsPrint(pods), a.now()
	if got := s.answers; got != nil {
		s.answers = nil
		if got.pods == print && now.Sub(got.began) <= answersFor {
			o.Sidecars, o.Unasked = got.sidecars, got.unasked
			return true
		}
	}
	if s.under || a.ctx.Err() != nil {
		return false
	}
	// A pod that is silent counts as one that does not answer: it was asked a moment ago.
	part := *o
	part.Pods = slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return now.Before(s.silent[p.UID].until) })
	if len(part.Pods) == 0 {
		o.Sidecars = map[int]agentapi.Member{}
		return true
	}
	s.under = true
	a.running.Go(func() { a.ask(&part, s, print) })
	return false
}

// ask asks the pods of part, and has the Etcd reconciled.
func (a *asking) ask(part *Observed, s *inquiry, print string) {
	if !a.slot() {
		return
	}
	began := a.now()
	got := answers{began: began, pods: print, sidecars: a.sidecars.ask(a.ctx, part)}
	got.unasked = part.Unasked
	<-a.slots
	a.mu.Lock()
	s.under, s.answers = false, &got
	s.note(part, got.sidecars, began, a.now())
	a.mu.Unlock()
	e := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: part.Etcd.Namespace, Name: part.Etcd.Name}}
	select {
	case a.told <- event.GenericEvent{Object: e}:
	case <-a.ctx.Done():
	}
}

// note notes which pods did not answer until the time was over.
func (s *inquiry) note(o *Observed, got map[int]agentapi.Member, began, now time.Time) {
	before := s.silent
	s.silent = map[types.UID]silence{}
	for uid, silent := range before {
		part := slices.ContainsFunc(o.Pods, func(p *corev1.Pod) bool { return p.UID == uid })
		if !part && now.Sub(silent.until) < forgottenAfter {
			s.silent[uid] = silent // it was not asked
		}
	}
	for _, p := range o.Pods {
		n, _ := o.Etcd.PodOrdinal(p.Name)
		if _, answered := got[n]; answered || now.Sub(began) < askTimeout {
			continue
		}
		times := before[p.UID].times + 1
		next := silence{times: times}
		if times > 1 {
			next.until = now.Add(min(silentOften<<min(times-2, 8), silentSeldom))
		}
		s.silent[p.UID] = next
	}
}

// refuse has members refuse clients, or admit them with 0, after what they were told before.
func (a *asking) refuse(o *Observed, d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.state(o.Etcd.UID)
	s.next = func() { a.sidecars.refuse(a.ctx, o, d) }
	if s.telling || a.ctx.Err() != nil {
		return
	}
	s.telling = true
	a.running.Go(func() { a.tell(s) })
}

// tell tells the members the newest of what they are to be told, until there is nothing more.
func (a *asking) tell(s *inquiry) {
	for {
		a.mu.Lock()
		next := s.next
		s.next, s.telling = nil, next != nil
		a.mu.Unlock()
		if next == nil || !a.slot() {
			return
		}
		next()
		<-a.slots
	}
}

// slot waits for the turn; false: the operator ends.
func (a *asking) slot() bool {
	select {
	case a.slots <- struct{}{}:
		return true
	case <-a.ctx.Done():
		return false
	}
}

// askable are the pods that can be asked.
func askable(o *Observed) (pods []*corev1.Pod) {
	for _, p := range o.Pods {
		if p.Status.PodIP != "" && p.DeletionTimestamp == nil && everRan(p) {
			pods = append(pods, p)
		}
	}
	return pods
}

// podsPrint tells pods, and where they are, from others.
func podsPrint(pods []*corev1.Pod) string {
	all := make([]string, 0, len(pods))
	for _, p := range pods {
		all = append(all, string(p.UID)+" "+p.Status.PodIP)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}
