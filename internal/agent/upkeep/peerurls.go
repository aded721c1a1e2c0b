package upkeep

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// URLChange is the next step towards the wanted peer URLs of the own member, and towards the
// certificate authorities in its files.
type URLChange struct {
	Act    URLAct
	URLs   []string // to list
	Reason string
}

// URLAct is a kind of step.
type URLAct string

// The steps.
const (
	URLsKeep    URLAct = "keep"
	URLsWait    URLAct = "wait"
	URLsUpdate  URLAct = "update"  // list the wanted URLs, and restart etcd with them
	URLsList    URLAct = "list"    // list the wanted URLs, with which etcd runs
	URLsRestart URLAct = "restart" // etcd runs with former URLs, or with former authorities
)

// URLFacts are what a change of peer URLs, or of certificate authorities, is decided from.
type URLFacts struct {
	View
	Wanted []Wanted
	// Running is what each member's etcd was started with, by name, as far as it is known.
	Running map[string]Running
	// Authorities are what the files hold now from which the own etcd read its authorities, as in
	// Running. etcd reads certificates and keys at each handshake, but these at its start alone.
	Authorities string
	// Leaderless is for how long the own member has seen no leader.
	Leaderless time.Duration
}

// Running is what an etcd was started with.
type Running struct {
	URLs        []string // to its peers
	Authorities string   // a digest; empty: there are none, or it is not known
}

// electionTime is longer than an election takes. New authorities reach all members at about the same
// time: were each restarted in the moment without a leader that the restart of one may bring about,
// there would be no majority.
const electionTime = 30 * time.Second

// DecidePeerURLs changes the own member only, and only when every wanted member of a lower
// ordinal has changed, restarted and is healthy again: one at a time, without anybody in charge.
// Only one that runs with the wanted URLs and is listed with others, after a change that was taken
// back, waits for nobody: those who look for it elsewhere cannot find it healthy.
// New authorities have their turn when no peer URL is about to change.
func DecidePeerURLs(f URLFacts) URLChange {
	self, listed := f.Member(f.Self)
	i := slices.IndexFunc(f.Wanted, func(w Wanted) bool { return listed && w.Name == self.Name && w.Name != "" })
	if i < 0 {
		return URLChange{Act: URLsWait, Reason: "the member is not listed or not wanted"}
	}
	want := f.Wanted[i].PeerURLs
	update := !sameURLs(self.PeerURLs, want)
	running, known := f.Running[self.Name]
	moved := known && !sameURLs(running.URLs, want)
	stale := !update && !moved && running.Authorities != "" && f.Authorities != "" && running.Authorities != f.Authorities
	elsewhere := update && known && !moved
	switch {
	case len(want) == 0:
		return URLChange{Act: URLsWait, Reason: "the configuration names no peer URL of " + self.Name}
	case !update && !moved && !stale:
		return URLChange{Act: URLsKeep, Reason: "the peer URLs are the wanted ones"}
	case elsewhere && !self.Learner:
		return f.list(URLsList, self, want)
	case f.Leader == 0 && !update && (moved || f.Leaderless >= electionTime):
		// Perhaps because the members look for this one where it does not listen yet, or because
		// nobody trusts anybody.
		return f.restart(self, stale, "the cluster has no leader")
	case f.Leader == 0:
		return URLChange{Act: URLsWait, Reason: "the cluster has no leader"}
	case self.Learner && stale:
		return URLChange{Act: URLsWait, Reason: "the member is a learner; its etcd is restarted with the new certificate authorities when it votes"}
	case self.Learner:
		// etcd before 3.6.12 makes a learner a voter when its URLs are changed.
		return URLChange{Act: URLsWait, Reason: "the member is a learner; its peer URLs are changed when it votes"}
	}
	for _, w := range f.Wanted {
		if w.Name == self.Name || w.Outside {
			continue
		}
		why := f.unsettled(w, byOrdinal(w.Name, self.Name) < 0)
		if why == "" && stale {
			why = f.untrusting(w, byOrdinal(w.Name, self.Name) < 0)
		}
		if why != "" {
			return URLChange{Act: URLsWait, Reason: why}
		}
	}
	if update {
		return f.list(URLsUpdate, self, want)
	}
	return f.restart(self, stale, "the others are healthy")
}

func (f URLFacts) list(act URLAct, self Member, want []string) URLChange {
	return URLChange{Act: act, URLs: want, Reason: fmt.Sprintf("%s is listed with %s and wants %s", self,
		strings.Join(self.PeerURLs, ","), strings.Join(want, ","))}
}

func (f URLFacts) restart(self Member, stale bool, when string) URLChange {
	if stale {
		return URLChange{Act: URLsRestart, Reason: "etcd runs with former certificate authorities, its files hold others, and " + when}
	}
	return URLChange{Act: URLsRestart, Reason: fmt.Sprintf("etcd runs with the peer URLs %s, %s are listed, and %s",
		strings.Join(f.Running[self.Name].URLs, ","), strings.Join(self.PeerURLs, ","), when)}
}

// unsettled says why another member must be waited for: one before this one has to have finished,
// one after it to be healthy. Empty: it need not.
func (f URLFacts) unsettled(w Wanted, before bool) string {
	i := slices.IndexFunc(f.Members, func(m Member) bool { return m.Name == w.Name })
	switch {
	case i < 0:
		return fmt.Sprintf("%s has not joined", w.Name)
	case !f.Members[i].Healthy():
		return fmt.Sprintf("%s is not healthy: %s", w.Name, f.Members[i].Ill)
	case !before:
		return ""
	case !sameURLs(f.Members[i].PeerURLs, w.PeerURLs):
		return fmt.Sprintf("%s changes its peer URLs first", w.Name)
	}
	if running, known := f.Running[w.Name]; !known || !sameURLs(running.URLs, w.PeerURLs) {
		return fmt.Sprintf("%s is not known to run with its new peer URLs yet", w.Name)
	}
	return ""
}

// untrusting says why another member, which is healthy, must be waited for before etcd is restarted
// with new authorities: one before this one has to run with the same ones, and one after it must not
// be about to change its peer URLs. Empty: it need not.
func (f URLFacts) untrusting(w Wanted, before bool) string {
	running, known := f.Running[w.Name]
	listed := slices.ContainsFunc(f.Members, func(m Member) bool { return m.Name == w.Name && sameURLs(m.PeerURLs, w.PeerURLs) })
	switch {
	case !before && (!listed || known && !sameURLs(running.URLs, w.PeerURLs)):
		return fmt.Sprintf("%s changes its peer URLs first", w.Name)
	case before && running.Authorities != f.Authorities:
		return fmt.Sprintf("%s is not known to run with the new certificate authorities yet", w.Name)
	}
	return ""
}

func sameURLs(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
