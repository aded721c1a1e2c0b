package metrics

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// values are what is registered, by name and labels.
func values(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key := f.GetName()
			for _, l := range m.GetLabel() {
				key += " " + l.GetName() + "=" + l.GetValue()
			}
			switch {
			case m.GetGauge() != nil:
				all[key] = m.GetGauge().GetValue()
			case m.GetCounter() != nil:
				all[key] = m.GetCounter().GetValue()
			case m.GetHistogram() != nil:
				all[key] = float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return all
}

func TestTheCatalogueHasTheNamesOfTheOriginal(t *testing.T) {
	r := prometheus.NewRegistry()
	c := New(r, nil)
	c.Collected("Full", true, 3)
	c.Validated(time.Second, true)
	c.Restored(SingleMember, time.Second, false)
	c.Defragmented("http://a:2379", time.Second, true)
	c.ClusterSize(3)
	c.Learner(true)
	c.LearnerAdded(time.Second, true)
	c.MemberRemoved(time.Second, true)
	c.MemberPromoted(time.Second, true)
	got := values(t, r)
	for _, want := range []string{
		"etcdbr_snapshot_gc_total kind=Full succeeded=true", "etcdbr_validation_duration_seconds succeeded=true",
		"etcdbr_restoration_duration_seconds restore=single_node succeeded=false",
		"etcdbr_defragmentation_duration_seconds endpoint=http://a:2379 succeeded=true", "etcdbr_cluster_size", "etcdbr_is_learner",
		"etcdbr_is_learner_count_total succeeded=true", "etcdbr_add_learner_duration_seconds succeeded=true",
		"etcdbr_member_remove_duration_seconds succeeded=true", "etcdbr_member_promote_duration_seconds succeeded=true",
	} {
		if got[want] == 0 {
			t.Errorf("%s is %v, want a value", want, got[want])
		}
	}
	if _, err := os.Stat(netstat); err == nil {
		for _, want := range []string{"etcdbr_network_received_bytes", "etcdbr_network_transmitted_bytes"} {
			if _, is := got[want]; !is {
				t.Errorf("%s is not shown", want)
			}
		}
	}
}

// A size of 0 looked like a cluster without members.
func TestTheSizeOfTheClusterIsNotShownBeforeItIsKnown(t *testing.T) {
	r := prometheus.NewRegistry()
	c := New(r, nil)
	if got, shown := values(t, r)["etcdbr_cluster_size"]; shown {
		t.Errorf("%v is shown before it is known", got)
	}
	c.ClusterSize(3)
	if got := values(t, r)["etcdbr_cluster_size"]; got != 3 {
		t.Errorf("%v is shown, want 3", got)
	}
}

func TestOnlyTheWriterShowsTheProtection(t *testing.T) {
	now := time.Unix(10_000, 0)
	r := prometheus.NewRegistry()
	c := New(r, func() time.Time { return now })
	shown := func() map[string]float64 {
		all := values(t, r)
		for k := range all {
			if !strings.HasPrefix(k, "etcdbr_protection_") || strings.Contains(k, "_total ") { // counters are shown by all
				delete(all, k)
			}
		}
		return all
	}
	for _, c2 := range []struct {
		name string
		tell func()
		want map[string]float64
	}{
		{"nothing before it leads", func() {}, map[string]float64{}},
		{"what is known so far", func() { c.Leads(true); c.Protects(Protection{Newest: now.Add(-5 * time.Second)}) },
			map[string]float64{"etcdbr_protection_newest_snapshot_age_seconds": 5}},
		{"everything is in the bucket", func() { c.Protects(Protection{Seen: true}) },
			map[string]float64{"etcdbr_protection_unprotected_seconds": 0}},
		{"all of it", func() {
			c.Protects(Protection{Newest: now.Add(-5 * time.Second), Seen: true, Since: now.Add(-7 * time.Second), Surveyed: true, Gaps: 2, Contenders: 1, RetainUntil: time.Unix(77, 0), Level: "governance", Tampering: 3, Excluded: 4})
		}, map[string]float64{"etcdbr_protection_newest_snapshot_age_seconds": 5, "etcdbr_protection_unprotected_seconds": 7,
			"etcdbr_protection_chain_gaps": 2, "etcdbr_protection_contending_clusters": 1, "etcdbr_protection_retain_until_timestamp": 77,
			"etcdbr_protection_tamper_findings": 3, "etcdbr_protection_excluded_snapshots": 4,
			"etcdbr_protection_level level=none": 0, "etcdbr_protection_level level=unknown": 0, "etcdbr_protection_level level=advisory": 0,
			"etcdbr_protection_level level=governance": 1, "etcdbr_protection_level level=compliance": 0}},
		{"nothing after it led", func() { c.Leads(false) }, map[string]float64{}},
	} {
		c2.tell()
		if diff := cmp.Diff(c2.want, shown()); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c2.name, diff)
		}
	}
}

