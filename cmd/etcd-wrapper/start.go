package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/agentapi/auth"
	"druid.internal/druid/internal/wrapper"
)

func newRoot(home string, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "etcd-wrapper",
		Short:         "Run an etcd that a backup sidecar looks after",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE: func(*cobra.Command, []string) error {
			return &usageError{errors.New("no command given; `etcd-wrapper start-etcd` starts etcd")}
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{fmt.Errorf("%w; `%s --help` lists the flags", err, cmd.CommandPath())}
	})
	root.AddCommand(startCommand(home, stderr), docsCommand())
	return root
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{fmt.Errorf("unexpected argument %q; `%s --help` says what there is", args[0], cmd.CommandPath())}
	}
	return nil
}

// startFlags are the flags of start-etcd.
type startFlags struct {
	address string
	port    int
	door    wrapper.Door

	sidecar     string
	sidecarTLS  bool
	credentials auth.Credentials

	configFile, exitCodeFile string
	readyTimeout             time.Duration
}

func startCommand(home string, stderr io.Writer) *cobra.Command {
	var f startFlags
	cmd := &cobra.Command{
		Use:   "start-etcd",
		Short: "Have the data prepared, run etcd, and stop it without harm",
		Long: `start-etcd asks the backup sidecar to initialize the data directory, fetches etcd's
configuration from it and runs etcd within this process.

GET /readyz answers 200 if clients are served here: the last linearizable read succeeded.
GET /livez answers 200 unless the process is stuck; a lost quorum is no reason to kill it.
POST /stop, POST /restart and /clients need a token or a client certificate. Before etcd stops
it hands the leadership over. SIGTERM and SIGINT do what /stop does.
POST /clients?refuse=10m has etcd serve none but sidecars with a token for so long, at most 30m,
and ends what others have under way; refuse=0s serves everybody again. GET tells how it stands.

Exit codes: 0 etcd came to a clean end that was asked for, 1 it failed, 2 wrong usage.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := slog.New(slog.NewJSONHandler(stderr, nil))
			o, client, err := f.options(log)
			if err != nil {
				return &usageError{err}
			}
			defer client.Close()
			return wrapper.Run(cmd.Context(), o)
		},
	}
	f.register(cmd.Flags(), home)
	return cmd
}

// unused are flags of the original that told its readiness check how to reach etcd: here it is
// asked within the process.
var unused = []string{"etcd-server-name", "etcd-client-cert-path", "etcd-client-key-path"}

func (f *startFlags) register(flags *pflag.FlagSet, home string) {
	flags.IntVar(&f.port, "etcd-wrapper-port", 9095, "port on which probes and orders are answered")
	flags.StringVar(&f.address, "etcd-wrapper-address", "", "address to listen on; empty: every one of the machine")
	flags.StringVar(&f.door.CertFile, "etcd-wrapper-cert-path", "", "certificate of this server; empty: that of etcd's client interface, if it has one, as soon as its configuration is known")
	flags.StringVar(&f.door.KeyFile, "etcd-wrapper-key-path", "", "its key")
	flags.StringVar(&f.door.ClientCAFile, "etcd-wrapper-client-ca-path", "", "authorities of the clients that may stop and restart etcd; empty: without a certificate above, those of etcd's client interface")
	flags.StringVar(&f.door.TokenFile, "etcd-wrapper-token-path", "", "file with bearer tokens, one per line, that may stop and restart etcd, and pass while clients are refused")

	flags.StringVar(&f.sidecar, "backup-restore-host-port", ":8080", "host and port of the backup sidecar")
	flags.BoolVar(&f.sidecarTLS, "backup-restore-tls-enabled", false, "the backup sidecar speaks TLS")
	flags.StringVar(&f.credentials.CAFile, "backup-restore-ca-cert-bundle-path", "", "authorities that signed the sidecar's certificate; empty: those of the system")
	flags.StringVar(&f.credentials.CertFile, "backup-restore-client-cert-path", "", "client certificate to show the sidecar")
	flags.StringVar(&f.credentials.KeyFile, "backup-restore-client-key-path", "", "its key")
	flags.StringVar(&f.credentials.TokenFile, "backup-restore-token-path", "", "file with the bearer token to show the sidecar")

	flags.StringVar(&f.configFile, "etcd-config-path", filepath.Join(home, "etcd.conf.yaml"), "where the configuration from the sidecar is put")
	flags.StringVar(&f.exitCodeFile, "exit-code-path", "/var/etcd/data/exit_code", "keeps how etcd ended; beside the data directory")
	flags.DurationVar(&f.readyTimeout, "etcd-ready-timeout", 0, "end if etcd is not ready so long after its start; 0: wait for ever")

	const why = "accepted for compatibility, without effect: etcd is asked within the process"
	for _, name := range unused {
		flags.String(name, "", why)
	}
	flags.Int("etcd-client-port", 2379, why)
}

// options checks the flags and reads the files that they name.
func (f *startFlags) options(log *slog.Logger) (wrapper.Options, *agentapi.Client, error) {
	fail := func(format string, args ...any) (wrapper.Options, *agentapi.Client, error) {
		return wrapper.Options{}, nil, fmt.Errorf(format, args...)
	}
	if f.port < 1 || f.port > 65535 {
		return fail("--etcd-wrapper-port=%d is no port", f.port)
	}
	if f.readyTimeout < 0 {
		return fail("--etcd-ready-timeout=%s is negative; 0 waits for ever", f.readyTimeout)
	}
	if (f.door.CertFile == "") != (f.door.KeyFile == "") {
		return fail("--etcd-wrapper-cert-path and --etcd-wrapper-key-path belong together: give both or none")
	}
	if (f.credentials.CertFile == "") != (f.credentials.KeyFile == "") {
		return fail("--backup-restore-client-cert-path and --backup-restore-client-key-path belong together: give both or none")
	}
	for _, path := range []struct{ flag, value string }{{"etcd-config-path", f.configFile}, {"exit-code-path", f.exitCodeFile}} {
		if !filepath.IsAbs(path.value) {
			return fail("--%s=%s is not an absolute path", path.flag, path.value)
		}
	}
	for _, file := range []struct{ flag, path string }{
		{"etcd-wrapper-cert-path", f.door.CertFile}, {"etcd-wrapper-key-path", f.door.KeyFile}, {"etcd-wrapper-client-ca-path", f.door.ClientCAFile},
		{"etcd-wrapper-token-path", f.door.TokenFile}, {"backup-restore-ca-cert-bundle-path", f.credentials.CAFile},
		{"backup-restore-client-cert-path", f.credentials.CertFile}, {"backup-restore-client-key-path", f.credentials.KeyFile},
		{"backup-restore-token-path", f.credentials.TokenFile},
	} {
		if err := auth.Named("--"+file.flag, file.path); err != nil {
			return fail("%w", err)
		}
	}
	host, port, err := net.SplitHostPort(f.sidecar)
	if err != nil {
		return fail("--backup-restore-host-port=%s: write it like localhost:8080: %w", f.sidecar, err)
	}
	if host == "" {
		host = "localhost"
	}
	scheme := "http"
	if f.sidecarTLS {
		scheme = "https"
	}
	client, err := agentapi.NewClient(scheme+"://"+net.JoinHostPort(host, port), agentapi.ClientOptions{Credentials: f.credentials, Log: log})
	if err != nil {
		return fail("the backup sidecar: %w", err)
	}
	f.door.Address = net.JoinHostPort(f.address, strconv.Itoa(f.port))
	return wrapper.Options{
		Sidecar:      client,
		ConfigFile:   f.configFile,
		ExitCodeFile: f.exitCodeFile,
		ReadyTimeout: f.readyTimeout,
		Door:         f.door,
		Log:          log,
	}, client, nil
}
