package certs

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// begins has an operator begin at the server, and looks until nothing is missing.
func (s *server) begins(t *testing.T, now *time.Time) {
	t.Helper()
	f := NewFirst(s.keeper(Usual, now))
	for range 4 {
		err := f.look(t.Context())
		if err == nil {
			return
		}
		if !faster(err) {
			t.Fatal(err)
		}
	}
	t.Fatal("something goes on missing")
}

// isServed fails the test unless who begins to serve is trusted by every webhook.
func (s *server) isServed(t *testing.T, now time.Time) {
	t.Helper()
	o := s.serving()
	if err := o.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := o.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range s.configuration.Webhooks {
		if err := connects(w.ClientConfig.CABundle, c, now); err != nil {
			t.Errorf("webhook %s: %v", w.Name, err)
		}
	}
}

func TestWhoDoesNotLeadMakesTheFirstCertificate(t *testing.T) {
	if NewFirst(nil).NeedLeaderElection() {
		t.Error("it waits for the lease")
	}
	now := begun
	s := newServer()
	s.begins(t, &now)
	s.isServed(t, now)
	s.begins(t, &now)
	if err := s.keeper(Usual, &now).look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.writes != 2 {
		t.Errorf("%d writes, want the Secret and the configuration", s.writes)
	}
}

// The configuration comes late, as it is the last thing that Helm installs, and somebody else is faster, but dies before the
// API server trusts what was made.
func TestWhoBeginsGoesOnUntilNothingIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := begun
		s := newServer()
		late, start := s.configuration, time.Now()
		s.configuration = nil
		requests := 0
		s.between = func() {
			if time.Since(start) < 10*time.Second {
				return
			}
			if s.configuration == nil {
				s.configuration = late
			}
			if requests++; requests == 3 { // the Secret is about to be made
				s.patience = 1
				if err := NewFirst(s.keeper(Usual, &now)).look(t.Context()); !errors.Is(err, errKilled) {
					t.Errorf("who is faster: %v", err)
				}
				s.patience = -1
			}
		}
		if err := NewFirst(s.keeper(Usual, &now)).Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.isServed(t, now)
		if took := time.Since(start); took > time.Minute {
			t.Errorf("it took %s", took)
		}
	})
}

// One dies after some writes, and before each of its requests another one begins, or leads.
func TestWhoBeginsAtTheSameMomentServesTheSameCertificate(t *testing.T) {
	for name, another := range map[string]func(*testing.T, *server, *time.Time){
		"begins": func(t *testing.T, s *server, now *time.Time) { s.begins(t, now) },
		"leads": func(t *testing.T, s *server, now *time.Time) {
			if err := s.keeper(Usual, now).look(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for at := range 4 {
			for patience := range 3 {
				t.Run(fmt.Sprintf("another %s before request %d, after %d writes it dies", name, at, patience), func(t *testing.T) {
					now := begun
					s := newServer()
					s.patience = patience
					requests := 0
					s.between = func() {
						if requests++; requests-1 == at {
							left := s.patience
							s.patience = -1
							another(t, s, &now)
							s.patience = left
							s.isServed(t, now)
						}
					}
					secret := s.secret
					if err := NewFirst(s.keeper(Usual, &now)).look(t.Context()); err != nil && !faster(err) && !errors.Is(err, errKilled) {
						t.Fatal(err)
					}
					s.between, s.patience = nil, -1
					if requests > at && s.secret == secret {
						t.Error("nobody made a certificate")
					}
					s.begins(t, &now)
					s.isServed(t, now)
					made := s.secret
					s.begins(t, &now)
					if s.secret != made {
						t.Error("another certificate is made")
					}
				})
			}
		}
	}
}

func TestWhoBeginsMakesOnlyWhatIsMissing(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		after  time.Duration
		change func(*server)
		writes int
	}{
		"nothing is missing":               {0, func(*server) {}, 0},
		"a certificate has a third left":   {61 * day, func(*server) {}, 0},
		"a certificate has ended":          {91 * day, func(*server) {}, 0},
		"its clock is a day late":          {-day, func(*server) {}, 0},
		"an authority has ended":           {4 * 365 * day, func(*server) {}, 0},
		"the key of the authority is lost": {0, func(s *server) { s.secret.Data[keyAuthorityKey] = nil }, 0},
		"the certificate is lost":          {0, func(s *server) { s.secret.Data[keyServing] = nil }, 1},
		"the Secret is lost":               {0, func(s *server) { s.secret = nil }, 2},
		"a webhook trusts nobody":          {0, func(s *server) { s.configuration.Webhooks[1].ClientConfig.CABundle = nil }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			now := begun
			s := newServer()
			s.begins(t, &now)
			trusted := s.configuration.Webhooks[0].ClientConfig.CABundle
			c.change(s)
			s.writes = 100 // no version comes a second time
			now = now.Add(c.after)
			s.begins(t, &now)
			if n := s.writes - 100; n != c.writes {
				t.Errorf("%d writes, want %d", n, c.writes)
			}
			if c.after == 0 {
				s.isServed(t, now)
			}
			if !bytes.HasPrefix(s.configuration.Webhooks[0].ClientConfig.CABundle, trusted) {
				t.Error("what was trusted is trusted no longer")
			}
		})
	}
}

func TestWhatOthersHaveTrustedStaysSo(t *testing.T) {
	now := begun
	s := newServer()
	other := []byte("# somebody's, without an end of the line")
	s.configuration.Webhooks[0].ClientConfig.CABundle = other
	s.begins(t, &now)
	s.isServed(t, now)
	if b := s.configuration.Webhooks[0].ClientConfig.CABundle; !bytes.HasPrefix(b, append(other, '\n')) {
		t.Errorf("the bundle begins with %.60q", b)
	}
}
