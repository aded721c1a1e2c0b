package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"druid.internal/druid/internal/agent"
	"druid.internal/druid/internal/agent/config"
	"druid.internal/druid/internal/agentapi"
)

func (a *app) initializeCommand() *cobra.Command {
	var (
		from    storeFlags
		cluster clusterFlags
		mode    string
		out     string
		memory  = bytesFlag(config.Defaults().Restoration.MemoryLimit)
	)
	cmd := &cobra.Command{
		Use:   "initialize",
		Short: "Make a data directory ready for one start of etcd, as the sidecar does",
		Long: `Make a data directory ready for one start of etcd, as the sidecar does.

The data are examined. Good ones stay as they are; missing, damaged or outdated ones of a sole
member are replaced from the bucket, with a raised revision: damaged ones are set aside,
outdated ones stay until what takes their place is complete and verified. A bucket that does not
answer is waited for, it is never taken for an empty one. Members of several are the sidecar's business,
see etcdbrctl server: they have to ask each other.`,
		Example: `  etcdbrctl initialize --data-dir=/var/etcd/data/new.etcd --storage-provider=S3 --store-container=backups --store-prefix=ns--uid/etcd-main`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if mode != "full" && mode != "sanity" {
				return &usageError{fmt.Errorf("--validation-mode %q is neither full nor sanity", mode)}
			}
			if strings.Contains(cluster.cluster, ",") {
				return &usageError{fmt.Errorf("--initial-cluster names several members, which have to ask each other: run etcdbrctl server beside each of them")}
			}
			if _, url, _ := strings.Cut(cluster.cluster, "="); cmd.Flags().Changed("initial-advertise-peer-urls") && !slices.Equal(cluster.peerURLs, []string{url}) {
				return &usageError{fmt.Errorf("--initial-advertise-peer-urls %s are not the peer URL of the member in --initial-cluster, %s: write the same", strings.Join(cluster.peerURLs, ","), url)}
			}
			template, err := cluster.template()
			if err != nil {
				return err
			}
			defer os.RemoveAll(filepath.Dir(template))
			c := config.Defaults()
			c.Store = config.Store{Provider: from.provider, Container: from.container, Prefix: from.prefix, EndpointOverride: from.endpoint,
				ServerSideEncryption:    config.ServerSideEncryption(from.encryption),
				MaxParallelChunkUploads: from.parallelUploads, MinChunkSize: config.Bytes(from.minChunkSize), TempDir: from.tempDir}
			c.Restoration.MemoryLimit = config.Bytes(memory)
			limitMemory(int64(memory))
			b, err := agent.Initialize(cmd.Context(), agent.Options{Config: c, Member: cluster.name, Template: template, Guard: a.sys.getenv(namespaceVariable),
				Store: a.source(c.Store, ""), Writer: writer(), Log: a.log}, agentapi.ParseValidationMode(mode))
			if err != nil {
				return err
			}
			if out != "" {
				return os.WriteFile(out, b, 0o600)
			}
			fmt.Fprintf(a.sys.out, "%s is ready: start etcd with it as its data directory\n", cluster.dataDir)
			return nil
		},
	}
	flags := cmd.Flags()
	from.add(flags, "", "the store, if there is one")
	cluster.add(flags)
	flags.StringVar(&mode, "validation-mode", "full", "how closely to look at data: full, or sanity after a clean end of etcd")
	flags.StringVar(&out, "etcd-config", "", "write the configuration to start etcd with into this file")
	flags.Var(&memory, "memory-limit", "bytes a restore may keep in memory, for example 128Mi")
	acceptWithoutEffect(flags, "the data directory is examined without etcd", "endpoints", "service-endpoints", "etcd-connection-timeout", "insecure-transport", "insecure-skip-tls-verify", "cert", "key", "cacert")
	acceptWithoutEffect(flags, "nothing is sent to an etcd while restoring", "max-txn-ops", "max-request-bytes", "max-call-send-message-size")
	acceptWithoutEffect(flags, "a digest that does not match is never a good restore", "skip-hash-check")
	acceptWithoutEffect(flags, "history is compacted at the restored revision", "auto-compaction-mode", "auto-compaction-retention")
	return cmd
}

// template writes etcd's configuration for the one member into a file of its own directory.
func (f *clusterFlags) template() (string, error) {
	name, url, _ := strings.Cut(f.cluster, "=")
	if name != f.name || url == "" {
		return "", &usageError{fmt.Errorf("--initial-cluster %q does not name the member %s with its peer URL", f.cluster, f.name)}
	}
	dir, err := filepath.Abs(f.dataDir)
	if err != nil {
		return "", err
	}
	t := map[string]any{
		"data-dir": dir, "initial-cluster": f.cluster,
		"initial-advertise-peer-urls": map[string][]string{name: {url}}, "advertise-client-urls": map[string][]string{name: {"http://127.0.0.1:2379"}},
		"listen-peer-urls": url, "listen-client-urls": "http://127.0.0.1:2379",
	}
	if f.token != "" {
		t["initial-cluster-token"] = f.token
	}
	b, err := json.Marshal(t) // which is YAML, too
	if err != nil {
		return "", err
	}
	scratch, err := os.MkdirTemp("", "druid-initialize-")
	if err != nil {
		return "", err
	}
	file := filepath.Join(scratch, "etcd.conf.yaml")
	return file, os.WriteFile(file, b, 0o600)
}
