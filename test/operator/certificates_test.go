package operator_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"druid.internal/druid/internal/operator/webhook/certs"
)

// Everything lives for seconds, but long enough for a busy machine, and each request has the API server connect anew.
func TestCertificatesAreRenewedWhileTheAPIServerAsks(t *testing.T) {
	together(t, light)
	renewedWhileAsked(t, func(ctx context.Context, keeper func(client.Client) *certs.Keeper, c client.Client) error {
		return keeper(c).Start(ctx)
	})
}

// lastWrite is the way of a keeper that dies right after it wrote something, and never learns how that ended.
type lastWrite struct {
	client.Client
	die context.CancelFunc
}

func (l lastWrite) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	_ = l.Client.Create(ctx, o, opts...)
	l.die()
	return context.Canceled
}

func (l lastWrite) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	_ = l.Client.Update(ctx, o, opts...)
	l.die()
	return context.Canceled
}

func TestCertificatesAreRenewedByKeepersThatDieAfterEachStep(t *testing.T) {
	together(t, light)
	deaths := 0
	renewedWhileAsked(t, func(ctx context.Context, keeper func(client.Client) *certs.Keeper, c client.Client) error {
		for ctx.Err() == nil {
			life, die := context.WithCancel(ctx)
			err := keeper(lastWrite{c, die}).Start(life)
			die()
			if err != nil {
				return err
			}
			deaths++
		}
		return nil
	})
	if deaths < 8 {
		t.Errorf("%d keepers died: too few to show anything", deaths)
	}
}

// renewedWhileAsked has somebody keep certificates that the API server asks with.
func renewedWhileAsked(t *testing.T, keep func(context.Context, func(client.Client) *certs.Keeper, client.Client) error) {
	t.Helper()
	s := withoutOperator(t)
	life := certs.Lifetimes{Authority: 48 * time.Second, Serving: 24 * time.Second, Settle: 4 * time.Second, Look: 200 * time.Millisecond}
	c, err := client.New(s.Config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	secret := types.NamespacedName{Namespace: "default", Name: "certificates"}
	serving := certs.NewServing(secret, c, life.Look, quiet)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	granting := &admission.Webhook{Handler: admission.HandlerFunc(func(context.Context, admission.Request) admission.Response { return admission.Allowed("") })}
	server := &http.Server{Handler: granting, TLSConfig: &tls.Config{GetCertificate: serving.GetCertificate}, ErrorLog: log.New(io.Discard, "", 0)}
	server.SetKeepAlivesEnabled(false)

	url := "https://" + listener.Addr().String() + "/"
	fail, none := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "asks"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "asks.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url},
			FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"asks": "yes"}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "it", Namespace: "default", Labels: map[string]string{"asks": "yes"}}}
	for _, o := range []client.Object{configuration, object} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 3)
	go func() { ended <- serving.Start(ctx) }()
	keeper := func(c client.Client) *certs.Keeper {
		return certs.NewKeeper(secret, configuration.Name, c, c, life, quiet)
	}
	go func() { ended <- keep(ctx, keeper, c) }()
	go func() { _ = server.ServeTLS(listener, "", ""); ended <- nil }()
	defer func() {
		stop()
		_ = server.Close()
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}()

	n := 0
	change := func(ctx context.Context) error {
		n++
		return c.Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"data":{"n":"%d"}}`, n)))
	}
	await(t, change) // the first certificate is waited for
	certificates, bundles := map[string]bool{}, map[string]bool{}
	await(t, func(ctx context.Context) error {
		if err := change(ctx); err != nil {
			t.Fatalf("after %d requests: %v", n, err)
		}
		var now admissionregistrationv1.ValidatingWebhookConfiguration
		if err := c.Get(ctx, client.ObjectKeyFromObject(configuration), &now); err != nil {
			return err
		}
		served, err := serving.GetCertificate(nil)
		if err != nil {
			return err
		}
		certificates[served.Leaf.SerialNumber.String()], bundles[string(now.Webhooks[0].ClientConfig.CABundle)] = true, true
		if len(certificates) < 4 || len(bundles) < 4 {
			return fmt.Errorf("%d certificates and %d bundles of authorities so far", len(certificates), len(bundles))
		}
		return nil
	})
}
