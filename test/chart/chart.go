// Package chart renders and installs the Helm chart of this repository as Helm itself does: through
// its Go module, of the version in go.mod, without anything of the user's own Helm.
//
// It judges nothing: what the chart must look like is in its tests.
package chart

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// Release and Namespace are what the chart is installed as.
const (
	Release   = "druid"
	Namespace = "etcd-druid-system"
)

// Image is the value image for an image of this name, as REPOSITORY:TAG.
func Image(name string) map[string]any {
	colon := strings.LastIndex(name, ":")
	if colon < 0 {
		colon = len(name) // which the chart refuses
	}
	return map[string]any{"repository": name[:colon], "tag": strings.TrimPrefix(name[colon:], ":")}
}

// load reads the chart. The working directory must be in the module of the tests.
func load() (*chart.Chart, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "druid.internal/druid").Output()
	if err != nil {
		return nil, fmt.Errorf("find the module of the chart, beside which this must be run: %w", err)
	}
	c, err := loader.Load(filepath.Join(strings.TrimSpace(string(root)), "charts", "druid"))
	if err != nil {
		return nil, fmt.Errorf("load the chart: %w", err)
	}
	return c, nil
}

// Render returns what helm template prints. Values that the schema refuses are an error.
func Render(values map[string]any) (string, error) {
	c, err := load()
	if err != nil {
		return "", err
	}
	install := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
	install.ReleaseName, install.Namespace = Release, Namespace
	install.ClientOnly, install.DryRun = true, true
	install.KubeVersion = &chartutil.KubeVersion{Version: "v1.36.0", Major: "1", Minor: "36"}
	r, err := install.Run(c, values)
	if err != nil {
		return "", fmt.Errorf("render the chart: %w", err)
	}
	return r.Manifest, nil
}

// Install installs the chart and waits until the operator is ready, but not for longer than that.
func Install(ctx context.Context, kubeconfig string, values map[string]any, atMost time.Duration, log *slog.Logger) error {
	return install(ctx, kubeconfig, values, atMost, log, false)
}

// InstallOver does it with --take-ownership: what is there already, made by something else, becomes the release's.
func InstallOver(ctx context.Context, kubeconfig string, values map[string]any, atMost time.Duration, log *slog.Logger) error {
	return install(ctx, kubeconfig, values, atMost, log, true)
}

func install(ctx context.Context, kubeconfig string, values map[string]any, atMost time.Duration, log *slog.Logger, takeOwnership bool) error {
	cfg, err := configuration(ctx, kubeconfig, log)
	if err != nil {
		return err
	}
	c, err := load()
	if err != nil {
		return err
	}
	install := action.NewInstall(cfg)
	install.ReleaseName, install.Namespace, install.CreateNamespace = Release, Namespace, true
	install.TakeOwnership = takeOwnership
	install.Wait, install.Timeout = true, atMost
	if _, err := install.RunWithContext(ctx, c, values); err != nil {
		return fmt.Errorf("helm install: %w", err)
	}
	return nil
}

// Upgrade gives what is installed the chart as it is now, with these values and no others. It waits as
// Install does.
func Upgrade(ctx context.Context, kubeconfig string, values map[string]any, atMost time.Duration, log *slog.Logger) error {
	cfg, err := configuration(ctx, kubeconfig, log)
	if err != nil {
		return err
	}
	c, err := load()
	if err != nil {
		return err
	}
	upgrade := action.NewUpgrade(cfg)
	upgrade.Namespace, upgrade.ResetValues = Namespace, true
	upgrade.Wait, upgrade.Timeout = true, atMost
	if _, err := upgrade.RunWithContext(ctx, Release, c, values); err != nil {
		return fmt.Errorf("helm upgrade: %w", err)
	}
	return nil
}

// Uninstall takes away what was installed, and waits until it is gone. It returns what Helm tells of what
// stays.
func Uninstall(ctx context.Context, kubeconfig string, atMost time.Duration, log *slog.Logger) (told string, err error) {
	cfg, err := configuration(ctx, kubeconfig, log)
	if err != nil {
		return "", err
	}
	uninstall := action.NewUninstall(cfg)
	uninstall.Wait, uninstall.Timeout = true, atMost
	done, err := uninstall.Run(Release)
	if err != nil {
		return "", fmt.Errorf("helm uninstall: %w", err)
	}
	return done.Info, nil
}

func configuration(ctx context.Context, kubeconfig string, log *slog.Logger) (*action.Configuration, error) {
	namespace := Namespace
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Namespace = &kubeconfig, &namespace
	cfg := &action.Configuration{}
	said := func(format string, args ...any) { log.DebugContext(ctx, fmt.Sprintf(format, args...)) }
	if err := cfg.Init(flags, Namespace, "secret", said); err != nil {
		return nil, fmt.Errorf("prepare helm: %w", err)
	}
	return cfg, nil
}
