package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"druid.internal/druid/test/stores/ossfake"
)

// serveOSS runs the fake of OSS with buckets NAME:KIND[:DAYS],...
func serveOSS(ctx context.Context, opts ossfake.Options, buckets, envFile string) error {
	r, err := ossfake.Start(opts)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "druid-oss-")
	if err != nil {
		return errors.Join(err, r.Stop())
	}
	stop := func(err error) error { return errors.Join(err, r.Stop(), os.RemoveAll(temp)) }
	for spec := range strings.SplitSeq(buckets, ",") {
		if spec == "" {
			continue
		}
		parts := strings.Split(spec, ":")
		if len(parts) < 2 || len(parts) > 3 || parts[0] == "" {
			return stop(fmt.Errorf("bucket %q: want NAME:KIND[:DAYS]", spec))
		}
		days := 1
		if len(parts) == 3 {
			if days, err = strconv.Atoi(parts[2]); err != nil {
				return stop(fmt.Errorf("bucket %q: days must be a whole number", spec))
			}
		}
		if err := r.CreateBucket(parts[0], ossfake.Kind(parts[1]), days); err != nil {
			return stop(err)
		}
	}
	for name, value := range map[string]string{
		"storageEndpoint": r.Endpoint, "region": "eu-central-1", "accessKeyID": r.AccessKeyID, "accessKeySecret": r.AccessKeySecret,
		"trustedCaCert": string(r.CA.PEM),
	} {
		if err := write(filepath.Join(temp, name), value); err != nil {
			return stop(err)
		}
	}
	err = announce(envFile, "OSS_ENDPOINT="+r.Endpoint, "ALICLOUD_APPLICATION_CREDENTIALS="+temp)
	if err != nil {
		return stop(err)
	}
	<-ctx.Done()
	return stop(nil)
}
