// Command certmanager is the part of a real cert-manager that makes Certificates of an Issuer that signs itself and has the API
// server trust them: the controllers of Certificates, and cainjector for ValidatingWebhookConfigurations. cert-manager's own
// programs are not published as modules, and bring every provider of DNS.
//
// It runs outside of the cluster, as who the kubeconfig says, and until it is told to end. The definitions of cert-manager must be
// there: they are in deploy/crds of its module. It has none of cert-manager's own webhook. It is a module of its own, so that the
// tests do not need cert-manager's modules.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	logf "github.com/cert-manager/cert-manager/pkg/logs"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	// The controllers that run are those that are imported.
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: certmanager KUBECONFIG")
		os.Exit(2)
	}
	kubeconfig := os.Args[1]
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrl.SetLogger(logf.Log)
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return certificates(ctx, kubeconfig) })
	all.Go(func() error { return inject(ctx, kubeconfig) })
	if err := all.Wait(); err != nil {
		fmt.Fprintln(os.Stderr, "certmanager:", err)
		os.Exit(1)
	}
}

// certificates runs the controllers.
func certificates(ctx context.Context, kubeconfig string) error {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{Kubeconfig: kubeconfig, KubernetesAPIQPS: 50, KubernetesAPIBurst: 100})
	if err != nil {
		return err
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	for name, construct := range controller.Known() {
		c, err := construct(factory)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all.Go(func() error { return c.Run(1, ctx) })
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	return all.Wait()
}

// inject runs cainjector.
func inject(ctx context.Context, kubeconfig string) error {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{Kubeconfig: kubeconfig})
	if err != nil {
		return err
	}
	of, err := factory.Build("cainjector")
	if err != nil {
		return err
	}
	if err := cmapi.AddToScheme(scheme.Scheme); err != nil {
		return err
	}
	manager, err := ctrl.NewManager(of.RESTConfig, ctrl.Options{
		Scheme:  scheme.Scheme,
		Metrics: server.Options{BindAddress: "0"},
		Client:  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		return err
	}
	err = cainjector.RegisterAllInjectors(ctx, manager, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor:        map[string]bool{cainjector.ValidatingWebhookConfigurationName: true},
	})
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}
