package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"druid.internal/druid/test/cluster"
	"druid.internal/druid/test/members"
	"druid.internal/druid/test/process"
)

// operating is an operator that runs.
type operating struct {
	*process.Process
	begun             time.Time
	metrics, profiles string // addresses
}

// operate starts the operator as it is shipped, but for its ports and more flags.
func (s *site) operate(b *bench, more ...string) (*operating, error) {
	to, err := s.ConfigFor(operatorUser)
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(s.dir, "operator.kubeconfig")
	if err := cluster.WriteKubeconfig(kubeconfig, to); err != nil {
		return nil, err
	}
	addresses, err := process.FreePorts("127.0.0.1", 3)
	if err != nil {
		return nil, err
	}
	args := []string{"--kubeconfig=" + kubeconfig, "--enable-profiling=" + strconv.FormatBool(b.profiles != ""), "--etcd-status-sync-period=" + b.period().String()}
	for i, what := range []string{"metrics", "health", "profiling"} {
		host, port, err := net.SplitHostPort(addresses[i])
		if err != nil {
			return nil, err
		}
		args = append(args, "--"+what+"-bind-address="+host, "--"+what+"-port="+port)
	}
	o := &operating{begun: time.Now(), metrics: addresses[0], profiles: addresses[2]}
	o.Process, err = process.Command{Name: "etcd-druid", Path: b.operator, Args: append(args, more...)}.Start()
	return o, err
}

func (o *operating) observed() observed {
	return observed{"the operator", func() members.Life {
		if o.Ended() {
			return members.Life{}
		}
		return members.Life{Running: true, PID: o.PID()}
	}}
}

// metric is the sum of a metric over all its labels.
func (o *operating) metric(ctx context.Context, name string) (sum float64, err error) {
	return o.sum(ctx, name, func(string) bool { return true })
}

// sum is that of a metric over those labels that count.
func (o *operating) sum(ctx context.Context, name string, counts func(labels string) bool) (sum float64, err error) {
	text, err := fetch(ctx, "http://"+o.metrics+"/metrics")
	if err != nil {
		return 0, err
	}
	defer text.Close()
	for lines := bufio.NewScanner(text); lines.Scan(); {
		rest, is := strings.CutPrefix(lines.Text(), name)
		if !is || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		if !counts(rest) {
			continue
		}
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("%s%s: %w", name, rest, err)
		}
		sum += value
	}
	return sum, nil
}

// quiet waits until the operator has changed nothing for as long as it takes to look at every Etcd. What it reads all
// the time is counted later, see [site.asked].
func (o *operating) quiet(ctx context.Context, period time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, untilTimeout)
	defer cancel()
	last, since := -1.0, time.Now()
	for {
		sent, err := o.sum(ctx, "rest_client_requests_total", func(labels string) bool { return !strings.Contains(labels, `method="GET"`) })
		if err != nil {
			return err
		}
		if sent != last {
			last, since = sent, time.Now()
		}
		if time.Since(since) > period*4/3 {
			return nil
		}
		if err := wait(ctx, time.Second); err != nil {
			return fmt.Errorf("it still changes something, with %.0f requests so far: %w", sent, err)
		}
	}
}

// profileSeconds is how long a profile of the processor is taken.
const profileSeconds = 15

// profiled does something and keeps profiles meanwhile, if those are wanted.
func (o *operating) profiled(b *bench, title string, do func(context.Context) error) func(context.Context) error {
	if b.profiles == "" {
		return do
	}
	return func(ctx context.Context) error {
		name := filepath.Join(b.profiles, strings.NewReplacer(" ", "-", ":", "").Replace(title))
		g, within := errgroup.WithContext(ctx)
		g.Go(func() error { return do(within) })
		g.Go(func() error {
			if err := o.Await(within, func(ctx context.Context) error { return o.keep(ctx, "cmdline", os.DevNull) }); err != nil {
				return err
			}
			return o.keep(within, fmt.Sprintf("profile?seconds=%d", profileSeconds), name+".cpu")
		})
		return errors.Join(g.Wait(), o.keep(ctx, "heap", name+".heap"), o.keep(ctx, "allocs", name+".allocs"))
	}
}

func (o *operating) keep(ctx context.Context, which, file string) error {
	text, err := fetch(ctx, "http://"+o.profiles+"/debug/pprof/"+which)
	if err != nil {
		return err
	}
	defer text.Close()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, text)
	return errors.Join(err, f.Close())
}

func fetch(ctx context.Context, url string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	}
	return resp.Body, nil
}
