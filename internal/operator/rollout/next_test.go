package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var testNow = time.Date(2025, 6, 1, 3, 0, 0, 0, time.UTC)

// healthy is a cluster of n members that have the former template; the last one leads.
func healthy(n int, change ...func(*Facts)) Facts {
	f := Facts{Now: testNow, Replicas: int32(n), Voters: n, Observed: true, MembersHealthy: true, BackupHealthy: true}
	for i := range n {
		f.Pods = append(f.Pods, Pod{Name: fmt.Sprintf("main-%d", i), UID: fmt.Sprintf("uid-%d", i), Ordinal: i, Ready: true, Alive: true, Participating: true, Leader: i == n-1})
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

func pod(i int, change func(*Pod)) func(*Facts) {
	return func(f *Facts) { change(&f.Pods[i]) }
}

func updated(p *Pod) { p.UpToDate = true }

// idle takes no part for certain since a minute, though its containers run.
func idle(p *Pod) {
	p.Ready, p.Participating, p.Leader, p.IdleSince = false, false, false, testNow.Add(-time.Minute)
}

// dead does not even run.
func dead(p *Pod) { idle(p); p.Alive = false }

// silent is one about which nobody knows anything.
func silent(p *Pod) { p.Ready, p.Participating, p.Leader, p.Alive = false, false, false, false }

// unready for two minutes, as the kubelet says.
func unready(p *Pod) { p.Ready, p.UnreadySince = false, testNow.Add(-2*time.Minute) }

func both(a, b func(*Pod)) func(*Pod) { return func(p *Pod) { a(p); b(p) } }

// claimGoes has its volume claim deleted, which the pod alone keeps.
func claimGoes(p *Pod) { p.ClaimGoing = "main-" + p.Name }

// failing has a sidecar that fails for two minutes.
func failing(p *Pod) { both(silent, unready)(p); p.SidecarFails = true }

func ill(f *Facts) { f.MembersHealthy, f.MembersWhy = false, "main-0 raised CORRUPT" }

func stale(f *Facts) { f.BackupHealthy, f.BackupWhy = false, "the last full is 3 days old" }

func TestWhichPodIsReplaced(t *testing.T) {
	for phrase, c := range map[string]struct {
		facts      Facts
		want       StepKind
		wantPod    string
		wantReason string // a part of it
	}{
		"no pods are wanted":                          {healthy(0), Done, "", "no pod is wanted"},
		"everything is up to date":                    {healthy(3, pod(0, updated), pod(1, updated), pod(2, updated)), Done, "", "ready"},
		"the last replaced pod is not ready":          {healthy(3, pod(0, updated), pod(1, updated), pod(2, both(updated, silent))), Wait, "", "main-2 is not ready"},
		"the followers go first, the highest ordinal": {healthy(3), Delete, "main-1", "does not lead"},
		"a follower above the leader":                 {healthy(3, pod(2, func(p *Pod) { p.Leader = false }), pod(0, func(p *Pod) { p.Leader = true })), Delete, "main-2", "does not lead"},
		"the second follower":                         {healthy(3, pod(1, updated)), Delete, "main-0", "does not lead"},
		"the leader last, which hands over":           {healthy(3, pod(0, updated), pod(1, updated)), Delete, "main-2", "it hands the leadership over when it is stopped"},
		"somebody else leads by now":                  {healthy(3, pod(0, both(updated, func(p *Pod) { p.Leader = true })), pod(1, updated), pod(2, func(p *Pod) { p.Leader = false })), Delete, "main-2", "does not lead"},
		"nobody leads":                                {healthy(3, pod(2, func(p *Pod) { p.Leader = false })), Wait, "", "an election is due"},
		"two say that they lead":                      {healthy(3, pod(0, func(p *Pod) { p.Leader = true })), Wait, "", "main-0, main-2"},
		"the template was not seen yet":               {healthy(3, func(f *Facts) { f.Observed = false }), Wait, "", "newest template"},
		"one is being replaced":                       {healthy(3, pod(0, func(p *Pod) { p.Terminating = true })), Wait, "", "main-0 is being replaced"},
		"one is stuck on a lost node":                 {healthy(3, pod(0, both(silent, func(p *Pod) { p.Terminating, p.Stuck = true, true }))), Wait, "", "remove the node"},
		"all but one stuck are up to date":            {healthy(3, pod(0, both(silent, func(p *Pod) { p.Terminating, p.Stuck = true, true })), pod(1, updated), pod(2, updated)), Wait, "", "remove the node"},
		"one does not exist":                          {healthy(3, func(f *Facts) { f.Pods = f.Pods[:2] }), Wait, "", "2 of 3 pods exist"},
		"a superfluous one is stuck on a lost node": {healthy(2, func(f *Facts) { f.Replicas, f.Voters = 1, 1 },
			pod(1, both(silent, func(p *Pod) { p.Terminating, p.Stuck = true, true }))), Delete, "main-0", "former template"},
		"one is superfluous": {healthy(3, func(f *Facts) { f.Replicas = 1; f.Voters = 1 }), Wait, "", "main-1 is one pod more"},
		"members are ill":    {healthy(3, ill), Wait, "", "CORRUPT"},
		"backups are ill":    {healthy(3, stale), Wait, "", "3 days old"},
		"backups are ill, and the template mends them":           {healthy(3, stale, func(f *Facts) { f.MendsBackup = true }), Delete, "main-1", ""},
		"there are no backups":                                   {healthy(3, stale, func(f *Facts) { f.NoStore = true }), Delete, "main-1", ""},
		"something comes first":                                  {healthy(3, func(f *Facts) { f.Hold = "the snapshot before the change of version" }), Wait, "", "snapshot before the change of version comes first"},
		"the voters are not known":                               {healthy(3, func(f *Facts) { f.Voters = 0 }), Wait, "", "not known"},
		"a member has not joined yet":                            {healthy(3, func(f *Facts) { f.Voters = 2 }), Wait, "", "2 members vote and 3 pods"},
		"two members, of which none can be spared":               {healthy(2), Wait, "", "all are needed"},
		"another one is not ready":                               {healthy(3, pod(0, func(p *Pod) { p.Ready = false })), Wait, "", "main-0 is not ready"},
		"about another one nothing is known":                     {healthy(3, pod(0, silent)), Wait, "", "whether main-0 takes part"},
		"the kubelet and the sidecar contradict each other":      {healthy(3, pod(0, both(idle, func(p *Pod) { p.Ready = true }))), Wait, "", "whether main-0 takes part"},
		"the one replaced does not come up":                      {healthy(3, pod(0, both(updated, dead))), Wait, "", "main-0 is not ready"},
		"the one replaced restores":                              {healthy(3, pod(0, both(updated, both(idle, func(p *Pod) { p.Busy = "restores" })))), Wait, "", "it restores"},
		"another one is not ready for long":                      {healthy(3, ill, pod(0, unready)), Delete, "main-0", "not ready since 2025-06-01T02:58:00Z"},
		"about another one nothing is known for long":            {healthy(3, ill, pod(0, both(silent, unready))), Delete, "main-0", "not ready since"},
		"a leader is not ready for long":                         {healthy(3, ill, pod(2, both(silent, unready))), Delete, "main-2", "not ready since"},
		"two are not ready for long":                             {healthy(3, ill, pod(0, unready), pod(1, unready)), Wait, "", "main-0 is not ready"},
		"one is not ready for long, of another nothing is known": {healthy(3, ill, pod(0, unready), pod(1, silent)), Wait, "", "main-0 is not ready"},
		"one is not ready for long, and backups are ill":         {healthy(3, ill, stale, pod(0, unready)), Wait, "", "main-0 is not ready"},
		"one is not ready for long, and something comes first":   {healthy(3, ill, pod(0, unready), func(f *Facts) { f.Hold = "the snapshot" }), Wait, "", "main-0 is not ready"},
		"one is not ready for long, and two vote":                {healthy(3, ill, pod(0, unready), func(f *Facts) { f.Voters = 2 }), Wait, "", "main-0 is not ready"},
		"one is not ready for long, and works":                   {healthy(3, ill, pod(0, both(unready, func(p *Pod) { p.Busy = "restores" }))), Wait, "", "main-0 is not ready"},
		"a single member is not ready for long":                  {healthy(1, ill, pod(0, both(silent, unready))), Wait, "", "whether main-0 takes part"},
		"a leader's sidecar fails, and backups are ill":          {healthy(3, stale, pod(2, failing)), Delete, "main-2", "not ready since"},
		"a sidecar fails, and something comes first":             {healthy(3, pod(2, failing), func(f *Facts) { f.Hold = "the snapshot" }), Wait, "", "delete the pod by hand"},
		"a single member's sidecar fails":                        {healthy(1, ill, stale, pod(0, failing), func(f *Facts) { f.Voters = 0 }), Delete, "main-0", "its sidecar fails"},
		"a single member's sidecar fails for a moment":           {healthy(1, pod(0, both(failing, func(p *Pod) { p.UnreadySince = testNow.Add(-59 * time.Second) }))), Wait, "", "whether main-0 takes part"},
		"a single member's sidecar fails with the new template":  {healthy(1, pod(0, both(updated, failing))), Wait, "", "main-0 is not ready"},
		"a single member's sidecar fails, and its claim goes":    {healthy(1, pod(0, both(failing, claimGoes))), Wait, "", "whether main-0 takes part"},
		"a single member's sidecar fails, and a snapshot is due": {healthy(1, pod(0, failing), func(f *Facts) { f.Hold = "the snapshot" }), Wait, "", "delete the pod by hand"},
		"the sidecars of two fail":                               {healthy(3, stale, pod(1, failing), pod(2, failing)), Wait, "", "delete the pod by hand"},
		"one is not ready for a moment":                          {healthy(3, ill, pod(0, both(unready, func(p *Pod) { p.UnreadySince = testNow.Add(-59 * time.Second) }))), Wait, "", "main-0 is not ready"},
		"an idle one goes first":                                 {healthy(3, pod(0, idle)), Delete, "main-0", "takes no part"},
		"an idle one, though members are ill":                    {healthy(3, pod(0, idle), ill), Delete, "main-0", "takes no part"},
		"an idle one, though backups are ill":                    {healthy(3, pod(0, idle), stale), Delete, "main-0", "takes no part"},
		"an idle one, though another is stuck":                   {healthy(3, pod(0, idle), pod(1, both(silent, func(p *Pod) { p.Terminating, p.Stuck = true, true }))), Delete, "main-0", "takes no part"},
		"an idle one, but another is on its way":                 {healthy(3, pod(0, idle), pod(1, func(p *Pod) { p.Terminating = true })), Wait, "", "main-1 is being replaced"},
		"all are idle":                                           {healthy(3, pod(0, dead), pod(1, dead), pod(2, dead)), Delete, "main-2", "takes no part"},
		"all were idle, and one runs with the new template":      {healthy(3, pod(0, idle), pod(1, idle), pod(2, both(updated, idle))), Delete, "main-1", "takes no part"},
		"the new template does not run":                          {healthy(3, pod(0, idle), pod(2, both(updated, dead))), Wait, "", "main-2 has the newest template and does not run"},
		"idle for a moment only":                                 {healthy(3, pod(0, both(idle, func(p *Pod) { p.IdleSince = testNow.Add(-5 * time.Second) }))), Wait, "", "since 2025-06-01T02:59:55Z"},
		"idle, and restores":                                     {healthy(3, pod(0, both(idle, func(p *Pod) { p.Busy = "restores from the backup" }))), Wait, "", "restores from the backup"},
		"one is busy, another idle":                              {healthy(3, pod(0, idle), pod(1, both(idle, func(p *Pod) { p.Busy = "restores" }))), Delete, "main-0", "takes no part"},
		"a single member":                                        {healthy(1), Delete, "main-0", "only member"},
		"a single member, and the backups are ill":               {healthy(1, stale), Wait, "", "there is no other member"},
		"a single member without a store":                        {healthy(1, stale, func(f *Facts) { f.NoStore = true }), Delete, "main-0", "only member"},
		"a single member that does not run, backups ill":         {healthy(1, stale, pod(0, dead)), Delete, "main-0", "takes no part"},
		"a single member, ill":                                   {healthy(1, ill), Wait, "", "CORRUPT"},
		"the claim of a single member goes":                      {healthy(1, pod(0, claimGoes)), Wait, "", "main-main-0 is being deleted and goes with it, and no other member has the data: set spec.replicas to 3"},
		"the claim of a single member goes that does not run":    {healthy(1, pod(0, both(dead, claimGoes))), Wait, "", "main-main-0 is being deleted and goes with it"},
		"the claim of one of three goes":                         {healthy(3, pod(1, claimGoes)), Delete, "main-1", "does not lead"},
		"the claim of an idle one goes, and two have the data":   {healthy(3, pod(0, both(idle, claimGoes))), Delete, "main-0", "takes no part"},
		"the claim of an idle one goes, and one has the data":    {healthy(3, pod(0, both(idle, claimGoes)), pod(1, silent)), Wait, "", "the others that take part are no majority"},
		"the claims of all go, and all are idle":                 {healthy(3, pod(0, both(dead, claimGoes)), pod(1, both(dead, claimGoes)), pod(2, both(dead, claimGoes))), Wait, "", "main-2 takes no part and stays"},
		"the claim of an idle one goes, another's stays":         {healthy(3, pod(0, dead), pod(1, dead), pod(2, both(dead, claimGoes))), Delete, "main-1", "takes no part"},
		"the claim of one goes, and who votes is not known":      {healthy(3, pod(0, both(idle, claimGoes)), func(f *Facts) { f.Voters = 0 }), Wait, "", "no majority"},
		"five members, one of which is up to date and missing":   {healthy(5, pod(0, both(updated, dead))), Wait, "", "main-0 is not ready"},
	} {
		t.Run(phrase, func(t *testing.T) {
			got := Next(c.facts)
			if got.Kind != c.want || got.Pod != c.wantPod || !strings.Contains(got.Reason, c.wantReason) {
				t.Errorf("got %s %s: %s\nwant %s %s: ...%s...", got.Kind, got.Pod, got.Reason, c.want, c.wantPod, c.wantReason)
			}
			if got.Reason == "" || strings.Contains(got.Reason, "\n") {
				t.Errorf("the reason %q is not one sentence", got.Reason)
			}
			if got.Kind == Delete && got.UID != "uid-"+strings.TrimPrefix(got.Pod, "main-") {
				t.Errorf("the deletion of %s has the precondition %q", got.Pod, got.UID)
			}
		})
	}
}

func TestTheOrderInWhichPodsAreGivenDoesNotMatter(t *testing.T) {
	f := healthy(3)
	want := Next(f)
	f.Pods[0], f.Pods[2] = f.Pods[2], f.Pods[0]
	if got := Next(f); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if f.Pods[0].Name != "main-2" {
		t.Error("the caller's pods were sorted")
	}
}
