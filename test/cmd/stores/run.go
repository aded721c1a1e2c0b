package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"druid.internal/druid/test/stores"
	"druid.internal/druid/test/stores/azworm"
	"druid.internal/druid/test/stores/ossfake"
)

// serve runs one server until ctx ends. What a client needs to reach it is written as
// NAME=value lines, to a file if asked, and only once the server answers: the appearance of
// the file is the sign that it is ready.
func serve(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("say which server to run: minio, ceph, gcs, azure, oss or etcd")
	}
	flags := flag.NewFlagSet("stores run "+args[0], flag.ExitOnError)
	envFile := flags.String("env-file", "", "write the NAME=value lines here when the server is ready (default: standard output)")
	dir := flags.String("dir", "", "keep the data here (default: a temporary directory, removed at the end)")
	switch args[0] {
	case "minio":
		host := flags.String("host", "127.0.0.1", "IP address to listen on")
		port := flags.String("port", "", "port to listen on (default: a free one)")
		buckets := flags.String("buckets", "", "create these, NAME:PROTECTION[:DAYS],...; protections: "+fmt.Sprint(stores.Protections()))
		_ = flags.Parse(args[1:])
		return serveMinIO(ctx, stores.MinIOOptions{Dir: *dir, Host: *host, Port: *port}, *buckets, *envFile)
	case "ceph":
		host := flags.String("host", "127.0.0.1", "IP address to listen on")
		port := flags.String("port", "", "port to listen on (default: a free one)")
		buckets := flags.String("buckets", "", "create these, NAME:PROTECTION[:DAYS],...; protections: "+fmt.Sprint(stores.Protections()))
		_ = flags.Parse(args[1:])
		if *dir != "" {
			return errors.New("ceph keeps its data in memory, it takes no -dir")
		}
		return serveCeph(ctx, stores.CephOptions{Host: *host, Port: *port}, *buckets, *envFile)
	case "gcs":
		host := flags.String("host", "127.0.0.1", "IP address to listen on")
		port := flags.String("port", "", "port to listen on (default: a free one)")
		buckets := flags.String("buckets", "", "create these, NAME:KIND[:PERIOD],...; kinds: plain, versioned, lockable (single objects), policy, locked (the policy, for ever); the period is a duration, 24h by default")
		_ = flags.Parse(args[1:])
		if *dir != "" {
			return errors.New("gcs keeps its data in memory, it takes no -dir")
		}
		return serveGCS(ctx, stores.GCSOptions{Host: *host, Port: *port}, *buckets, *envFile)
	case "azure":
		host := flags.String("host", "127.0.0.1", "IP address to listen on")
		port := flags.String("port", "", "port to listen on (default: a free one)")
		containers := flags.String("containers", "", "create these, NAME:KIND[:DAYS],...; kinds: "+fmt.Sprint(azureKinds)+"; days of the policy, 1 by default")
		silent := flags.Bool("silent-policies", false, "blobs do not tell the date that follows from their container's policy")
		_ = flags.Parse(args[1:])
		if *dir != "" {
			return errors.New("azure keeps its data in memory, it takes no -dir")
		}
		return serveAzure(ctx, azworm.ServerOptions{Host: *host, Port: *port, SilentPolicies: *silent}, *containers, *envFile)
	case "oss":
		host := flags.String("host", "127.0.0.1", "IP address to listen on")
		port := flags.String("port", "", "port to listen on (default: a free one)")
		buckets := flags.String("buckets", "", "create these, NAME:KIND[:DAYS],...; kinds: "+fmt.Sprint(ossfake.Kinds())+"; days of the retention policy, 1 by default")
		_ = flags.Parse(args[1:])
		if *dir != "" {
			return errors.New("oss keeps its data in memory, it takes no -dir")
		}
		return serveOSS(ctx, ossfake.Options{Host: *host, Port: *port}, *buckets, *envFile)
	case "etcd":
		members := flags.Int("members", 1, "how many members")
		name := flags.String("name", "default", "name of the member")
		data := flags.String("data-dir", "", "the data directory of a single member, which may hold data")
		tls := flags.Bool("tls", false, "with TLS and client certificates")
		_ = flags.Parse(args[1:])
		opts := stores.EtcdOptions{Members: *members, Dir: *dir, DataDir: *data, Name: *name, TLS: *tls, Durable: true, Flags: flags.Args()}
		return serveEtcd(ctx, opts, *envFile)
	}
	return fmt.Errorf("cannot run %q, only minio, ceph, gcs, azure, oss or etcd", args[0])
}

