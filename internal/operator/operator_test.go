package operator

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/config"
)

func TestTheManagerIsAsTheConfigurationSays(t *testing.T) {
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	if !scheme.Recognizes(druidv1alpha1.Kind(druidv1alpha1.KindEtcd)) {
		t.Error("the scheme does not know Etcds")
	}
	describe := func(c config.Config) map[string]string {
		o := options(scheme, c, slog.New(slog.DiscardHandler))
		to := connection(&rest.Config{Host: "https://api"}, c.ClientConnection)
		var uncached []string
		for _, object := range o.Client.Cache.DisableFor {
			uncached = append(uncached, strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1."))
		}
		return map[string]string{
			"server":   to.Host,
			"requests": fmt.Sprintf("%g/s, %d at once, as %q, wanted %q", to.QPS, to.Burst, to.ContentType, to.AcceptContentTypes),
			"lease": fmt.Sprintf("%t %s %s/%s %s %s %s, released %t", o.LeaderElection, o.LeaderElectionResourceLock, o.LeaderElectionNamespace, o.LeaderElectionID,
				*o.LeaseDuration, *o.RenewDeadline, *o.RetryPeriod, o.LeaderElectionReleaseOnCancel),
			"listens":  fmt.Sprintf("metrics %s, health %s, profiles %q", o.Metrics.BindAddress, o.HealthProbeBindAddress, o.PprofBindAddress),
			"uncached": strings.Join(uncached, " "),
		}
	}
	other := config.Defaults("v1")
	other.ClientConnection = config.ClientConnection{QPS: -1, Burst: 7, ContentType: "application/json", AcceptContentTypes: "text/plain"}
	other.LeaderElection = config.LeaderElection{Enabled: true, LeaseDuration: time.Minute, RenewDeadline: 40 * time.Second, RetryPeriod: 5 * time.Second, ResourceLock: "leases", ResourceName: "ours", ResourceNamespace: "garden"}
	other.Server.Metrics = config.Listener{BindAddress: "::1", Port: 1}
	other.Server.Health = config.Listener{BindAddress: "10.0.0.2", Port: 2}
	other.Server.Profiling.Enabled = true
	other.Controllers.DisableLeaseCache = true
	for name, c := range map[string]struct {
		config config.Config
		want   map[string]string
	}{
		"by default": {config.Defaults("v1"), map[string]string{
			"server":   "https://api",
			"requests": `100/s, 150 at once, as "", wanted ""`,
			"lease":    "false leases /druid-leader-election 15s 10s 2s, released true",
			"listens":  `metrics :8080, health :8081, profiles ""`,
			"uncached": "Secret",
		}},
		"otherwise": {other, map[string]string{
			"server":   "https://api",
			"requests": `-1/s, 7 at once, as "application/json", wanted "text/plain"`,
			"lease":    "true leases garden/ours 1m0s 40s 5s, released true",
			"listens":  `metrics [::1]:1, health 10.0.0.2:2, profiles "127.0.0.1:6060"`,
			"uncached": "Secret",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, describe(c.config)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}
