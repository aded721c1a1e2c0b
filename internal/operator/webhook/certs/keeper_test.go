package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// server is an API server with one Secret and one configuration. Writes fail once patience is 0. Before each request
// between is called, where requests call nobody.
type server struct {
	client.Reader
	client.Writer
	secret        *corev1.Secret
	configuration *admissionregistrationv1.ValidatingWebhookConfiguration
	patience      int // negative: without an end
	writes        int
	between       func()
}

func (s *server) asked() {
	if between := s.between; between != nil {
		s.between = nil
		defer func() { s.between = between }()
		between()
	}
}

func newServer() *server {
	s := &server{patience: -1, configuration: &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "ours", ResourceVersion: "1"}}}
	for _, name := range []string{"a", "b"} {
		s.configuration.Webhooks = append(s.configuration.Webhooks, admissionregistrationv1.ValidatingWebhook{Name: name, ClientConfig: admissionregistrationv1.WebhookClientConfig{
			Service: &admissionregistrationv1.ServiceReference{Name: "webhook", Namespace: "druid"},
		}})
	}
	return s
}

func (s *server) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.asked()
	switch into := into.(type) {
	case *corev1.Secret:
		if s.secret != nil {
			s.secret.DeepCopyInto(into)
			return nil
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		if s.configuration != nil {
			s.configuration.DeepCopyInto(into)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (s *server) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	s.asked()
	if s.secret != nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{}, o.GetName())
	}
	return s.put(o)
}

func (s *server) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	s.asked()
	if _, secret := o.(*corev1.Secret); secret && s.secret == nil {
		return apierrors.NewNotFound(schema.GroupResource{}, o.GetName())
	}
	return s.put(o)
}

var errKilled = errors.New("killed")

func (s *server) put(o client.Object) error {
	if s.patience == 0 {
		return errKilled
	}
	s.patience--
	s.writes++
	switch o := o.(type) {
	case *corev1.Secret:
		if s.secret != nil && s.secret.ResourceVersion != o.ResourceVersion {
			return apierrors.NewConflict(schema.GroupResource{}, o.Name, nil)
		}
		s.secret = o.DeepCopy()
		s.secret.ResourceVersion = strconv.Itoa(s.writes)
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		if s.configuration.ResourceVersion != o.ResourceVersion {
			return apierrors.NewConflict(schema.GroupResource{}, o.Name, nil)
		}
		s.configuration = o.DeepCopy()
		s.configuration.ResourceVersion = strconv.Itoa(s.writes)
	}
	return nil
}

// keeper begins to work at the server, knowing nothing.
func (s *server) keeper(life Lifetimes, now *time.Time) *Keeper {
	k := NewKeeper(types.NamespacedName{Namespace: "druid", Name: "webhook"}, "ours", s, s, life, slog.New(slog.DiscardHandler))
	k.clock = func() time.Time { return *now }
	return k
}

func (s *server) serving() *Serving {
	return NewServing(types.NamespacedName{Namespace: "druid", Name: "webhook"}, s, time.Minute, slog.New(slog.DiscardHandler))
}

// connects is nil if somebody who trusts the bundle connects to who serves the certificate.
func connects(bundle []byte, c *tls.Certificate, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := c.Leaf.Verify(x509.VerifyOptions{DNSName: "webhook.druid.svc", Roots: roots, CurrentTime: now})
	return err
}

