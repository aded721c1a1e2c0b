package upkeep

import (
	"fmt"
	"slices"
	"strings"
)

// URLChange is the next step towards the wanted peer URLs of the own member.
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
	URLsRestart URLAct = "restart" // they are listed, but etcd runs with the former ones
)

// URLFacts are what a change of peer URLs is decided from.
type URLFacts struct {
	View
	Wanted []Wanted
	// Running are the peer URLs that each member's etcd was started with, by name, as far as they
	// are known.
	Running map[string][]string
}

// DecidePeerURLs changes the own member only, and only when every wanted member of a lower
// ordinal has changed, restarted and is healthy again: one at a time, without anybody in charge.
// Only one that runs with the wanted URLs and is listed with others, after a change that was taken
// back, waits for nobody: those who look for it elsewhere cannot find it healthy.
func DecidePeerURLs(f URLFacts) URLChange {
	self, listed := f.Member(f.Self)
	i := slices.IndexFunc(f.Wanted, func(w Wanted) bool { return listed && w.Name == self.Name && w.Name != "" })
	if i < 0 {
		return URLChange{Act: URLsWait, Reason: "the member is not listed or not wanted"}
	}
	want := f.Wanted[i].PeerURLs
	update := !sameURLs(self.PeerURLs, want)
	running, known := f.Running[self.Name]
	restart := known && !sameURLs(running, want)
	elsewhere := update && known && !restart
	switch {
	case len(want) == 0:
		return URLChange{Act: URLsWait, Reason: "the configuration names no peer URL of " + self.Name}
	case !update && !restart:
		return URLChange{Act: URLsKeep, Reason: "the peer URLs are the wanted ones"}
	case elsewhere && !self.Learner:
		return f.list(URLsList, self, want)
	case f.Leader == 0 && !update:
		// Perhaps because the members look for this one where it does not listen yet.
		return f.restart(self, "the cluster has no leader")
	case f.Leader == 0:
		return URLChange{Act: URLsWait, Reason: "the cluster has no leader"}
	case self.Learner:
		// etcd before 3.6.12 makes a learner a voter when its URLs are changed.
		return URLChange{Act: URLsWait, Reason: "the member is a learner; its peer URLs are changed when it votes"}
	}
	for _, w := range f.Wanted {
		if w.Name == self.Name || w.Outside {
			continue
		}
		if why := f.unsettled(w, byOrdinal(w.Name, self.Name) < 0); why != "" {
			return URLChange{Act: URLsWait, Reason: why}
		}
	}
	if update {
		return f.list(URLsUpdate, self, want)
	}
	return f.restart(self, "the others are healthy")
}

func (f URLFacts) list(act URLAct, self Member, want []string) URLChange {
	return URLChange{Act: act, URLs: want, Reason: fmt.Sprintf("%s is listed with %s and wants %s", self,
		strings.Join(self.PeerURLs, ","), strings.Join(want, ","))}
}

func (f URLFacts) restart(self Member, when string) URLChange {
	return URLChange{Act: URLsRestart, Reason: fmt.Sprintf("etcd runs with the peer URLs %s, %s are listed, and %s",
		strings.Join(f.Running[self.Name], ","), strings.Join(self.PeerURLs, ","), when)}
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
	if running, known := f.Running[w.Name]; !known || !sameURLs(running, w.PeerURLs) {
		return fmt.Sprintf("%s is not known to run with its new peer URLs yet", w.Name)
	}
	return ""
}

func sameURLs(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
