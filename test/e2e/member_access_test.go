package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/test/members"
	"druid.internal/druid/test/stores"
)

// caller is somebody who calls the interfaces of a member.
type caller struct {
	tls   *tls.Config
	token string
}

// call returns the status of an answer, 0 if there was none, and its Allow header and text.
func (c caller) call(t *testing.T, method, url string) (code int, allow, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitAtMost)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: c.tls, DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return 0, "", err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return 0, "", err.Error()
	}
	return resp.StatusCode, strings.Join(resp.Header.Values("Allow"), ", "), string(b)
}

// TestEveryEndpointRefusesWhoDoesNotShowWhatItNeeds goes over the whole interface of sidecars and
// wrappers with TLS everywhere.
func TestEveryEndpointRefusesWhoDoesNotShowWhatItNeeds(t *testing.T) {
	t.Parallel()
	c := enlist(t, members.Options{Members: 1, TLS: members.Everywhere}, "")
	c.start()
	c.await("the sidecar has found its etcd", func(ctx context.Context) error {
		_, err := c.BackupLeader(ctx)
		return err
	})
	m := c.Members()[0]
	ours := c.HTTPS()
	bare := &tls.Config{RootCAs: ours.RootCAs, MinVersion: tls.VersionTLS12}
	strange := strangersTLS(t, ours.RootCAs)
	refused := map[string]caller{
		"nothing":                                {tls: bare},
		"a wrong token":                          {tls: bare, token: "guessed"},
		"an empty certificate of a stranger":     {tls: strange},
		"a stranger's certificate and no token":  {tls: strange, token: ""},
		"a stranger's certificate, wrong token":  {tls: strange, token: "guessed"},
		"the beginning of the token":             {tls: bare, token: c.Token()[:len(c.Token())-1]},
		"a certificate for etcd, not for others": {tls: c.EtcdTLS()},
	}
	known := map[string]caller{"our certificate": {tls: ours}, "the token": {tls: bare, token: c.Token()}}

	type endpoint struct {
		url     string
		methods []string
		open    bool
		roots   *x509.CertPool // of the server
		token   bool           // it alone is accepted
	}
	wrapper := c.EtcdTLS().RootCAs
	endpoints := []endpoint{
		{m.WrapperURL() + "/readyz", []string{http.MethodGet, http.MethodHead}, true, wrapper, true},
		{m.WrapperURL() + "/livez", []string{http.MethodGet, http.MethodHead}, true, wrapper, true},
		{m.WrapperURL() + "/stop", []string{http.MethodPost}, false, wrapper, true},
		{m.WrapperURL() + "/restart", []string{http.MethodPost}, false, wrapper, true},
		{m.WrapperURL() + "/clients?refuse=0s", []string{http.MethodPost, http.MethodGet}, false, wrapper, true},
	}
	to := func(e endpoint, who caller) caller {
		who.tls = who.tls.Clone()
		who.tls.RootCAs = e.roots
		return who
	}
	accepted := func(e endpoint) map[string]caller {
		if e.token {
			return map[string]caller{"the token": known["the token"]}
		}
		return known
	}
	denied := func(e endpoint) map[string]caller {
		all := maps.Clone(refused)
		if e.token {
			all["our certificate for sidecars"] = known["our certificate"]
		}
		return all
	}
	for _, r := range agentapi.Routes() {
		if r.Path == agentapi.Profiles {
			continue // is not there unless it is switched on
		}
		path := r.Path
		if path == agentapi.Clients {
			path += "?refuse=0s"
		}
		endpoints = append(endpoints, endpoint{m.SidecarURL() + path, r.Methods, r.Access == agentapi.Open, ours.RootCAs, false})
	}
	starts := m.EtcdLife().Starts
	for _, e := range endpoints {
		for _, method := range e.methods {
			for who, caller := range denied(e) {
				code, _, text := to(e, caller).call(t, method, e.url)
				// A stranger's certificate may be refused before anything is asked.
				denied := code == http.StatusUnauthorized || code == http.StatusForbidden || code == 0 && caller.tls != bare
				if e.open && code != http.StatusOK && code != 0 || !e.open && !denied {
					t.Errorf("%s %s with %s: %d %s", method, e.url, who, code, text)
				}
				if strings.Contains(text, c.Token()) {
					t.Errorf("%s %s with %s tells the token", method, e.url, who)
				}
			}
		}
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
			if slices.Contains(e.methods, method) {
				continue
			}
			for who, caller := range accepted(e) {
				if code, allow, _ := to(e, caller).call(t, method, e.url); code != http.StatusMethodNotAllowed || !strings.Contains(allow, e.methods[0]) {
					t.Errorf("%s %s with %s: %d, allowed %q; want 405 and %q", method, e.url, who, code, allow, e.methods)
				}
			}
		}
	}
	if got := m.EtcdLife().Starts; got != starts {
		t.Errorf("etcd was started %d times, it had been %d: somebody stopped it who may not", got, starts)
	}
	// Who is known may do everything.
	for _, e := range endpoints {
		if strings.HasSuffix(e.url, "/stop") || strings.HasSuffix(e.url, "/restart") {
			continue
		}
		for who, caller := range accepted(e) {
			if code, _, text := to(e, caller).call(t, e.methods[0], e.url); code/100 != 2 && code != http.StatusConflict {
				t.Errorf("%s %s with %s: %d %s", e.methods[0], e.url, who, code, text)
			}
		}
	}
	for who, caller := range known {
		if code, _, _ := caller.call(t, http.MethodGet, m.SidecarURL()+"/no/such/path"); code != http.StatusNotFound {
			t.Errorf("a path that there is not, with %s: %d, want 404", who, code)
		}
	}
	for _, stop := range endpoints {
		if !strings.HasSuffix(stop.url, "/stop") {
			continue
		}
		before := m.EtcdLife()
		if code, _, text := to(stop, known["the token"]).call(t, http.MethodPost, stop.url); code/100 != 2 {
			t.Errorf("%s with the token: %d %s", stop.url, code, text)
		}
		c.await("etcd is stopped and started again", func(context.Context) error {
			if m.EtcdLife().Starts == before.Starts {
				return errors.New("it was not")
			}
			return nil
		})
		c.ready()
	}
}

