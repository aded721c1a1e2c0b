package certs

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"
)

var (
	begun = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	names = []string{"webhook.druid.svc"}
)

func decide(t *testing.T, f Facts, now time.Time) Plan {
	t.Helper()
	p, err := Decide(f, Usual, now)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// settled are the facts a while after a plan was carried out.
func settled(m Material) Facts {
	return Facts{Material: m, Names: names, Trusted: m.Authorities, TrustedFor: time.Hour}
}

func TestWhatIsMadeAnewAndWhy(t *testing.T) {
	const day = 24 * time.Hour
	first := decide(t, Facts{Names: names}, begun).Material
	lost := first
	lost.AuthorityKey = nil
	ended := decide(t, settled(first), begun.Add(3*365*day+time.Minute)).Material
	for name, c := range map[string]struct {
		facts Facts
		after time.Duration
		want  []string
	}{
		"nothing is there":                       {Facts{Names: names}, 0, []string{"a new authority, because there is none", "a new certificate, because there is none"}},
		"all is well":                            {settled(first), 59 * day, nil},
		"a certificate has a third left":         {settled(first), 61 * day, []string{"a new certificate, because the former ends at 2026-04-01T00:00:00Z"}},
		"it is not known to be trusted":          {Facts{Material: first, Names: names, TrustedFor: 59 * time.Second}, 61 * day, nil},
		"a certificate has ended":                {Facts{Material: first, Names: names}, 91 * day, []string{"a new certificate, because the former does not do: certificate has expired"}},
		"an authority has a third left":          {settled(decide(t, settled(first), begun.Add(720*day)).Material), 731 * day, []string{"a new authority, because the former ends at 2028-12-31T00:00:00Z"}},
		"the key of the authority is lost":       {settled(lost), day, []string{"a new authority, because the key of the former is lost"}},
		"the certificate is lost":                {settled(Material{Authorities: first.Authorities, AuthorityKey: first.AuthorityKey}), day, []string{"a new certificate, because there is none"}},
		"the webhook is reached by another name": {Facts{Material: first, Names: []string{"127.0.0.1"}}, day, []string{"a new certificate, because the former does not do: cannot validate certificate for 127.0.0.1"}},
		"everything has ended":                   {settled(first), 3*365*day + time.Minute, []string{"the authority of serial number", "a new authority, because", "a new certificate, because"}},
		"and is well again":                      {settled(ended), 3*365*day + time.Hour, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := decide(t, c.facts, begun.Add(c.after))
			ok := len(p.Reasons) == len(c.want)
			for i := range c.want {
				ok = ok && strings.HasPrefix(p.Reasons[i], c.want[i])
			}
			if !ok {
				t.Errorf("%q, want %q", p.Reasons, c.want)
			}
			if len(p.Reasons) == 0 && p.Serving != c.facts.Serving {
				t.Error("something is made anew for no reason")
			}
		})
	}
}

func TestALostSecretLeavesTrustedWhatIsServed(t *testing.T) {
	first := decide(t, Facts{Names: names}, begun)
	anew := decide(t, Facts{Names: names, Trusted: first.Authorities}, begun.Add(time.Hour))
	if len(anew.Authorities) != 2 || !anew.Authorities[1].Equal(first.Authorities[0]) {
		t.Fatalf("trusted are %d authorities", len(anew.Authorities))
	}
	if err := anew.Serving.Leaf.CheckSignatureFrom(anew.Authorities[0]); err != nil {
		t.Error(err)
	}
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	first := decide(t, Facts{Names: []string{"127.0.0.1", "webhook.druid.svc"}}, begun)
	due := begun.Add(731 * 24 * time.Hour)
	f := settled(first.Material)
	f.Names = []string{"127.0.0.1", "webhook.druid.svc"}
	p := decide(t, f, due)
	data, err := p.data()
	if err != nil {
		t.Fatal(err)
	}
	got := read(data)
	if len(got.Authorities) != 2 || !got.AuthorityKey.Equal(p.AuthorityKey) || !got.Serving.Leaf.Equal(p.Serving.Leaf) {
		t.Errorf("%d authorities, key %v, certificate %v", len(got.Authorities), got.AuthorityKey != nil, got.Serving != nil)
	}
	leaf := got.Serving.Leaf
	if len(leaf.IPAddresses) != 1 || len(leaf.DNSNames) != 1 || leaf.IsCA || got.Authorities[0].ExtKeyUsage != nil || !got.Authorities[0].IsCA {
		t.Errorf("the certificate is for %v and %v, authority %t", leaf.IPAddresses, leaf.DNSNames, leaf.IsCA)
	}
	t.Run("spoilt", func(t *testing.T) {
		for name, change := range map[string]func(map[string][]byte){
			"another's key":    func(d map[string][]byte) { d[keyAuthorityKey] = d[keyServingKey] },
			"no key":           func(d map[string][]byte) { d[keyAuthorityKey] = nil },
			"a text":           func(d map[string][]byte) { d[keyAuthorities] = []byte("none") },
			"no authority":     func(d map[string][]byte) { d[keyAuthorities] = d[keyServing] },
			"two certificates": func(d map[string][]byte) { d[keyServing] = encode("CERTIFICATE", first.Serving.Certificate[0]) },
			"nothing":          func(d map[string][]byte) { clear(d) },
		} {
			t.Run(name, func(t *testing.T) {
				data, err := p.data()
				if err != nil {
					t.Fatal(err)
				}
				change(data)
				after := decide(t, Facts{Material: read(data), Names: names, Trusted: p.Authorities}, due)
				if len(after.Reasons) == 0 || after.AuthorityKey == nil || after.Serving == nil {
					t.Fatalf("it stays so: %q", after.Reasons)
				}
				roots := x509.NewCertPool()
				for _, a := range after.Authorities {
					roots.AddCert(a)
				}
				if _, err := after.Serving.Leaf.Verify(x509.VerifyOptions{DNSName: names[0], Roots: roots, CurrentTime: due}); err != nil {
					t.Error(err)
				}
			})
		}
	})
}
