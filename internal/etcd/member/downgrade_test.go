package member

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestADowngradeIsAllowedAndForbidden(t *testing.T) {
	t.Parallel()
	nodes, c := startCluster(t, 3, calm)
	leaderOf(t, c, nodes...)
	status := func(what, storage, to string) {
		t.Helper()
		until(t, what, func() error {
			for _, n := range nodes {
				if st := n.status(c); !strings.HasPrefix(st.StorageVersion, storage) || st.DowngradeTo != to {
					return fmt.Errorf("%s has storage version %q and goes to %q", n.cfg.Name, st.StorageVersion, st.DowngradeTo)
				}
			}
			return nil
		})
	}
	status("all data have the form of this version", "3.6.", "")
	for _, to := range []string{"3.4", "3.6", "three"} {
		is(t, "a downgrade to "+to, c.AllowDowngrade(t.Context(), to), ErrDowngradeTarget)
	}
	if err := c.ForbidDowngrade(t.Context()); err != nil {
		t.Errorf("end what did not begin: %v", err)
	}
	if err := c.AllowDowngrade(t.Context(), "3.5"); err != nil {
		t.Fatal(err)
	}
	if err := c.AllowDowngrade(t.Context(), "3.5"); !errors.Is(err, ErrDowngrading) && !errors.Is(err, ErrDowngradeTarget) {
		t.Errorf("allowed twice: %v", err)
	}
	status("all data have the form of the version before", "3.5.", "3.5.0")
	if err := c.ForbidDowngrade(t.Context()); err != nil {
		t.Fatal(err)
	}
	status("all data are as before", "3.6.", "")
}