// strangersTLS shows a certificate of authorities that nobody trusts.
func strangersTLS(t *testing.T, roots *x509.CertPool) *tls.Config {
	t.Helper()
	ca, err := stores.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	conf, err := ca.ServerTLS("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{RootCAs: roots, Certificates: conf.Certificates, MinVersion: tls.VersionTLS12}
}

// TestEtcdRefusesClientsAndPeersWithoutACertificate of the right authority.
func TestEtcdRefusesClientsAndPeersWithoutACertificate(t *testing.T) {
	t.Parallel()
	c := enlist(t, members.Options{Members: 1, TLS: members.Everywhere}, "")
	c.start()
	m := c.Members()[0]
	for who, conf := range map[string]*tls.Config{
		"no certificate":            {RootCAs: c.EtcdTLS().RootCAs, MinVersion: tls.VersionTLS12},
		"a stranger's":              strangersTLS(t, c.EtcdTLS().RootCAs),
		"that of a backup's caller": {RootCAs: c.EtcdTLS().RootCAs, GetClientCertificate: c.HTTPS().GetClientCertificate, MinVersion: tls.VersionTLS12},
	} {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{m.ClientURL()}, TLS: conf, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		if _, err := client.Get(ctx, "/"); err == nil {
			t.Errorf("etcd serves a client with %s", who)
		}
		cancel()
		client.Close()
		if code, _, _ := (caller{tls: &tls.Config{InsecureSkipVerify: true, Certificates: conf.Certificates}}).call(t, http.MethodGet, m.PeerURL()+"/members"); code != 0 {
			t.Errorf("etcd answers a peer with %s: %d", who, code)
		}
	}
}

// TestCertificatesAndTokenAreExchangedWithoutARestart looks at what every server shows.
func TestCertificatesAndTokenAreExchangedWithoutARestart(t *testing.T) {
	t.Parallel()
	c := enlist(t, members.Options{Members: 3, TLS: members.Everywhere}, "")
	c.start()
	s := c.work(0)
	before := shown(t, c)
	lives := map[string][2]int{}
	for _, m := range c.Members() {
		lives[m.Name] = [2]int{m.EtcdLife().Starts, m.SidecarLife().Starts}
	}
	old := c.Token()
	c.must(c.RotateCertificates())
	c.showsOthers(before)
	finish, err := c.RotateToken()
	c.must(err)
	c.await("the new token opens", func(ctx context.Context) error { return each(c, ctx, opens(t, c, c.Token())) })
	c.must(finish())
	c.await("the old token no longer does", func(ctx context.Context) error {
		return each(c, ctx, func(m *members.Member) error {
			if err := opens(t, c, old)(m); err == nil {
				return errors.New(m.Name + " takes it")
			}
			return nil
		})
	})
	c.await("the clients go on", worked(s, 500))
	for _, m := range c.Members() {
		if got := [2]int{m.EtcdLife().Starts, m.SidecarLife().Starts}; got != lives[m.Name] {
			t.Errorf("%s was started anew: %v, want %v", m.Name, got, lives[m.Name])
		}
	}
	// Peers and sidecars meet again with what they have now.
	leader := c.leader()
	leader.Crash()
	leader.Start()
	c.ready()
	s.end()
	c.proves()
}

// showsOthers waits until every server shows another certificate than before.
func (c *crew) showsOthers(before map[string]string) {
	c.t.Helper()
	c.await("every server shows another certificate", func(context.Context) error {
		for where, serial := range shown(c.t, c) {
			if serial == before[where] {
				return fmt.Errorf("%s still shows the old one", where)
			}
		}
		return nil
	})
}

// TestAuthoritiesAreExchangedByTheSidecars goes the three steps of the documentation. etcd reads its authorities
// at its start alone, so the sidecars restart one after the other, twice.
func TestAuthoritiesAreExchangedByTheSidecars(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"three members": 3, "a single one": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exchangeAuthorities(t, size)
		})
	}
}

