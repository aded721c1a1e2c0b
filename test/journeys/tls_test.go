package journeys_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/stores"
)

// either asks one of two clients, and after an error the other.
type either struct {
	clientv3.KV // the first
	other       clientv3.KV
	second      atomic.Bool // whose turn it is
	failures    atomic.Int64
}

// turn is the client to ask, and what to tell of the outcome. Of many who fail at once with the same
// client, one passes on to the other.
func (e *either) turn() (clientv3.KV, func(error)) {
	second, kv := e.second.Load(), e.KV
	if second {
		kv = e.other
	}
	return kv, func(err error) {
		if err != nil {
			e.failures.Add(1)
			e.second.CompareAndSwap(second, !second)
		}
	}
}

func (e *either) Put(ctx context.Context, key, value string, opts ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	kv, ended := e.turn()
	r, err := kv.Put(ctx, key, value, opts...)
	ended(err)
	return r, err
}

func (e *either) Delete(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	kv, ended := e.turn()
	r, err := kv.Delete(ctx, key, opts...)
	ended(err)
	return r, err
}

// TLS is turned on for one connection after the other on a cluster that runs: between members, then of
// clients, then of the sidecars. In the end it is turned off between members and of clients in one edit. Clients write all the time.
func switchTLS(t *testing.T, s *site) {
	const namespace = "tls"
	s.namespace(t, namespace)
	p := s.open(t, namespace, spec(3, backed(s.bucket(t, namespace, namespace, "shop"))))

	ca, err := stores.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	client, peers := name+"-client", "."+name+"-peer."+namespace+".svc"
	hosts := []string{name + "-0" + peers, name + "-1" + peers, name + "-2" + peers, name + "-local", client, client + "." + namespace, client + "." + namespace + ".svc", p.address(t)}
	server := certificate(t, ca, hosts...)
	own := certificate(t, ca, "client")
	s.apply(t, secret(namespace, "tls-ca", map[string]string{"ca.crt": string(ca.PEM)}), secret(namespace, "tls-server", server), secret(namespace, "tls-client", own))
	secure := p.dial(t, func(c *clientv3.Config) {
		pair, err := tls.X509KeyPair([]byte(own["tls.crt"]), []byte(own["tls.key"]))
		if err != nil {
			t.Fatal(err)
		}
		c.TLS = ca.ClientTLS()
		c.TLS.Certificates = []tls.Certificate{pair}
		c.Endpoints[0] = strings.Replace(c.Endpoints[0], "http:", "https:", 1)
	})
	plain, kv := p.client, &either{KV: p.client, other: secure}
	p.write(t, kv)

	const files = `tlsCASecretRef: {name: tls-ca}, serverTLSSecretRef: {name: tls-server}`
	// A certificate that would part one member from the others is told, and used by nobody.
	s.apply(t, secret(namespace, "tls-server", certificate(t, ca, name+"-0"+peers, name+"-1"+peers, client, p.address(t))))
	p.patch(t, `{etcd: {peerUrlTls: {`+files+`}}}`)
	p.oneAtATime(t, 3, "the certificate is told that not all members could use", func(ctx context.Context) error {
		e, err := p.etcd(ctx)
		if err != nil {
			return err
		}
		if op := e.Status.LastOperation; op == nil || !strings.Contains(op.Description, "Secret tls-server is not for "+name+"-2"+peers+":") {
			return fmt.Errorf("the last operation is %+v", op)
		}
		if c := druidv1alpha1.FindCondition(e.Status.Conditions, druidv1alpha1.ConditionAllMembersReady); c == nil || c.Status != druidv1alpha1.ConditionTrue {
			return fmt.Errorf("meanwhile the members are %+v", c)
		}
		return nil
	})
	list, err := p.client.MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list.Members {
		if !strings.HasPrefix(m.PeerURLs[0], "http://") {
			t.Errorf("%s is reached at %q with a certificate that is not for all", m.Name, m.PeerURLs)
		}
	}
	s.apply(t, secret(namespace, "tls-server", server))
	p.oneAtATime(t, 3, "members talk TLS among each other", func(ctx context.Context) error {
		e, err := p.etcd(ctx)
		if err != nil {
			return err
		}
		if on := e.Status.PeerUrlTLSEnabled; on == nil || !*on {
			return errors.New("status.peerUrlTLSEnabled is not true")
		}
		list, err := p.client.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, m := range list.Members {
			if len(m.PeerURLs) != 1 || !strings.HasPrefix(m.PeerURLs[0], "https://") {
				return fmt.Errorf("%s is reached at %q", m.Name, m.PeerURLs)
			}
		}
		return p.whole(ctx)
	})
	p.more(t)

	p.patch(t, `{etcd: {clientUrlTls: {`+files+`, clientTLSSecretRef: {name: tls-client}}}}`)
	p.oneAtATime(t, 3, "clients talk TLS", p.whole)
	if kv.failures.Load() == 0 {
		t.Error("no client without TLS was ever refused")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := p.client.Get(ctx, "a"); err == nil {
		t.Error("a client without TLS is answered")
	}
	p.client = secure
	p.more(t)

	// The sidecars have an authority of their own, and the wrappers, to which they give orders, that of etcd's clients.
	others, err := stores.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	s.apply(t, secret(namespace, "sidecar-ca", map[string]string{"ca.crt": string(others.PEM)}),
		secret(namespace, "sidecar-server", certificate(t, others, hosts...)),
		secret(namespace, "sidecar-client", certificate(t, others, "client")))
	p.patch(t, `{backup: {tls: {tlsCASecretRef: {name: sidecar-ca}, serverTLSSecretRef: {name: sidecar-server}, clientTLSSecretRef: {name: sidecar-client}}}}`)
	p.oneAtATime(t, 3, "sidecars talk TLS", p.whole)
	p.nothingIsLost(t, secure)
	p.patch(t, `{replicas: 0}`)
	s.await(t, "it falls asleep, for which etcd refuses clients", p.says(druidv1alpha1.ConditionHibernated, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonHibernated, ""))
	p.patch(t, `{replicas: 3}`)
	s.await(t, "it is awake", p.awake)
	p.holds(t, secure)

	_, err = s.Kubectl(t.Context(), "--namespace="+namespace, "delete", "secret", "tls-server")
	if err := says(err, "tls-server"); err != nil {
		t.Errorf("a Secret that the members need is deleted: %v", err)
	}

	// Taken off in one edit, members would wait for each other if an etcd served clients otherwise before its pod is made anew.
	p.write(t, kv)
	p.patch(t, `{etcd: {clientUrlTls: null, peerUrlTls: null}}`)
	p.oneAtATime(t, 3, "neither clients nor members talk TLS any more", func(ctx context.Context) error {
		list, err := plain.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, m := range list.Members {
			if len(m.PeerURLs) != 1 || !strings.HasPrefix(m.PeerURLs[0], "http://") || !strings.HasPrefix(m.ClientURLs[0], "http://") {
				return fmt.Errorf("%s is reached at %q, by clients at %q", m.Name, m.PeerURLs, m.ClientURLs)
			}
		}
		return p.whole(ctx)
	})
	p.nothingIsLost(t, plain)
}

// certificate is the content of a Secret.
func certificate(t *testing.T, ca *stores.CA, hosts ...string) map[string]string {
	t.Helper()
	cert, key, err := ca.Issue(hosts...)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"tls.crt": string(cert), "tls.key": string(key)}
}
