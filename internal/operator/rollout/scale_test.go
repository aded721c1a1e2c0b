package rollout

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// settled is a cluster of n members that wants nothing else.
func settled(n int, change ...func(*ScaleFacts)) ScaleFacts {
	f := ScaleFacts{Want: int32(n), Listed: int32(n), Replicas: int32(n), Volumes: int32(n), MembersKnown: true, BackupHealthy: true}
	for i := range n {
		f.Members = append(f.Members, Member{Ordinal: i, Name: fmt.Sprintf("main-%d", i), Voter: true, Healthy: true})
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

func want(n int32) func(*ScaleFacts)     { return func(f *ScaleFacts) { f.Want = n } }
func listed(n int32) func(*ScaleFacts)   { return func(f *ScaleFacts) { f.Listed = n } }
func replicas(n int32) func(*ScaleFacts) { return func(f *ScaleFacts) { f.Replicas = n } }
func volumes(n int32) func(*ScaleFacts)  { return func(f *ScaleFacts) { f.Volumes = n } }
func unknown(f *ScaleFacts)              { f.Members, f.MembersKnown = nil, false }
func unborn(f *ScaleFacts)               { unknown(f); f.Unborn = true }
func noBackup(f *ScaleFacts)             { f.BackupHealthy, f.BackupWhy = false, "the bucket does not answer" }
func wantTLS(f *ScaleFacts)              { f.WantPeerTLS = true }
func listedTLS(f *ScaleFacts)            { f.PeerTLS = true }
func mounted(f *ScaleFacts)              { f.Mounted = true }
func otherwise(f *ScaleFacts)            { f.Otherwise = "main-1" }
func misnamed(f *ScaleFacts)             { f.CertificateFault = "it does not name main-1" }

func each(change func(*Member), ordinals ...int) func(*ScaleFacts) {
	return func(f *ScaleFacts) {
		for _, i := range ordinals {
			change(&f.Members[i])
		}
	}
}

func nobody(f *ScaleFacts)   { f.Idle = true }
func orphaned(f *ScaleFacts) { f.Orphaned = true }
func hold(f *ScaleFacts)     { f.SleepHold = "the full snapshot" }

func lived(n int32) func(*ScaleFacts) { return func(f *ScaleFacts) { f.Lived = n } }

func tls(m *Member)     { m.PeerTLS = true }
func learner(m *Member) { m.Voter, m.Healthy = false, false }
func sick(m *Member)    { m.Healthy = false }
func down(m *Member)    { m.Healthy, m.Down = false, true }

func TestHowTheNumberOfMembersChanges(t *testing.T) {
	type values struct {
		Members, Replicas   int32
		TLS, Certs, Settled bool
	}
	for phrase, c := range map[string]struct {
		facts     ScaleFacts
		want      values
		wantWaits string // a part of it; empty: it waits for nothing
	}{
		"as wanted":           {settled(3), values{Members: 3, Replicas: 3, Settled: true}, ""},
		"as wanted, with TLS": {settled(3, wantTLS, listedTLS, mounted, each(tls, 0, 1, 2)), values{3, 3, true, true, true}, ""},
		"StatefulSet and configuration were deleted around them": {settled(3, listed(0), replicas(0), volumes(5)), values{Members: 3, Replicas: 3}, ""},
		"the same, they use TLS":                                 {settled(3, listed(0), replicas(0), volumes(3), each(tls, 0, 1, 2)), values{3, 3, true, true, false}, ""},
		"the same, one joins":                                    {settled(4, listed(0), replicas(0), volumes(5)), values{Members: 5, Replicas: 5}, ""},
		"the same, and nobody answers":                           {settled(3, listed(0), replicas(0), volumes(5), unknown), values{Members: 5, Replicas: 5}, ""},
		"a new cluster":                                          {ScaleFacts{Want: 3, WantPeerTLS: true}, values{3, 3, true, true, false}, ""},
		"a new cluster, asleep from birth":                       {ScaleFacts{}, values{Settled: true}, ""},
		"a new cluster changes its size before its first pod":    {ScaleFacts{Want: 1, Listed: 3}, values{Members: 1, Replicas: 1}, ""},

		"1 to 3: the members are listed first":        {settled(1, want(3)), values{Members: 3, Replicas: 1}, ""},
		"1 to 3: then come the pods":                  {settled(1, want(3), listed(3)), values{Members: 3, Replicas: 3}, ""},
		"1 to 3: then they join":                      {settled(1, want(3), listed(3), replicas(3)), values{Members: 3, Replicas: 3}, "member 1 to join, member 2 to join"},
		"1 to 3: one is a learner":                    {settled(3, each(learner, 1)), values{Members: 3, Replicas: 3}, "main-1 to catch up and vote"},
		"1 to 3: the one member is ill":               {settled(1, want(3), each(sick, 0)), values{Members: 1, Replicas: 1}, "main-0 is no healthy voter"},
		"1 to 3: nobody answers":                      {settled(1, want(3), unknown), values{Members: 1, Replicas: 1}, "a member that answers"},
		"1 to 3: nobody answers, but they are listed": {settled(1, want(3), listed(3), unknown), values{Members: 3, Replicas: 3}, ""},
		"1 to 3: backups are ill":                     {settled(1, want(3), noBackup), values{Members: 3, Replicas: 1}, ""},
		"3 to 5 while 3 are listed and 1 has joined":  {settled(1, want(5), listed(3), replicas(3)), values{Members: 3, Replicas: 3}, "member 1 has not joined"},

		"3 to 1: the members are taken off the list first": {settled(3, want(1)), values{Members: 1, Replicas: 3}, ""},
		"3 to 1: then the sidecars remove them":            {settled(3, want(1), listed(1)), values{Members: 1, Replicas: 3}, "remove main-1, main-2"},
		"3 to 1: one is left":                              {settled(2, want(1), listed(1), replicas(3)), values{Members: 1, Replicas: 3}, "remove main-1"},
		"3 to 1: then the pods go":                         {settled(1, replicas(3)), values{Members: 1, Replicas: 1}, ""},
		"3 to 1: who stays is ill":                         {settled(3, want(1), each(sick, 0)), values{Members: 3, Replicas: 3}, "main-0 is no healthy voter"},
		"3 to 1: who leaves is ill":                        {settled(3, want(1), each(down, 2)), values{Members: 1, Replicas: 3}, ""},
		"3 to 1: backups are ill":                          {settled(3, want(1), noBackup), values{Members: 3, Replicas: 3}, "the bucket does not answer"},
		"3 to 1: there are no backups":                     {settled(3, want(1), noBackup, func(f *ScaleFacts) { f.NoStore = true }), values{Members: 1, Replicas: 3}, ""},
		"3 to 1: two clusters answer":                      {settled(3, want(1), listed(1), unknown, func(f *ScaleFacts) { f.Split = "of different clusters" }), values{Members: 1, Replicas: 3}, "of different clusters"},
		"3 to 1: nobody takes part":                        {settled(3, want(1), listed(1), unknown, nobody), values{Members: 3, Replicas: 3}, ""},
		"3 to 1: the same, and all are wanted again":       {settled(3, want(1), unknown, nobody), values{Members: 3, Replicas: 3}, "a member that answers"},
		"3 to 1: nobody answers":                           {settled(3, want(1), listed(1), unknown), values{Members: 1, Replicas: 3}, "a member that answers"},
		"3 to 1: who stays is away for a moment":           {settled(3, want(1), listed(1), each(sick, 0)), values{Members: 1, Replicas: 3}, "remove main-1, main-2"},
		"3 to 1: who stays is down":                        {settled(3, want(1), listed(1), each(down, 0)), values{Members: 3, Replicas: 3}, ""},
		"3 to 1: who stays does not belong any more":       {settled(3, want(1), listed(1), func(f *ScaleFacts) { f.Members = f.Members[1:] }), values{Members: 3, Replicas: 3}, ""},
		"3 to 1: somebody took their pods away":            {settled(3, want(1), listed(1), replicas(1), unknown, lived(3), nobody), values{Members: 3, Replicas: 1}, ""},
		"3 to 1: then they are listed, and come back":      {settled(3, want(1), replicas(1), unknown, lived(3), nobody), values{Members: 3, Replicas: 3}, ""},
		"3 to 1: the same, of which one had left":          {settled(3, want(1), replicas(1), unknown, lived(2), nobody), values{Members: 3, Replicas: 3}, ""},
		"3 to 1: the same, and who stays only restarts":    {settled(3, want(1), listed(1), replicas(1), unknown, lived(3)), values{Members: 1, Replicas: 1}, "a member that answers"},
		"3 to 1: the same, and all pods were taken":        {settled(3, want(1), listed(1), replicas(0), unknown, lived(3)), values{Members: 3, Replicas: 3}, ""},
		"3 to 1: who stays has no majority":                {settled(1, replicas(3), each(sick, 0)), values{Members: 1, Replicas: 3}, "a majority: 0 of 1"},
		"3 to 1 and back, before anybody was removed":      {settled(3, listed(1)), values{Members: 3, Replicas: 3}, ""},
		"3 to 1 and back, after one was removed":           {settled(2, want(3), listed(1), replicas(3)), values{Members: 3, Replicas: 3}, ""},
		"7 to 3: all who stay are down later":              {settled(7, want(3), listed(3), each(down, 0, 1, 2)), values{Members: 7, Replicas: 7}, ""},
		"7 to 3: all who stay do not belong any more":      {settled(7, want(3), listed(3), func(f *ScaleFacts) { f.Members = f.Members[3:] }), values{Members: 7, Replicas: 7}, ""},
		"5 to 3: one of those who stay is down later":      {settled(5, want(3), listed(3), each(down, 0)), values{Members: 3, Replicas: 5}, "remove main-3, main-4"},

		"3 to 5 failed, back to 3: nobody had joined":         {settled(3, listed(5), replicas(5)), values{Members: 3, Replicas: 5}, ""},
		"3 to 5 failed, back to 3: no pod was made":           {settled(3, listed(5)), values{Members: 3, Replicas: 3}, ""},
		"3 to 5 failed, back to 3: one had joined":            {settled(4, want(3), listed(5), replicas(5)), values{Members: 3, Replicas: 5}, ""},
		"3 to 5 failed, back to 3: one is a learner for ever": {settled(4, want(3), listed(5), replicas(5), each(learner, 3), noBackup), values{Members: 3, Replicas: 5}, ""},
		"1 to 5 failed, then 3: no pod was made":              {settled(1, want(3), listed(5)), values{Members: 3, Replicas: 1}, ""},
		"1 to 5 failed, then 3: one of the wrong joined":      {settled(2, want(3), listed(5), replicas(5), func(f *ScaleFacts) { f.Members[1].Ordinal = 3 }), values{Members: 5, Replicas: 5}, "member 1 has not joined"},
		"1 to 5 failed, then 1: the one is ill":               {settled(1, listed(5), replicas(5), each(sick, 0)), values{Members: 5, Replicas: 5}, "main-0 is no healthy voter"},
		"3 to 5 failed, back to 3: the pods go":               {settled(3, replicas(5)), values{Members: 3, Replicas: 3}, ""},

		"1 to 3 with TLS and wrong certificates":   {settled(1, want(3), wantTLS, listedTLS, mounted, each(tls, 0), misnamed), values{Members: 1, Replicas: 1, TLS: true, Certs: true}, "new members are reached: it does not name main-1"},
		"TLS with wrong certificates":              {settled(3, wantTLS, mounted, misnamed), values{Members: 3, Replicas: 3, Certs: true}, "reach each other: it does not name main-1"},
		"no TLS any more, with wrong certificates": {settled(3, listedTLS, mounted, each(tls, 0, 1, 2), misnamed), values{Members: 3, Replicas: 3, Certs: true}, ""},

		"asleep":                               {settled(3, want(0), replicas(0), unknown), values{Members: 3, Settled: true}, ""},
		"to sleep":                             {settled(3, want(0)), values{Members: 3}, ""},
		"to sleep, but a snapshot comes first": {settled(3, want(0), func(f *ScaleFacts) { f.SleepHold = "the full snapshot" }), values{Members: 3, Replicas: 3}, "the full snapshot"},
		"to sleep while it shrinks":            {settled(2, want(0), listed(1), replicas(3)), values{Members: 3}, ""},
		"to sleep while it grows":              {settled(1, want(0), listed(3)), values{Members: 3}, ""},
		"asleep, with TLS, and its configuration is gone":       {settled(3, want(0), replicas(0), unknown, listed(0), wantTLS), values{3, 0, true, true, false}, ""},
		"asleep, its configuration is gone, and members answer": {settled(3, want(0), listed(0), each(tls, 0, 1, 2), hold), values{3, 3, true, true, false}, "the full snapshot"},
		"to sleep, while the StatefulSet is gone":               {settled(3, want(0), replicas(0), listed(0), orphaned, hold), values{Members: 3, Replicas: 3}, "the full snapshot"},
		"the same, and nothing comes first":                     {settled(3, want(0), replicas(0), listed(0), orphaned), values{Members: 3}, ""},
		"woken":                                                 {settled(3, replicas(0), unknown), values{Members: 3, Replicas: 3}, ""},
		"woken with fewer":                                      {settled(3, want(1), replicas(0), unknown), values{Members: 3, Replicas: 3}, ""},
		"woken with more":                                       {settled(1, want(3), replicas(0), unknown), values{Members: 1, Replicas: 1}, ""},
		"woken without volumes":                                 {settled(3, want(1), replicas(0), unknown, volumes(0)), values{Members: 1, Replicas: 1}, ""},
		"woken without its configuration":                       {settled(3, want(1), replicas(0), unknown, listed(0)), values{Members: 3, Replicas: 3}, ""},
		"woken without its configuration and a volume":          {settled(3, want(1), replicas(0), unknown, listed(0), volumes(2)), values{Members: 3, Replicas: 3}, ""},
		"woken with volumes of members that left":               {settled(1, replicas(0), unknown, volumes(3)), values{Members: 1, Replicas: 1}, ""},
		"one falls asleep, and TLS is wanted":                   {settled(1, want(0), replicas(0), unknown, wantTLS), values{1, 0, true, true, false}, ""},
		"three sleep, and TLS is wanted":                        {settled(3, want(0), replicas(0), unknown, wantTLS), values{Members: 3, Certs: true, Settled: true}, ""},
		"three are woken, and TLS is wanted":                    {settled(3, replicas(0), unknown, wantTLS), values{Members: 3, Replicas: 3, Certs: true}, ""},
		"three are woken, and TLS is not wanted any more":       {settled(3, replicas(0), unknown, listedTLS), values{Members: 3, Replicas: 3, TLS: true, Certs: true}, ""},

		"never begun, and wanted smaller: the list first": {settled(3, want(1), unborn), values{Members: 1, Replicas: 3}, ""},
		"never begun, and wanted smaller: then the pods":  {settled(3, want(1), unborn, listed(1)), values{Members: 1, Replicas: 1}, ""},
		"the configuration is gone":                       {settled(3, listed(0)), values{Members: 3, Replicas: 3}, ""},
		"the configuration is gone, with TLS":             {settled(3, listed(0), each(tls, 0, 1, 2)), values{Members: 3, Replicas: 3, TLS: true, Certs: true}, ""},
		"the configuration is gone while it shrinks":      {settled(3, listed(0), replicas(2), want(1)), values{Members: 3, Replicas: 2}, ""},

		"to https: certificates first":               {settled(3, wantTLS), values{Members: 3, Replicas: 3, Certs: true}, "certificates"},
		"to https: certificates are not in all pods": {settled(3, wantTLS, mounted, func(f *ScaleFacts) { f.Uncertified = []string{"main-2", "main-0"} }), values{Members: 3, Replicas: 3, Certs: true}, "(main-0, main-2)"},
		"to https: then the scheme is listed":        {settled(3, wantTLS, mounted), values{3, 3, true, true, false}, ""},
		"to https: one after the other":              {settled(3, wantTLS, mounted, listedTLS, each(tls, 0)), values{3, 3, true, true, false}, "main-1, main-2 to change to https"},
		"to https: a member is ill":                  {settled(3, wantTLS, mounted, each(sick, 1)), values{Members: 3, Replicas: 3, Certs: true}, "main-1 is no healthy voter"},
		"to https, and 1 to 3: the scheme first":     {settled(1, wantTLS, want(3)), values{Members: 1, Replicas: 1, Certs: true}, "certificates"},
		"to https, and 1 to 3: still the scheme":     {settled(1, wantTLS, want(3), mounted, listedTLS), values{1, 1, true, true, false}, "main-0 to change"},
		"to https, and 1 to 3: then the size":        {settled(1, wantTLS, want(3), mounted, listedTLS, each(tls, 0)), values{3, 1, true, true, false}, ""},
		"to https while it grows: the size first":    {settled(1, wantTLS, want(3), listed(3), replicas(3)), values{Members: 3, Replicas: 3, Certs: true}, "to join"},
		"to http: the scheme is listed":              {settled(3, listedTLS, mounted, each(tls, 0, 1, 2)), values{Members: 3, Replicas: 3, Certs: true}, ""},
		"to http: a pod serves clients otherwise":    {settled(3, listedTLS, mounted, each(tls, 0, 1, 2), otherwise), values{3, 3, true, true, false}, "newest template: main-1"},
		"to https: a pod serves clients otherwise":   {settled(3, wantTLS, mounted, otherwise), values{Members: 3, Replicas: 3, Certs: true}, "newest template: main-1"},
		"on the way, whatever the templates are":     {settled(3, wantTLS, mounted, listedTLS, each(tls, 0), otherwise), values{3, 3, true, true, false}, "main-1, main-2 to change to https"},
		"to http: certificates stay until all moved": {settled(3, mounted, each(tls, 2)), values{Members: 3, Replicas: 3, Certs: true}, "main-2 to change to http"},
		"to http: then the certificates go":          {settled(3, mounted), values{Members: 3, Replicas: 3, Settled: true}, ""},
		"to http: nobody answers":                    {settled(3, mounted, unknown), values{Members: 3, Replicas: 3, Certs: true}, "a member that answers"},
		"to https and back in the middle":            {settled(3, mounted, listedTLS, each(tls, 0)), values{Members: 3, Replicas: 3, Certs: true}, ""},
	} {
		t.Run(phrase, func(t *testing.T) {
			got := Scale(c.facts)
			if diff := cmp.Diff(c.want, values{got.Members, got.Replicas, got.PeerTLS, got.PeerCertificates, got.Done}); diff != "" {
				t.Errorf("(-want +got)\n%s%s; %s", diff, got.Reason, got.Waits)
			}
			if !strings.Contains(got.Waits, c.wantWaits) || (c.wantWaits == "") != (got.Waits == "") {
				t.Errorf("it waits for %q, want %q", got.Waits, c.wantWaits)
			}
			if got.Reason == "" || strings.ContainsAny(got.Reason+got.Waits, "\n") {
				t.Errorf("the reason is %q, and it waits for %q: each shall be one sentence", got.Reason, got.Waits)
			}
		})
	}
}

func TestPodsAreNotReplacedWhileMembersChangeTheirScheme(t *testing.T) {
	for phrase, c := range map[string]struct {
		facts ScaleFacts
		want  bool
	}{
		"certificates come into the pods by replacing them": {settled(3, wantTLS), false},
		"the scheme is about to be listed":                  {settled(3, wantTLS, mounted), true},
		"members change it":                                 {settled(3, wantTLS, mounted, listedTLS, each(tls, 0)), true},
		"all have changed it":                               {settled(3, wantTLS, mounted, listedTLS, each(tls, 0, 1, 2)), false},
	} {
		if got := Scale(c.facts); (got.Hold != "") != c.want {
			t.Errorf("%s: pods wait for %q, want that they wait: %t", phrase, got.Hold, c.want)
		}
	}
}
