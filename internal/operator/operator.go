// Package operator puts the operator together: a manager that is configured as the OperatorConfiguration
// says, with the controllers of the packages below this one.
//
// It decides nothing about clusters, reads no files and no environment, and sets nothing global:
// where logs go is up to the program.
package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/cluster"
	"druid.internal/druid/internal/operator/config"
	"druid.internal/druid/internal/operator/copytask"
	"druid.internal/druid/internal/operator/kube"
	"druid.internal/druid/internal/operator/operatortask"
)

// gracePeriod is how long reconciliations may take to end. It is shorter than the 30 s that
// Kubernetes gives a pod by default.
const gracePeriod = 20 * time.Second

// Scheme knows the objects of Kubernetes and ours.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), druidv1alpha1.AddToScheme(s))
}

// NewManager returns a manager with all controllers, ready to be started. It makes no request; it
// takes the ports of /healthz, /readyz and profiles. The REST configuration is not changed.
func NewManager(to *rest.Config, cfg config.Config, log *slog.Logger) (manager.Manager, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, fmt.Errorf("make the scheme: %w", err)
	}
	// The manager takes the port of the metrics when it starts, and tells that it is taken only once
	// everything was listed from the API server.
	if err := free(address(cfg.Server.Metrics)); err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	mgr, err := manager.New(connection(to, cfg.ClientConnection), options(scheme, cfg, log))
	if err != nil {
		return nil, err
	}
	if err := Setup(mgr, cfg, log); err != nil {
		return nil, err
	}
	return mgr, nil
}

// Run has the manager work until ctx ends.
//
// A manager that is asked to end before everything was listed from the API server would wait for that
// for ever, with all the CPU it can get. Nothing was begun by then, so it is not waited for: only
// the end of the process ends it.
func Run(ctx context.Context, mgr manager.Manager) error {
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	if filled(context.WithoutCancel(ctx), mgr) {
		return <-ended
	}
	select {
	case err := <-ended:
		return err
	default:
		return nil
	}
}

// Setup adds the controllers and what tells whether they can work.
func Setup(mgr manager.Manager, cfg config.Config, log *slog.Logger) error {
	if err := mgr.AddHealthzCheck("process", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("caches", cachesAreFilled(mgr)); err != nil {
		return err
	}
	if cfg.Webhooks.EtcdComponentProtection.Enabled {
		if err := protect(mgr, cfg, log); err != nil {
			return fmt.Errorf("set up the protection of objects: %w", err)
		}
	}
	if err := cluster.Setup(mgr, cfg, log); err != nil {
		return fmt.Errorf("set up the controller of Etcds: %w", err)
	}
	if err := copytask.Setup(mgr, cfg, log); err != nil {
		return fmt.Errorf("set up the controller of EtcdCopyBackupsTasks: %w", err)
	}
	if err := operatortask.Setup(mgr, cfg, log); err != nil {
		return fmt.Errorf("set up the controllers of tasks: %w", err)
	}
	return nil
}

// cachesAreFilled is not waited for: who asks again and again gets the state of the moment.
func cachesAreFilled(mgr manager.Manager) healthz.Checker {
	return func(r *http.Request) error {
		if !filled(r.Context(), mgr) {
			return errors.New("not everything was listed from the API server yet")
		}
		return nil
	}
}

// free says why nobody can listen at the address; nil: somebody can.
func free(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return l.Close()
}

func filled(ctx context.Context, mgr manager.Manager) bool {
	ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	return mgr.GetCache().WaitForCacheSync(ctx)
}

func connection(to *rest.Config, c config.ClientConnection) *rest.Config {
	to = rest.CopyConfig(to)
	to.QPS, to.Burst = float32(c.QPS), c.Burst
	to.ContentType, to.AcceptContentTypes = c.ContentType, c.AcceptContentTypes
	to.Wrap(kube.LimitAnswers)
	to.DisableCompression = true // to unpack the Leases of all members takes a tenth of what an idle operator does
	return to
}

func options(scheme *runtime.Scheme, cfg config.Config, log *slog.Logger) manager.Options {
	grace := gracePeriod
	le := cfg.LeaderElection
	o := manager.Options{
		Scheme:         scheme,
		Logger:         logr.FromSlogHandler(log.Handler()),
		Cache:          cluster.CacheOptions(),
		MapperProvider: kinds,
		// Secrets are read one by one: a cache of them would need the right to list those of the whole
		// cluster, and would keep them all in memory.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},

		LeaderElection:             le.Enabled,
		LeaderElectionResourceLock: le.ResourceLock,
		LeaderElectionID:           le.ResourceName,
		LeaderElectionNamespace:    le.ResourceNamespace,
		LeaseDuration:              &le.LeaseDuration,
		RenewDeadline:              &le.RenewDeadline,
		RetryPeriod:                &le.RetryPeriod,
		// The process ends as soon as the manager does, so another may work at once.
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &grace,

		Metrics:                metricsserver.Options{BindAddress: address(cfg.Server.Metrics)},
		HealthProbeBindAddress: address(cfg.Server.Health),
		WebhookServer: webhook.NewServer(webhook.Options{
			Host:    cfg.Server.Webhooks.BindAddress,
			Port:    cfg.Server.Webhooks.Port,
			CertDir: cfg.Server.Webhooks.ServerCertDir,
		}),
	}
	if cfg.Server.Profiling.Enabled {
		o.PprofBindAddress = address(cfg.Server.Profiling.Listener)
	}
	return o
}

func address(l config.Listener) string { return net.JoinHostPort(l.BindAddress, strconv.Itoa(l.Port)) }
