package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"

	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/test/members"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
	"druid.internal/druid/test/workload"
)

// memberBytes is the size of the database of a member that is started.
const memberBytes = 2 << 30

// measureStarts starts a healthy member with much data, with us and without, and validates the data.
func measureStarts(ctx context.Context, b *bench, dir string) (*result, error) {
	size := int64(b.of(memberBytes, memberBytes/16))
	done := doing("a member with %s", bytesString(size))
	bucket := filepath.Join(dir, "bucket")
	if err := os.MkdirAll(bucket, 0o700); err != nil {
		return nil, err
	}
	c, err := b.cluster(ctx, members.Options{Members: 1, Dir: filepath.Join(dir, "members"), Backup: sites.Way{Provider: "Local", Container: bucket}})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	binary, err := stores.Binary("etcd")
	if err != nil {
		return nil, err
	}
	// A real etcd makes everything but the keys.
	if err := c.Plain(ctx, binary, func(context.Context, *clientv3.Client) error { return nil }); err != nil {
		return nil, err
	}
	m := c.Member(0)
	if _, err := fill(ctx, workload.DatabaseFile(m.DataDir()), workload.NewRandom(5, 1<<24, valueBytes), func(_ int, have int64) bool { return have < size }); err != nil {
		return nil, err
	}
	if err := ready(ctx, c); err != nil {
		return nil, err
	}
	if err := backedUp(ctx, c); err != nil {
		return nil, err
	}
	if err := m.Stop(); err != nil {
		return nil, err
	}
	done()
	var all result
	if b.rows.MatchString("restart") {
		r, err := b.restarts(ctx, c, binary, size)
		if err != nil {
			return nil, err
		}
		all.add(r)
	}
	if b.rows.MatchString("validation") {
		r, err := b.validation(ctx, m.DataDir(), size)
		if err != nil {
			return nil, err
		}
		all.add(r)
	}
	return &all, nil
}

// restarts starts and stops etcd alone and the member in turns.
func (b *bench) restarts(ctx context.Context, c *members.Cluster, binary string, size int64) (*result, error) {
	m := c.Member(0)
	alone := &measured{name: fmt.Sprintf("etcd alone with %s to ready", bytesString(size))}
	ours := &measured{name: fmt.Sprintf("the member with %s to ready", bytesString(size))}
	for round := range b.rounds {
		if err := b.round(ctx, round, alone, func(ctx context.Context) (time.Duration, func() error, error) {
			began, took := time.Now(), time.Duration(0)
			served, stop := make(chan struct{}), make(chan struct{})
			ended := make(chan error, 1)
			go func() {
				ended <- c.Plain(ctx, binary, func(context.Context, *clientv3.Client) error {
					took = time.Since(began)
					close(served)
					<-stop
					return nil
				})
			}()
			finish := func() error { close(stop); return <-ended }
			select {
			case <-served:
				return took, finish, nil
			case err := <-ended:
				return 0, nil, err
			}
		}); err != nil {
			return nil, err
		}
		if err := b.round(ctx, round, ours, func(ctx context.Context) (time.Duration, func() error, error) {
			began := time.Now()
			m.Start()
			if err := again(ctx, "the member is ready", m.Ready); err != nil {
				return 0, nil, fmt.Errorf("%w\n%s", err, c.Tell(context.WithoutCancel(ctx)))
			}
			took := time.Since(began)
			b.keepLogs(ctx, c, fmt.Sprintf("restart-%d", round+1))
			return took, m.Stop, nil
		}); err != nil {
			return nil, err
		}
	}
	return &result{
		programs: []*measured{alone, ours},
		criteria: []criterion{{"Restart of a healthy member with " + bytesString(size), "time to ready / etcd alone", ratio(ours, alone, wall), atMost, 1.5, "x", disturbed(alone, ours)}},
	}, nil
}

