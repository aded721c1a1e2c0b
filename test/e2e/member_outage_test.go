package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/linear"
	"druid.internal/druid/test/members"
	"druid.internal/druid/test/sites"
)

// mostMemory is what a sidecar may have while its store is away: more than the benchmarks allow, and
// far less than what is written meanwhile.
const mostMemory = 250 << 20

// TestAStoreThatIsDownThenSlowThenDenyingStopsNobodyAndLeavesNoGap goes on writing through all of it.
func TestAStoreThatIsDownThenSlowThenDenyingStopsNobodyAndLeavesNoGap(t *testing.T) {
	t.Parallel()
	for _, with := range everyOther(t, beginnings) {
		t.Run("from "+with, func(t *testing.T) {
			t.Parallel()
			site := fleet.Get(t, "MinIO")
			gate := gateTo(t, site)
			link := faults.NewLink(t, strings.TrimPrefix(gate.Endpoint, "https://"))
			c := enlist(t, members.Options{Members: 3}, "https://"+link.Address)
			c.begin(with)
			at := time.Minute
			if !*soak {
				at = 15 * time.Second
			}
			s := c.work(0)
			c.await("the backup is recent", c.unprotected(func(s float64) bool { return s < 10 }))
			for _, trouble := range []struct {
				what        string
				begin, over func()
				lasting     bool // nothing can be uploaded while it lasts
			}{
				{"down", link.Cut, link.Restore, true},
				{"slow", func() { link.Delay(100 * time.Millisecond) }, func() { link.Delay(0) }, false},
				{"denying", func() { gate.Inject(faults.Fault{Status: http.StatusForbidden, Code: "AccessDenied"}) }, gate.Heal, true},
			} {
				trouble.begin()
				if trouble.lasting {
					c.await("the metrics say that "+trouble.what, c.unprotected(func(s float64) bool { return s >= at.Seconds() }))
					c.await("the member says that "+trouble.what, func(ctx context.Context) error {
						writer, err := c.BackupLeader(ctx)
						if err != nil {
							return err
						}
						m, err := writer.State(ctx)
						if err == nil && m.Waiting == "" {
							err = errors.New("it waits for nothing")
						}
						return err
					})
				}
				c.await("the clients go on", worked(s, 500))
				if n := memory(t, c.writer()); n > mostMemory {
					t.Errorf("while the store is %s the sidecar has %d MB, want at most %d", trouble.what, n>>20, mostMemory>>20)
				}
				trouble.over()
				c.await("the backup has caught up", c.unprotected(func(s float64) bool { return s < at.Seconds()/2 }))
			}
			ops := s.end()
			if stall, from := linear.Stall(ops); stall > patience {
				t.Errorf("nothing was written for %s from %s on", stall, from)
			}
			c.proves()
			c.await("the chain has no gap", func(ctx context.Context) error {
				gaps, err := c.writers(ctx, "etcdbr_protection_chain_gaps")
				if err == nil && gaps != 0 {
					err = fmt.Errorf("%v gaps", gaps)
				}
				return err
			})
			for _, m := range c.Members() {
				if l := m.SidecarLife(); l.Starts != 1 {
					t.Errorf("the sidecar of %s was started %d times: %q", m.Name, l.Starts, l.Exits)
				}
			}
		})
	}
}

// writer is the member whose sidecar writes the backups.
func (c *crew) writer() *members.Member {
	c.t.Helper()
	var writer *members.Member
	c.await("somebody writes the backups", func(ctx context.Context) (err error) {
		writer, err = c.BackupLeader(ctx)
		return err
	})
	return writer
}

// writers is a metric of whoever writes the backups just now: on a busy machine leaders change.
func (c *crew) writers(ctx context.Context, metric string) (float64, error) {
	writer, err := c.BackupLeader(ctx)
	if err != nil {
		return 0, err
	}
	return writer.Metric(ctx, metric)
}

// unprotected is nil when what the metric says is as wanted.
func (c *crew) unprotected(want func(seconds float64) bool) func(context.Context) error {
	return func(ctx context.Context) error {
		s, err := c.writers(ctx, "etcdbr_protection_unprotected_seconds")
		if err == nil && !want(s) {
			err = fmt.Errorf("unprotected for %.1f s", s)
		}
		return err
	}
}

// memory is the anonymous memory of a member's sidecar, in bytes.
func memory(t *testing.T, m *members.Member) int64 {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", m.SidecarLife().PID))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var kib int64
		if n, _ := fmt.Sscanf(lines.Text(), "RssAnon: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	t.Fatal("the system does not say how much memory a process has")
	return 0
}

// TestCredentialsThatChangeInTheirFilesAreUsedWithoutARestart revokes what the sidecars had.
func TestCredentialsThatChangeInTheirFilesAreUsedWithoutARestart(t *testing.T) {
	t.Parallel()
	minio := sharedMinIO(t)
	site := fleet.Get(t, "MinIO")
	c := enlist(t, members.Options{Members: 3}, "")
	bucket := containerOf(c.place)
	c.start()
	s := c.work(0)
	c.await("the backup is recent", c.unprotected(func(s float64) bool { return s < 10 }))
	wrong, err := site.Way(t.Context(), bucket, minio.Endpoint, sites.Nobody)
	c.must(err)
	c.must(c.Credentials(wrong.Files))
	c.await("the metrics say that nothing is uploaded", c.unprotected(func(s float64) bool { return s >= 5 }))
	right, err := site.Way(t.Context(), bucket, minio.Endpoint, sites.Owner)
	c.must(err)
	c.must(c.Credentials(right.Files))
	c.await("the backup has caught up", c.unprotected(func(s float64) bool { return s < 5 }))
	s.end()
	c.proves()
	for _, m := range c.Members() {
		if l := m.SidecarLife(); l.Starts != 1 {
			t.Errorf("the sidecar of %s was started %d times: %q", m.Name, l.Starts, l.Exits)
		}
	}
}