func exchangeAuthorities(t *testing.T, size int) {
	// Of etcd's log the end is kept, and the wrapper's restarts are looked for in it.
	c := enlist(t, members.Options{Members: size, TLS: members.Everywhere, Etcd: map[string]any{"log-level": "error"}}, "")
	c.start()
	s := c.work(0)
	lives := map[string][2]int{}
	for _, m := range c.Members() {
		lives[m.Name] = [2]int{m.EtcdLife().Starts, m.SidecarLife().Starts}
	}
	former := showing(t, c.EtcdTLS())
	before := c.authorities()
	sign, finish, err := c.RotateAuthorities()
	c.must(err)
	before = c.trusts(before)
	c.await("the clients go on", worked(s, 500))

	shows := shown(t, c)
	c.must(sign())
	c.showsOthers(shows)
	c.ready() // for clients with new certificates
	for _, m := range c.Members() {
		c.await(m.Name+" still serves a client with a former certificate", func(ctx context.Context) error { return asks(ctx, m, former) })
	}
	c.await("the clients go on", worked(s, 500))

	c.must(finish())
	c.trusts(before)
	for _, m := range c.Members() {
		if err := asks(t.Context(), m, former); err == nil {
			t.Errorf("%s serves a client with a certificate of the former authority", m.Name)
		}
		c.await(m.Name+" serves a client with a new one", func(ctx context.Context) error { return asks(ctx, m, showing(t, c.EtcdTLS())) })
	}
	c.await("the clients go on", worked(s, 500))
	for _, m := range c.Members() {
		if got := [2]int{m.EtcdLife().Starts, m.SidecarLife().Starts}; got != lives[m.Name] {
			t.Errorf("the processes of %s were started anew: %v, want %v", m.Name, got, lives[m.Name])
		}
	}
	// Peers and sidecars meet again with what they have now.
	leader := c.leader()
	leader.Crash()
	leader.Start()
	c.ready()
	s.end()
	c.proves()
}

// authorities are the digests of those with which the etcds run.
func (c *crew) authorities() map[string]string {
	c.t.Helper()
	all := map[string]string{}
	for _, m := range c.Members() {
		all[m.Name] = c.state(m).Authorities
	}
	return all
}

// trusts waits until all etcds run with other authorities than before, and says with which. One was restarted
// after the other, the lowest ordinal first: none before the one before it was ready.
func (c *crew) trusts(before map[string]string) (now map[string]string) {
	c.t.Helper()
	c.await("all run with the same new authorities", func(ctx context.Context) error {
		now = map[string]string{}
		return each(c, ctx, func(m *members.Member) error {
			own, err := m.State(ctx)
			if err != nil {
				return err
			}
			now[m.Name] = own.Authorities
			if own.Authorities == before[m.Name] || own.Authorities != now[c.Members()[0].Name] {
				return fmt.Errorf("%s runs with %.8s, %v before", m.Name, own.Authorities, before)
			}
			return nil
		})
	})
	c.ready()
	const stamp = "15:04:05.000"
	var last time.Time
	for _, m := range c.Members() {
		from, to := lastRestart(c.t, m)
		c.t.Logf("%s was restarted from %s to %s", m.Name, from.Format(stamp), to.Format(stamp))
		if from.Before(last) {
			c.t.Errorf("%s was restarted at %s, and the one before it was ready at %s only", m.Name, from.Format(stamp), last.Format(stamp))
		}
		last = to
	}
	return now
}

// lastRestart is when the wrapper was last asked for a restart, and when etcd was ready afterwards.
func lastRestart(t *testing.T, m *members.Member) (from, to time.Time) {
	t.Helper()
	for line := range strings.Lines(m.EtcdLog()) {
		var said struct {
			Time time.Time `json:"time"`
			Msg  string    `json:"msg"`
		}
		if json.Unmarshal([]byte(line), &said) != nil {
			continue // not the wrapper's
		}
		switch said.Msg {
		case "restart of etcd":
			from = said.Time
		case "etcd is ready":
			to = said.Time
		}
	}
	if from.IsZero() || !to.After(from) {
		t.Errorf("%s was not restarted: from %s to %s", m.Name, from, to)
	}
	return from, to
}