// An alert on a counter that appears as 1 would not see it increase.
func TestProofsAndComparisonsAreCountedFromZero(t *testing.T) {
	r := prometheus.NewRegistry()
	New(r, nil)
	got := values(t, r)
	for _, name := range []string{"etcdbr_protection_verify_total result=broken", "etcdbr_protection_compare_total result=dissent", "etcdbr_protection_compare_total result=none"} {
		if n, shown := got[name]; !shown || n != 0 {
			t.Errorf("%s is shown: %t, %v", name, shown, n)
		}
	}
	if n, shown := got["etcdbr_backup_leader"]; shown {
		t.Errorf("who has no backups to write shows that it writes them: %v", n)
	}
}

func TestTheTimeOfARestoreIsShownOnceItWasMeasured(t *testing.T) {
	r := prometheus.NewRegistry()
	c := New(r, nil)
	c.Verified(Broken, time.Unix(70, 0), time.Second)
	c.Verified(Untold, time.Unix(71, 0), time.Second)
	for _, name := range []string{"etcdbr_protection_restore_seconds", "etcdbr_protection_verified_timestamp"} {
		if got, shown := values(t, r)[name]; shown {
			t.Errorf("%s is %v before anything was proven", name, got)
		}
	}
	c.Verified(Proven, time.Unix(77, 0), 3*time.Second)
	c.Verified(Broken, time.Unix(78, 0), time.Second)
	got := values(t, r)
	if got["etcdbr_protection_restore_seconds"] != 3 || got["etcdbr_protection_verified_timestamp"] != 77 {
		t.Errorf("shown are %v", got)
	}
}

func TestTheNetworkIsLeftOutWhereItCannotBeRead(t *testing.T) {
	for _, c := range []struct {
		name, content string
		want          int
	}{
		{"readable", "TcpExt: A\nTcpExt: 1\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 0 4711 815\n", 2},
		{"other system", "", 0},
		{"torn", "IpExt: InOctets OutOctets\nIpExt: 4711\n", 0},
		{"not a number", "IpExt: InOctets OutOctets\nIpExt: x 1\n", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNetwork()
			n.path = filepath.Join(t.TempDir(), "netstat")
			if err := os.WriteFile(n.path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			r := prometheus.NewRegistry()
			r.MustRegister(n)
			got := values(t, r)
			if len(got) != c.want || c.want > 0 && got["etcdbr_network_received_bytes"] != 4711 {
				t.Errorf("shown are %v, want %d values", got, c.want)
			}
		})
	}
}

func FuzzNetstat(f *testing.F) {
	f.Add([]byte("IpExt: InNoRoutes InOctets OutOctets\nIpExt: 0 4711 815\n"))
	f.Add([]byte("IpExt:\nIpExt:\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if received, sent, err := parseNetstat(b); err != nil && (received != 0 || sent != 0) {
			t.Errorf("%d and %d in spite of %v", received, sent, err)
		}
	})
}
