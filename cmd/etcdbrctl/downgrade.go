package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"druid.internal/druid/internal/agent"
	"druid.internal/druid/internal/agent/config"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/engine/downgrader"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/etcd/member"
)

// How often the members are looked at while they bring their data into the other form.
const downgradeTick = 500 * time.Millisecond

func (a *app) downgradeCommand() *cobra.Command {
	var (
		etcd   etcdFlags
		file   string
		to     string
		yes    bool
		cancel bool
		out    outputFlag
	)
	cmd := &cobra.Command{
		Use:   "downgrade",
		Short: "Make a running cluster ready for the etcd before; prints how far it is until --yes is given",
		Long: `Make a running cluster ready for the etcd before; prints how far it is until --yes is given.

The members bring their data into the form of the earlier version while they serve. When all have, each may be
started with that etcd, one after the other. With the configuration file of a sidecar the cluster is its own, and a full
is taken first; what the original cannot read is refused then. It may be given again at any time, and goes on where it
was. --cancel ends it, as long as all members run the version they ran.`,
		Example: `  kubectl exec etcd-main-0 -c backup-restore -- etcdbrctl downgrade --config-file=/var/etcd/config/backup-restore.conf.yaml --yes`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if yes && cancel {
				return &usageError{fmt.Errorf("--yes begins a downgrade, --cancel ends it: give one of them")}
			}
			to, err := downgrader.ParseVersion(to)
			if err != nil {
				return &usageError{fmt.Errorf("--to: %w", err)}
			}
			own, connection, err := downgraded(file, etcd)
			if err != nil {
				return err
			}
			cluster, err := member.New(connection)
			if err != nil {
				return err
			}
			defer cluster.Close()
			tick := time.NewTicker(downgradeTick)
			defer tick.Stop()
			if cancel {
				if err := downgrader.End(ctx, cluster, tick.C); err != nil {
					return err
				}
				a.log.Info("no downgrade is allowed any more")
			}
			all, err := downgrader.Look(ctx, cluster)
			if err != nil {
				return err
			}
			v := downgradeView{Verdict: downgrader.Decide(all, to), Members: all, To: to}
			if yes {
				if v.State == downgrader.Due && own != nil {
					if err := a.lastFull(ctx, *own, tick.C); err != nil {
						return err
					}
				}
				said := ""
				err := downgrader.Run(ctx, cluster, to, tick.C, func(now downgrader.Verdict, all []downgrader.Member) {
					v.Verdict, v.Members = now, all
					if why := strings.Join(now.Reasons, "; "); string(now.State)+why != said {
						said = string(now.State) + why
						a.log.Info("downgrade", "to", to, "state", now.State, "reasons", why)
					}
				})
				if err != nil {
					return err
				}
			}
			return out.print(a.sys.out, v, v.table)
		},
	}
	flags := cmd.Flags()
	etcd.add(flags)
	flags.StringVar(&file, "config-file", "", "configuration file of a sidecar, which says how to reach its cluster; the flags about etcd have no effect then")
	flags.StringVar(&to, "to", "3.5", "minor version of etcd")
	flags.BoolVar(&yes, "yes", false, "do it")
	flags.BoolVar(&cancel, "cancel", false, "end it: the data get the form of the version that runs")
	out.add(flags)
	return cmd
}

// downgraded is the cluster that is meant, and the configuration of its sidecar if that says so.
func downgraded(file string, etcd etcdFlags) (*config.Config, member.Config, error) {
	if file == "" {
		connection, err := etcd.config()
		return nil, connection, err
	}
	c, err := config.Load(file, config.Parse)
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return nil, member.Config{}, &usageError{err}
	}
	return &c, agent.Etcds(c, append(append([]string{}, c.Etcd.Endpoints...), c.Etcd.ServiceEndpoints...)), nil
}

// lastFull has the backup leader take a full that the original can read, unless there is no store. A leader
// that is not there at the moment is waited for, as long as a full may take.
func (a *app) lastFull(ctx context.Context, c config.Config, tick <-chan time.Time) error {
	if c.Store.Provider == "" {
		a.log.Warn("no full is taken: the cluster has no backups")
		return nil
	}
	if codec.Format(c.Snapshotter.SnapshotFormat) != codec.V2JSON || c.Compression.Enabled && c.Compression.Policy == "zstd" {
		return fmt.Errorf("%w: the backups are written in a form that the original cannot read: set spec.backup.snapshotFormat to %s and spec.backup.compression.policy to gzip, and wait until all members are updated",
			downgrader.ErrRefused, codec.V2JSON)
	}
	client, err := ownSidecar(c)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, c.Etcd.SnapshotTimeout.D())
	defer cancel()
	said := ""
	for {
		full, err := client.Full(ctx, false)
		if err == nil {
			a.log.Info("a full is in the bucket", "name", full.SnapName, "revision", full.LastRevision)
			return readable(full)
		}
		err = fmt.Errorf("take a full before the downgrade: %w", err)
		if status := (*agentapi.StatusError)(nil); !errors.As(err, &status) || status.Code != http.StatusServiceUnavailable {
			return err
		}
		if err.Error() != said {
			said = err.Error()
			a.log.Warn("no full yet", "error", err)
		}
		select {
		case <-tick:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", err, ctx.Err())
		}
	}
}

// readable is nil if the original can read a full. Who takes it may be a member that was not updated yet.
func readable(full agentapi.Snapshot) error {
	if strings.HasSuffix(full.SnapName, ".zst") {
		return fmt.Errorf("%w: the backup leader took %s, which the original cannot read: wait until all members are updated, and give the command again", downgrader.ErrRefused, full.SnapName)
	}
	return nil
}

// ownSidecar calls the sidecar that a configuration is of.
func ownSidecar(c config.Config) (*agentapi.Client, error) {
	etcd, err := url.Parse(c.Etcd.Endpoints[0])
	if err != nil {
		return nil, &usageError{err}
	}
	scheme := "http"
	if c.Server.CertFile != "" {
		scheme = "https"
	}
	return agentapi.NewClient(fmt.Sprintf("%s://%s", scheme, net.JoinHostPort(etcd.Hostname(), strconv.Itoa(c.Server.Port))), agentapi.ClientOptions{Credentials: agent.Credentials(c)})
}

type downgradeView struct {
	downgrader.Verdict
	To      string              `json:"to"`
	Members []downgrader.Member `json:"members"`
}

func (v downgradeView) table(w io.Writer) error {
	rows := [][]string{{"MEMBER", "RUNS", "DATA OF", "DOWNGRADE TO"}}
	for _, m := range v.Members {
		rows = append(rows, []string{m.Name, dash(m.Version), dash(m.Storage), dash(m.Allowed)})
	}
	if err := columns(w, rows); err != nil {
		return err
	}
	for _, r := range v.Reasons {
		fmt.Fprintln(w, r)
	}
	_, err := fmt.Fprintf(w, "\n%s\n", map[downgrader.State]string{
		downgrader.Refused:    "It cannot begin.",
		downgrader.Due:        "No downgrade is enabled. Give --yes to have the data brought into the form of etcd " + v.To + ".",
		downgrader.Converting: "The data are being brought into the form of etcd " + v.To + ".",
		downgrader.Ready:      "Each member may be started with etcd " + v.To + ", one after the other.",
		downgrader.Done:       "All members run etcd " + v.To + ".",
	}[v.State])
	return err
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
