package certs

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// world is who works at a server, with the API servers that ask.
type world struct {
	*server
	now       time.Time
	leader    *Keeper
	operators []*Serving
	learned   [][]byte // bundles that API servers know, which learn of the newest 20 s later
	served    map[string]bool
	story     string // why it goes its own way
}

// Everything comes and goes within minutes.
var brief = Lifetimes{Authority: 30 * time.Minute, Serving: 20 * time.Minute, Settle: time.Minute, Look: time.Minute}

func newWorld(t *testing.T) *world {
	w := &world{server: newServer(), now: begun, served: map[string]bool{}}
	w.leader = w.keeper(brief, &w.now)
	w.operators = []*Serving{w.serving(), w.serving()}
	w.do(t, w.leader.look, w.operators[0].look, w.operators[1].look)
	w.learn()
	return w
}

// copy is the same world once more, which goes its own way.
func (w *world) copy() *world {
	s := &server{patience: -1, secret: w.secret.DeepCopy(), configuration: w.configuration.DeepCopy(), writes: w.writes}
	c := &world{server: s, now: w.now, learned: w.learned, served: map[string]bool{}}
	c.leader = c.another(w.leader)
	for _, o := range w.operators {
		n := c.serving()
		n.now.Store(o.now.Load())
		c.operators = append(c.operators, n)
	}
	return c
}

// another is a keeper that saw what k saw.
func (w *world) another(k *Keeper) *Keeper {
	n := w.keeper(brief, &w.now)
	n.newest = k.newest
	return n
}

func (w *world) do(t *testing.T, all ...func(context.Context) error) {
	t.Helper()
	for _, one := range all {
		if err := one(t.Context()); err != nil && !faster(err) {
			t.Fatal(err)
		}
	}
}

func (w *world) learn() {
	w.learned = nil
	for _, h := range w.configuration.Webhooks {
		w.learned = append(w.learned, h.ClientConfig.CABundle)
	}
}

// minute goes by: the leader looks, one operator right after it, the other one later.
func (w *world) minute(t *testing.T) {
	t.Helper()
	for i, looks := range []func(context.Context) error{w.operators[0].look, nil, w.operators[1].look} {
		w.now = w.now.Add(20 * time.Second)
		if i == 0 {
			w.do(t, w.leader.look)
			w.connect(t)
		}
		if looks != nil {
			w.do(t, looks)
		}
		w.connect(t)
		w.learn()
	}
}

// connect fails the test if an API server that knows the newest bundle, or the one before, trusts not everybody.
func (w *world) connect(t *testing.T) {
	t.Helper()
	bundles := w.learned
	for _, h := range w.configuration.Webhooks {
		bundles = append(bundles[:len(bundles):len(bundles)], h.ClientConfig.CABundle)
	}
	tried := map[string]bool{}
	for i, o := range w.operators {
		c := o.now.Load()
		w.served[string(c.Leaf.Raw)] = true
		for _, b := range bundles {
			if pair := string(c.Leaf.Raw) + string(b); !tried[pair] {
				tried[pair] = true
				if err := connects(b, c, w.now); err != nil {
					t.Fatalf("%safter %s operator %d is not trusted: %v", w.story, w.now.Sub(begun), i, err)
				}
			}
		}
	}
}

// At each minute of a renewal and of a rotation somebody looks as well and is held up before one of the requests, for a moment, for
// minutes or until after the next rotation, while the leader goes on. Whoever is held up goes on as if nothing had happened.
func TestWhoIsHeldUpTakesNoTrustAway(t *testing.T) {
	w := newWorld(t)
	for range 12 {
		w.minute(t)
	}
	heldUp, certificates := 0, 0
	for minute := 12; minute < 23; minute++ {
		for name, look := range map[string]func(*world) func(context.Context) error{
			"begins": func(c *world) func(context.Context) error { return NewFirst(c.keeper(brief, &c.now)).look },
			"led":    func(c *world) func(context.Context) error { return c.another(w.leader).look },
		} {
			for at := range 4 {
				for _, pause := range []int{0, 3, 25} {
					c := w.copy()
					c.story = fmt.Sprintf("who %s in minute %d is held up for %d before request %d: ", name, minute, pause, at)
					c.now = c.now.Add(20 * time.Second) // when the leader would look
					requests, paused := 0, false
					c.between = func() {
						if requests++; requests-1 == at {
							paused = true
							for range pause {
								c.minute(t)
							}
							if pause == 0 {
								c.do(t, c.leader.look)
							}
						}
					}
					c.do(t, look(c))
					if c.between = nil; !paused {
						continue
					}
					heldUp++
					c.connect(t)
					for range 2 {
						c.minute(t)
					}
					certificates = max(certificates, len(c.served))
				}
			}
		}
		w.minute(t)
	}
	if certificates < 4 || heldUp < 130 {
		t.Errorf("%d certificates, and somebody was held up %d times", certificates, heldUp)
	}
}