// round notes how long something took, and then brings it to its end.
func (b *bench) round(ctx context.Context, round int, m *measured, do func(context.Context) (took time.Duration, finish func() error, err error)) error {
	var took time.Duration
	var finish func() error
	r, err := b.timed(ctx, func(ctx context.Context) (err error) {
		took, finish, err = do(ctx)
		return err
	})
	if finish != nil {
		err = errors.Join(err, finish())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	r.wall = took
	m.runs = append(m.runs, r)
	fmt.Printf("  %d    %-44s %s\n", round+1, m.name, r)
	return nil
}

// validation compares the full validation with reading, from the disk and from the page cache.
func (b *bench) validation(ctx context.Context, data string, size int64) (*result, error) {
	var all result
	for _, from := range []struct {
		title string
		args  func(verb string) func() []string
	}{
		{"from the disk", func(verb string) func() []string {
			return func() []string { forgetPages(data); return []string{verb, data} }
		}},
		{"from the page cache", func(string) func() []string { return nil }},
	} {
		read := step{program: named("reading the data directory, "+from.title, b.baseline("files", data)), args: from.args("files")}
		inspect := step{program: named("full validation, "+from.title, b.baseline("inspect", data)), args: from.args("inspect")}
		m, err := b.compare(ctx, b.rounds, read, inspect)
		if err != nil {
			return nil, err
		}
		all.programs = append(all.programs, m...)
		if len(all.criteria) == 0 {
			all.criteria = []criterion{
				{"Full validation of " + bytesString(size), "time / reading it from the disk", ratio(m[1], m[0], wall), atMost, 2, "x", disturbed(m...)},
				{"", "anonymous memory", m[1].worst(anon), atMost, 150, "MB", false},
			}
			continue
		}
		all.remarks = []string{fmt.Sprintf("Full validation of data that the page cache holds takes %.2f s, %.1f x the time of copying them out of it.", m[1].median(wall), ratio(m[1], m[0], wall))}
	}
	return &all, nil
}

// forgetPages has the next reader of the files go to the disk. Nothing of them may be dirty.
func forgetPages(dir string) {
	unix.Sync()
	_ = everyFile(dir, func(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }) // measured is with the cache, then
}

func everyFile(dir string, do func(*os.File) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return do(f)
	})
}

// files reads all files of a directory and forgets them.
func files(_ context.Context, args []string) error {
	if err := arguments(args, 1); err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	return everyFile(args[0], func(f *os.File) error {
		_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, buf)
		return err
	})
}

// inspect is what a sidecar does before it lets etcd start after a crash.
func inspect(ctx context.Context, args []string) error {
	if err := arguments(args, 1); err != nil {
		return err
	}
	i, err := datadir.Inspect(ctx, args[0], datadir.Full, nil)
	if err == nil && i.State != datadir.Valid {
		err = errors.New(i.Why)
	}
	return err
}

// measureBootstraps starts three members from nothing, with us and without.
func measureBootstraps(ctx context.Context, b *bench, dir string) (*result, error) {
	alone := &measured{name: "bootstrap of three etcds alone"}
	ours := &measured{name: "bootstrap of three members"}
	for round := range b.rounds {
		place := func(what string) string { return filepath.Join(dir, fmt.Sprintf("%s-%d", what, round)) }
		p, err := newPlain(place("plain"), 3)
		if err != nil {
			return nil, err
		}
		if err := b.round(ctx, round, alone, func(ctx context.Context) (time.Duration, func() error, error) {
			began := time.Now()
			err := p.startAll()
			if err == nil {
				err = p.serving(ctx)
			}
			return time.Since(began), func() error { p.close(); return nil }, err
		}); err != nil {
			return nil, err
		}
		bucket := place("bucket")
		if err := os.MkdirAll(bucket, 0o700); err != nil {
			return nil, err
		}
		c, err := b.cluster(ctx, members.Options{Members: 3, Dir: place("members"), Backup: sites.Way{Provider: "Local", Container: bucket}})
		if err != nil {
			return nil, err
		}
		if err := b.round(ctx, round, ours, func(ctx context.Context) (time.Duration, func() error, error) {
			began := time.Now()
			err := ready(ctx, c)
			took := time.Since(began)
			b.keepLogs(ctx, c, fmt.Sprintf("bootstrap-%d", round+1))
			return took, func() error { c.Close(); return nil }, err
		}); err != nil {
			return nil, err
		}
	}
	return &result{
		programs: []*measured{alone, ours},
		criteria: []criterion{{"Bootstrap of three fresh members", "time beyond that of etcd alone", beyond(ours, alone), atMost, 2, "s", disturbed(alone, ours)}},
	}, nil
}

// beyond is how many seconds more candidate takes than baseline, 0 if fewer.
func beyond(candidate, baseline *measured) float64 {
	return max(0, candidate.median(wall)-baseline.median(wall))
}