// showing is conf with the certificate as it is now, whatever becomes of its files.
func showing(t *testing.T, conf *tls.Config) *tls.Config {
	t.Helper()
	pair, err := conf.GetClientCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{RootCAs: conf.RootCAs, Certificates: []tls.Certificate{*pair}, MinVersion: tls.VersionTLS12}
}

// asks reads from a member's etcd by a new connection.
func asks(ctx context.Context, m *members.Member, conf *tls.Config) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{m.ClientURL()}, TLS: conf, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	_, err = client.Get(ctx, "/")
	return err
}

func each(c *crew, ctx context.Context, do func(*members.Member) error) error {
	for _, m := range c.Members() {
		if err := do(m); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// opens calls what needs a token, with nothing else.
func opens(t *testing.T, c *crew, token string) func(*members.Member) error {
	return func(m *members.Member) error {
		code, _, text := caller{tls: &tls.Config{RootCAs: c.HTTPS().RootCAs}, token: token}.call(t, http.MethodGet, m.SidecarURL()+agentapi.MemberPath)
		if code != http.StatusOK {
			return fmt.Errorf("%s: %d %s", m.Name, code, text)
		}
		return nil
	}
}

// shown are the serial numbers of the certificates of all servers.
func shown(t *testing.T, c *crew) map[string]string {
	t.Helper()
	serials := map[string]string{}
	for _, m := range c.Members() {
		for what, url := range map[string]string{"client": m.ClientURL(), "peer": m.PeerURL(), "sidecar": m.SidecarURL(), "wrapper": m.WrapperURL()} {
			conn, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				t.Fatalf("%s of %s: %v", what, m.Name, err)
			}
			serials[m.Name+" "+what] = conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
			conn.Close()
		}
	}
	return serials
}

// TestAMemberThatWasAwayTurnsWithTheOthers changes the scheme of the peers while a member does not run. The
// others wait for it, and it comes back with addresses at which they do not look for it.
func TestAMemberThatWasAwayTurnsWithTheOthers(t *testing.T) {
	t.Parallel()
	c := enlist(t, members.Options{Members: 3}, "")
	c.start()
	for _, to := range []members.TLS{{Peer: true}, {}} {
		away := c.Members()[2]
		c.must(away.Stop())
		c.must(c.Secure(to))
		away.Start()
		c.turned()
		c.ready()
	}
	c.proves()
}

// TestPeersTurnToTLSAndBack changes the scheme of the peers in the configuration, there and back.
func TestPeersTurnToTLSAndBack(t *testing.T) {
	t.Parallel()
	c := enlist(t, members.Options{Members: 3}, "")
	c.start()
	s := c.work(0)
	for _, to := range []members.TLS{{Peer: true}, {}} {
		c.must(c.Secure(to))
		c.turned()
		c.ready()
		c.await("the clients go on", worked(s, 500))
	}
	s.end()
	c.proves()
}

// TestPeersTurnThoughNobodyRan changes the scheme of the peers while no member runs, as of a cluster that sleeps. None finds another one where
// the configuration says, and no cluster can be told.
func TestPeersTurnThoughNobodyRan(t *testing.T) {
	t.Parallel()
	c := enlist(t, members.Options{Members: 3}, "")
	c.start()
	for _, m := range c.Members() {
		c.must(m.Stop())
	}
	c.must(c.Secure(members.TLS{Peer: true}))
	for _, m := range c.Members() {
		m.Start()
	}
	c.turned()
	c.ready()
	c.proves()
}

// turned waits until all members are listed with the peer URLs of the configuration and run with them.
func (c *crew) turned() {
	c.t.Helper()
	c.await("all peers have their new addresses", func(ctx context.Context) error {
		listed, err := c.client.MemberList(ctx)
		if err != nil {
			return err
		}
		return each(c, ctx, func(m *members.Member) error {
			want := []string{m.PeerURL()}
			for _, l := range listed.Members {
				if l.Name == m.Name && !slices.Equal(l.PeerURLs, want) {
					return fmt.Errorf("%s is at %q, want %q", m.Name, l.PeerURLs, want)
				}
			}
			own, err := m.State(ctx)
			if err != nil {
				return err
			}
			if !slices.Equal(own.PeerURLs, want) {
				return fmt.Errorf("%s runs with %q, want %q", m.Name, own.PeerURLs, want)
			}
			return nil
		})
	})
}