// Operators and API servers learn of what is new at different moments, and the keeper is killed between any
// two writes.
func TestRenewalsAreNoOutage(t *testing.T) {
	life := Lifetimes{Authority: 3 * time.Hour, Serving: 40 * time.Minute, Settle: time.Minute, Look: time.Minute}
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			now := begun
			s := newServer()
			k := s.keeper(life, &now)
			if err := k.look(t.Context()); err != nil {
				t.Fatal(err)
			}
			operators := []*Serving{s.serving(), s.serving(), s.serving()}
			for _, o := range operators {
				if err := o.look(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			bundles := make([][]byte, 3) // of API servers
			for i := range bundles {
				bundles[i] = s.configuration.Webhooks[0].ClientConfig.CABundle
			}
			certificates, authorities := map[string]bool{}, map[string]bool{}
			// In steps of 20 s, in which each API server catches up, and each operator every third.
			for step := range 3 * 60 * 10 {
				now = now.Add(20 * time.Second)
				if step%3 == 0 {
					if random.IntN(4) == 0 {
						s.patience = random.IntN(2)
					}
					if err := k.look(t.Context()); errors.Is(err, errKilled) {
						k = s.keeper(life, &now)
					} else if err != nil {
						t.Fatal(err)
					}
					s.patience = -1
				}
				for i := range operators {
					if step%3 == i {
						if err := operators[i].look(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
				}
				tried := map[string]bool{} // the same at another place is the same
				for _, o := range operators {
					c, _ := o.GetCertificate(nil)
					certificates[c.Leaf.SerialNumber.String()] = true
					for i := range bundles {
						pair := string(c.Leaf.Raw) + string(bundles[i])
						if tried[pair] {
							continue
						}
						tried[pair] = true
						if err := connects(bundles[i], c, now); err != nil {
							t.Fatalf("after %s: %v", now.Sub(begun), err)
						}
					}
				}
				for i := range bundles {
					bundles[i] = s.configuration.Webhooks[random.IntN(2)].ClientConfig.CABundle
				}
				for _, a := range parseAll(bundles[0]) {
					authorities[a.SerialNumber.String()] = true
				}
				if n := len(parseAll(bundles[0])); n > 3 {
					t.Fatalf("%d authorities are trusted", n)
				}
			}
			if len(certificates) < 15 || len(authorities) < 4 {
				t.Errorf("in %s there were %d certificates of %d authorities", now.Sub(begun), len(certificates), len(authorities))
			}
		})
	}
}

func TestWithoutAChangeNothingIsWritten(t *testing.T) {
	now := begun
	s := newServer()
	for range 3 {
		k := s.keeper(Usual, &now)
		for range 3 {
			if err := k.look(t.Context()); err != nil {
				t.Fatal(err)
			}
			now = now.Add(Usual.Look)
		}
	}
	if s.writes != 2 {
		t.Errorf("%d writes, want the Secret and the configuration", s.writes)
	}
	if s.secret.Type != corev1.SecretTypeTLS || s.secret.Name != "webhook" || s.secret.Namespace != "druid" {
		t.Errorf("the Secret is %s/%s of type %s", s.secret.Namespace, s.secret.Name, s.secret.Type)
	}
}

func TestWhatIsEditedIsPutBack(t *testing.T) {
	now := begun
	s := newServer()
	k := s.keeper(Usual, &now)
	look := func() {
		t.Helper()
		if err := k.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		now = now.Add(Usual.Look)
	}
	look()
	first := s.serving()
	if err := first.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.configuration.Webhooks[1].ClientConfig.CABundle = nil
	look()
	s.secret = nil
	look()
	second := s.serving()
	if err := second.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, w := range s.configuration.Webhooks {
		for name, o := range map[string]*Serving{"former": first, "new": second} {
			c, err := o.GetCertificate(nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := connects(w.ClientConfig.CABundle, c, now); err != nil {
				t.Errorf("webhook %s does not take the %s certificate: %v", w.Name, name, err)
			}
		}
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	now := begun
	s := newServer()
	at := "https://127.0.0.1:9443/x"
	s.configuration.Webhooks[1].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: &at}
	if err := s.keeper(Usual, &now).look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if leaf := read(s.secret.Data).Serving.Leaf; len(leaf.DNSNames) != 1 || len(leaf.IPAddresses) != 1 {
		t.Errorf("the certificate is for %v and %v", leaf.DNSNames, leaf.IPAddresses)
	}
	s.configuration.Webhooks = nil
	if err := s.keeper(Usual, &now).look(t.Context()); err == nil || !strings.Contains(err.Error(), "no webhook that could be reached") {
		t.Errorf("without webhooks: %v", err)
	}
	s.configuration = nil
	if err := s.keeper(Usual, &now).look(t.Context()); err == nil || !strings.Contains(err.Error(), "ValidatingWebhookConfiguration ours") {
		t.Errorf("without a configuration: %v", err)
	}
	s.secret.Data[keyServing] = []byte("nothing")
	o := s.serving()
	if err := o.look(t.Context()); err == nil || !strings.Contains(err.Error(), "tls.crt and tls.key") {
		t.Errorf("with a spoilt certificate: %v", err)
	}
	if _, err := o.GetCertificate(nil); err == nil {
		t.Error("there is a certificate")
	}
}
