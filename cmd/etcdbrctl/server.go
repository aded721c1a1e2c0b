package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"druid.internal/druid/internal/agent"
	"druid.internal/druid/internal/agent/config"
	"druid.internal/druid/internal/agentapi/auth"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/open"
)

// The environment of a sidecar, as the original's.
const (
	memberVariable    = "POD_NAME"
	namespaceVariable = "POD_NAMESPACE"
	templateVariable  = "ETCD_CONF"
	defaultTemplate   = "/var/etcd/config/etcd.conf.yaml"
)

func (a *app) serverCommand() *cobra.Command {
	var f serverFlags
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Be the backup sidecar of one etcd member until stopped",
		Long: `Be the backup sidecar of one etcd member until stopped.

etcd-wrapper asks it to make the data directory ready before each start of etcd: the data are
examined, restored from the bucket, or given up so that the member joins its cluster anew as a learner.
While etcd runs it reports, promotes, defragments, and, beside the leader, backs up.

The member's name is that in the environment variable POD_NAME, the members of the cluster are those in
etcd's configuration file, ETCD_CONF (default ` + defaultTemplate + `), which is read again when it changes;
how clients are served takes effect when the sidecar is started anew.
Calls that change anything or reveal content need a bearer token or a client certificate.`,
		Example: `  POD_NAME=etcd-main-0 etcdbrctl server --config-file=/var/etcd/config/backup-restore.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			parse := config.Parse
			if a.sys.getenv(namespaceVariable) != "" {
				parse = config.Lenient(func(what string) {
					a.log.Error("the configuration file was written by a newer operator; what is not known has no effect", "file", f.file, "error", what)
				})
			}
			c, err := f.load(cmd.Flags(), parse, func(flag string) { a.log.Warn("flag is ignored: --config-file is given", "flag", flag) })
			if err != nil {
				return err
			}
			o := agent.Options{Config: c, ConfigFile: f.file, ParseConfig: parse, Member: a.sys.getenv(memberVariable), Guard: a.sys.getenv(namespaceVariable), Template: a.sys.getenv(templateVariable),
				Writer: writer(), Log: a.log}
			named := "environment variable " + templateVariable
			if o.Template == "" {
				o.Template, named = defaultTemplate, "the default of "+named
			}
			if o.Member == "" {
				return &usageError{fmt.Errorf("the environment variable %s is empty: it names the member, as %s does", memberVariable, o.Template)}
			}
			if err := auth.Named(named, o.Template); err != nil {
				return &usageError{fmt.Errorf("etcd's configuration file: %w", err)}
			}
			o.Store = a.source(c.Store, "")
			if c.Secondary.BackupSyncEnabled {
				o.Second = a.source(c.Secondary.StoreConfig, "secondary-")
			}
			o.Report = a.kubernetes(c.Health, o.Member, serviceAccountDir)
			limitMemory(int64(c.Restoration.MemoryLimit))
			err = agent.Run(cmd.Context(), o)
			if err == nil {
				a.log.Info("stopped", "cause", context.Cause(cmd.Context()))
			}
			return err
		},
	}
	f.add(cmd.Flags())
	return cmd
}

// source opens the configured store whenever it is asked to; none without a provider.
func (a *app) source(c config.Store, set string) agent.Source {
	if c.Provider == "" {
		return agent.Source{}
	}
	f := storeFlags{set: set, provider: c.Provider, container: c.Container, endpoint: c.EndpointOverride, prefix: c.Prefix, tempDir: c.TempDir,
		encryption: open.Encryption(c.ServerSideEncryption), parallelUploads: c.MaxParallelChunkUploads, minChunkSize: int64(c.MinChunkSize)}
	if period := c.ObjectLock.Period.D(); period > 0 {
		f.lockPeriod, f.lockMode = period, c.ObjectLock.Mode
	}
	return agent.Source{Changed: a.config(f).Environment.Changes(), Open: func(ctx context.Context) (store.Store, error) {
		s, err := a.openStore(ctx, f)
		if err != nil {
			return nil, err
		}
		return s, nil
	}}
}