func serveMinIO(ctx context.Context, opts stores.MinIOOptions, buckets, envFile string) error {
	m, err := stores.StartMinIO(ctx, opts)
	if err != nil {
		return err
	}
	stop := func(err error) error { return errors.Join(err, m.Stop()) }
	if err := createBuckets(ctx, &m.S3, buckets); err != nil {
		return stop(err)
	}
	err = announce(envFile,
		"MINIO_ENDPOINT="+m.Endpoint, "MINIO_CA_FILE="+m.CAFile, "MINIO_REGION="+m.Region,
		"MINIO_ACCESS_KEY_ID="+m.Root.AccessKeyID, "MINIO_SECRET_ACCESS_KEY="+m.Root.SecretAccessKey)
	if err != nil {
		return stop(err)
	}
	select {
	case <-ctx.Done():
	case <-m.Ended():
	}
	return stop(nil)
}

func serveCeph(ctx context.Context, opts stores.CephOptions, buckets, envFile string) error {
	c, err := stores.StartCeph(ctx, opts)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "druid-ceph-swift-")
	if err != nil {
		return errors.Join(err, c.Stop())
	}
	stop := func(err error) error { return errors.Join(err, c.Stop(), os.RemoveAll(temp)) }
	if err := createBuckets(ctx, &c.S3, buckets); err != nil {
		return stop(err)
	}
	for name, value := range map[string]string{"authURL": c.SwiftAuthURL, "username": c.SwiftUser, "password": c.SwiftKey, "trustedCaCert": string(c.CA.PEM)} {
		if err := write(filepath.Join(temp, name), value); err != nil {
			return stop(err)
		}
	}
	err = announce(envFile,
		"CEPH_ENDPOINT="+c.Endpoint, "CEPH_CA_FILE="+c.CAFile, "CEPH_REGION="+c.Region,
		"CEPH_ACCESS_KEY_ID="+c.Root.AccessKeyID, "CEPH_SECRET_ACCESS_KEY="+c.Root.SecretAccessKey,
		"CEPH_SWIFT_AUTH_URL="+c.SwiftAuthURL, "CEPH_SWIFT_USER="+c.SwiftUser, "CEPH_SWIFT_KEY="+c.SwiftKey,
		"OPENSTACK_APPLICATION_CREDENTIALS="+temp)
	if err != nil {
		return stop(err)
	}
	select {
	case <-ctx.Done():
	case <-c.Ended():
	}
	return stop(nil)
}

// createBuckets makes NAME:PROTECTION[:DAYS],...
func createBuckets(ctx context.Context, server *stores.S3, specs string) error {
	for spec := range strings.SplitSeq(specs, ",") {
		if spec == "" {
			continue
		}
		name, protection, days, err := parseBucket(spec)
		if err != nil {
			return err
		}
		if err := server.CreateBucket(ctx, name, protection, days); err != nil {
			return err
		}
	}
	return nil
}

func serveEtcd(ctx context.Context, opts stores.EtcdOptions, envFile string) error {
	e, err := stores.StartEtcd(ctx, opts)
	if err != nil {
		return err
	}
	defer e.Close()
	lines := []string{"ETCD_ENDPOINTS=" + strings.Join(e.Endpoints(), ","), "ETCD_DATA_DIR=" + e.DataDir()}
	if opts.TLS {
		lines = append(lines, "ETCD_CA_FILE="+e.CAFile, "ETCD_CERT_FILE="+e.CertFile, "ETCD_KEY_FILE="+e.KeyFile)
	}
	if err := announce(envFile, lines...); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-e.Ended():
	}
	return e.Stop()
}

// parseBucket reads NAME:PROTECTION[:DAYS].
func parseBucket(spec string) (name string, protection stores.Protection, days int, err error) {
	parts := strings.Split(spec, ":")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" {
		return "", "", 0, fmt.Errorf("bucket %q: want NAME:PROTECTION[:DAYS]", spec)
	}
	known := false
	for _, p := range stores.Protections() {
		known = known || string(p) == parts[1]
	}
	if !known {
		return "", "", 0, fmt.Errorf("bucket %q: unknown protection %q, known are %v", spec, parts[1], stores.Protections())
	}
	days = 1
	if len(parts) == 3 {
		if _, err := fmt.Sscanf(parts[2], "%d", &days); err != nil || days < 1 {
			return "", "", 0, fmt.Errorf("bucket %q: days must be a whole number from 1", spec)
		}
	}
	return parts[0], stores.Protection(parts[1]), days, nil
}

// announce writes the lines so that a file appears whole or not at all.
func announce(file string, lines ...string) error {
	text := strings.Join(lines, "\n") + "\n"
	if file == "" {
		_, err := os.Stdout.WriteString(text)
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".env-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if _, err := tmp.WriteString(text); err != nil {
		tmp.Close()
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}
