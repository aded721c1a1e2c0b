package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/test/members"
)

// profiled does something and keeps profiles of every sidecar meanwhile: of the processor for so long,
// and of the memory afterwards. Without -profiles it only does it.
func (b *bench) profiled(c *members.Cluster, title string, d time.Duration, do func(context.Context) error) func(context.Context) error {
	if b.profiles == "" {
		return do
	}
	return func(ctx context.Context) error {
		g, within := errgroup.WithContext(ctx)
		g.Go(func() error { return do(within) })
		for _, m := range c.Members() {
			name := filepath.Join(b.profiles, strings.ReplaceAll(title, " ", "-")+"-"+m.Name)
			g.Go(func() error {
				return keepProfile(within, c, m, fmt.Sprintf("profile?seconds=%d", int(d.Seconds())), name+".cpu")
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		var errs []error
		for _, m := range c.Members() {
			name := filepath.Join(b.profiles, strings.ReplaceAll(title, " ", "-")+"-"+m.Name)
			errs = append(errs, keepProfile(ctx, c, m, "allocs", name+".allocs"))
		}
		return errors.Join(errs...)
	}
}

func keepProfile(ctx context.Context, c *members.Cluster, m *members.Member, which, file string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.SidecarURL()+agentapi.Profiles+which, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.Token())
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: c.HTTPS()}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("profile of %s: %w", m.Name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("profile of %s: %s", m.Name, resp.Status)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, resp.Body)
	return errors.Join(err, f.Close())
}

// keepLogs keeps what the members said beside the profiles, for whoever wants to know where time went.
func (b *bench) keepLogs(ctx context.Context, c *members.Cluster, title string) {
	if b.profiles == "" {
		return
	}
	err := os.MkdirAll(b.profiles, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(b.profiles, title+".log"), []byte(c.Tell(ctx)), 0o600)
	}
	if err != nil {
		fmt.Printf("  the logs of %s are not kept: %v\n", title, err)
	}
}
