package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"druid.internal/druid/test/stores"
)

// serveGCS runs Google Cloud Storage. What it announces suffices for etcdbrctl: a directory of
// credentials that say where it is, whom to trust and that nobody authenticates.
func serveGCS(ctx context.Context, opts stores.GCSOptions, buckets, envFile string) error {
	g, err := stores.StartGCS(ctx, opts)
	if err != nil {
		return err
	}
	credentials, err := os.MkdirTemp("", "druid-gcs-credentials-")
	if err != nil {
		return errors.Join(err, g.Stop())
	}
	stop := func(err error) error { return errors.Join(err, g.Stop(), os.RemoveAll(credentials)) }
	for name, content := range map[string]string{"storageAPIEndpoint": g.Endpoint, "trustedCaCert": string(g.CA.PEM), "anonymous": "true"} {
		if err := os.WriteFile(filepath.Join(credentials, name), []byte(content), 0o600); err != nil {
			return stop(err)
		}
	}
	for spec := range strings.SplitSeq(buckets, ",") {
		if spec == "" {
			continue
		}
		name, b, err := parseGCSBucket(spec)
		if err == nil {
			err = g.CreateBucket(ctx, name, b)
		}
		if err != nil {
			return stop(err)
		}
	}
	if err := announce(envFile, "GCS_ENDPOINT="+g.Endpoint, "GCS_CA_FILE="+g.CAFile, "GOOGLE_APPLICATION_CREDENTIALS="+credentials); err != nil {
		return stop(err)
	}
	select {
	case <-ctx.Done():
	case <-g.Ended():
	}
	return stop(nil)
}

// parseGCSBucket reads NAME:KIND[:PERIOD].
func parseGCSBucket(spec string) (string, stores.GCSBucket, error) {
	parts := strings.Split(spec, ":")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" {
		return "", stores.GCSBucket{}, fmt.Errorf("bucket %q: want NAME:KIND[:PERIOD]", spec)
	}
	period := 24 * time.Hour
	if len(parts) == 3 {
		var err error
		if period, err = time.ParseDuration(parts[2]); err != nil || period < time.Second {
			return "", stores.GCSBucket{}, fmt.Errorf("bucket %q: the period must be a duration of at least a second, as 24h", spec)
		}
	}
	kinds := map[string]stores.GCSBucket{
		"plain": {}, "versioned": {Versioned: true}, "lockable": {ObjectLock: true},
		"policy": {Policy: period}, "locked": {Policy: period, Locked: true},
	}
	b, ok := kinds[parts[1]]
	if !ok {
		return "", b, fmt.Errorf("bucket %q: unknown kind %q, known are plain, versioned, lockable, policy, locked", spec, parts[1])
	}
	return parts[0], b, nil
}
