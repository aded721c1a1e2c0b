package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/open"
	"druid.internal/druid/internal/store/retry"
)

// openStore opens the store that f names, with retries around it.
func (a *app) openStore(ctx context.Context, f storeFlags) (*retry.Store, error) {
	s, err := a.openBareStore(ctx, f)
	if err != nil {
		return nil, err
	}
	return retry.New(s, retry.Options{Notify: func(op, key string, attempt int, wait time.Duration, err error) {
		a.log.Warn("trying again", "operation", op, "key", key, "attempt", attempt, "wait", wait.Round(time.Millisecond).String(), "error", err)
	}}), nil
}

// openBareStore opens it without: for those who want to see every answer of the store.
func (a *app) openBareStore(ctx context.Context, f storeFlags) (store.Store, error) {
	if f.provider == "" {
		return nil, &usageError{fmt.Errorf("--%sstorage-provider is required: one of %s", f.set, open.Supported())}
	}
	if f.parallelUploads < 1 || f.minChunkSize < 1 {
		return nil, &usageError{fmt.Errorf("--%smax-parallel-chunk-uploads and --%smin-chunk-size must be above 0", f.set, f.set)}
	}
	s, err := open.Open(ctx, a.config(f))
	if err != nil && exitCode(err) == exitFailure {
		return nil, &usageError{err} // not the store's answer, so the configuration is at fault
	}
	if err != nil {
		return nil, err
	}
	return f.locked(s)
}

// config is how the store that f names is opened.
func (a *app) config(f storeFlags) open.Config {
	environment := map[string]string{"": "", "source-": open.SourcePrefix, "secondary-": open.SecondaryPrefix}[f.set]
	return open.Config{
		Provider: f.provider, Container: f.container, EndpointOverride: f.endpoint, Encryption: f.encryption,
		Environment:  open.FromEnvironment(a.sys.getenv, environment),
		MinChunkSize: f.minChunkSize, MaxParallelChunkUploads: f.parallelUploads,
		Proxy: http.ProxyFromEnvironment,
	}
}
