package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"druid.internal/druid/internal/operator"
	"druid.internal/druid/internal/operator/config"
)

func newRoot(stderr io.Writer) *cobra.Command {
	var flags *config.Flags
	var kubeconfig string
	root := &cobra.Command{
		Use:   "etcd-druid",
		Short: "Run etcd clusters on Kubernetes",
		Long: `etcd-druid watches Etcd resources, makes clusters of them and looks after these.

It is configured by a file (--config) or by flags. /healthz answers while the process lives,
/readyz once everything was listed from the API server. SIGTERM and SIGINT let it finish what it
is doing; a second one ends it at once.

Exit codes: 0 a clean end that was asked for, 1 a failure, 2 something is wrong with the flags or
the configuration, 130 a second signal.`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &usageError{fmt.Errorf("unexpected argument %q; `%s --help` says what there is", args[0], cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, notices, err := flags.Config()
			if err != nil {
				return &usageError{err}
			}
			log := newLog(stderr, cfg.Logging)
			for _, n := range notices {
				log.Warn(n.What, "setting", n.Setting, "remedy", n.Remedy)
			}
			return operate(cmd.Context(), cfg, kubeconfig, log)
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(&cobra.Command{Hidden: true})
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{fmt.Errorf("%w; `%s --help` lists the flags", err, cmd.CommandPath())}
	})
	root.Flags().StringVar(&kubeconfig, "kubeconfig", "", "how to reach the API server; empty: the pod's own account, or else $KUBECONFIG, or else ~/.kube/config")
	flags = config.NewFlags(root.Flags(), version)
	root.AddCommand(docsCommand())
	return root
}

// operate runs until ctx ends.
func operate(ctx context.Context, cfg config.Config, kubeconfig string, log *slog.Logger) error {
	to, err := apiServer(kubeconfig)
	if err != nil {
		return &usageError{err}
	}
	if cfg.LeaderElection.ResourceNamespace, err = ownNamespace(cfg); err != nil {
		return &usageError{err}
	}
	collectLogs(log)
	log.Info("etcd-druid starts", "version", version, "api-server", to.Host, "leader-election", cfg.LeaderElection.Enabled, "image", cfg.Images.All)
	mgr, err := operator.NewManager(to, cfg, log)
	if err != nil {
		return fmt.Errorf("prepare the operator: %w", err)
	}
	greet(to, log)
	if err := operator.Run(ctx, mgr); err != nil {
		return fmt.Errorf("run the operator: %w", err)
	}
	log.Info("etcd-druid ends")
	return nil
}

// apiServer says how to reach the API server.
func apiServer(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		to, err := rest.InClusterConfig()
		if err == nil {
			return named(to), nil
		}
		if !errors.Is(err, rest.ErrNotInCluster) {
			return nil, fmt.Errorf("the pod's own account: %w", err)
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	to, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	switch {
	case err == nil:
		return named(to), nil
	case kubeconfig != "":
		return nil, fmt.Errorf("--kubeconfig=%s: %w", kubeconfig, err)
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("nothing says how to reach the API server: this is no pod, and there is neither --kubeconfig nor $KUBECONFIG nor ~/.kube/config")
	}
	return nil, fmt.Errorf("the kubeconfig of $KUBECONFIG or ~/.kube/config: %w", err)
}

// named has the API server know who asks.
func named(to *rest.Config) *rest.Config {
	to.UserAgent = "etcd-druid/" + version
	return to
}

// namespaceFile is in every pod that has an account.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// ownNamespace is where the Lease and the certificates of the webhook are. Outside of a pod nobody says it.
func ownNamespace(cfg config.Config) (string, error) {
	l := cfg.LeaderElection
	if l.ResourceNamespace != "" || !l.Enabled && !cfg.OwnCertificates() {
		return l.ResourceNamespace, nil
	}
	text, err := os.ReadFile(namespaceFile)
	if err == nil {
		return strings.TrimSpace(string(text)), nil
	}
	what := "leader election needs to know the namespace of its Lease"
	if !l.Enabled {
		what = "the webhook needs to know the namespace of its certificates"
	}
	return "", fmt.Errorf("%s, and %s cannot be read: give --leader-election-namespace, or leaderElection.resourceNamespace in the file", what, namespaceFile)
}

// greet logs which API server answers. One that does not is waited for by the controllers.
func greet(to *rest.Config, log *slog.Logger) {
	to = rest.CopyConfig(to)
	to.Timeout = 5 * time.Second
	d, err := discovery.NewDiscoveryClientForConfig(to)
	if err == nil {
		v, versionErr := d.ServerVersion()
		if versionErr == nil {
			log.Info("the API server answers", "kubernetes", v.GitVersion)
			return
		}
		err = versionErr
	}
	log.Warn("the API server does not answer, it is asked again and again", "api-server", to.Host, "error", err)
}
