package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Scale says how many members are listed, how many pods there are and how peers are reached, on
// the way to what the specification wants. It depends on its argument alone.
//
// The rules are tried in this order, and the first that fits decides:
//
//	asleep      no member is wanted
//	woken       no pod exists: as many come back as went
//	unborn      there is nothing to lose yet
//	mended      the configuration was lost, or lists members that have no pod
//	returned    pods are missing of members that did not leave, and no other takes part
//	asked       nobody takes part, and some are not wanted any more
//	unknown     no member says who belongs to the cluster: nothing changes
//	scheme      of a cluster whose members have all joined
//	size        out or in, from whatever was reached on the way to another size
func Scale(f ScaleFacts) ScaleStep {
	s := f.decide()
	if s.Done = s.Waits == "" && s.Members == f.Listed && s.Replicas == f.Replicas && s.PeerTLS == f.PeerTLS; s.Done && f.Want > 0 {
		s.Reason = fmt.Sprintf("%s, as wanted", members(f.Want))
	}
	s.PeerCertificates = f.WantPeerTLS || f.PeerTLS || s.PeerTLS || !f.MembersKnown && f.Mounted ||
		slices.ContainsFunc(f.Members, func(m Member) bool { return m.PeerTLS })
	return s
}

func (f ScaleFacts) decide() ScaleStep {
	switch {
	case f.Want == 0:
		return f.asleep()
	case f.Replicas == 0:
		return f.wake()
	case f.Unborn:
		return f.unborn()
	case f.Listed == 0:
		return f.relist()
	case f.Replicas < f.Listed && f.Listed <= f.Want:
		s := f.keep("every listed member gets its pod")
		s.Replicas = f.Listed
		return s
	case !f.MembersKnown && f.Idle && f.Replicas < f.lived():
		return f.comeBack()
	case !f.MembersKnown && f.Idle && f.Replicas > f.Listed && f.Split == "":
		s := f.keep("no member takes part, and those who are to leave may have data: all are wanted again, and ask each other")
		s.Members = f.Replicas
		return s
	case !f.MembersKnown:
		s := f.keep("nothing is changed while the members are not known")
		s.Waits = cmp.Or(f.Split, "a member that answers and sees a leader")
		return s
	case f.settled() && f.scheme() != "":
		return f.switchScheme()
	case f.Want > f.Listed:
		return f.out()
	case f.Want < f.Listed:
		return f.in()
	}
	return f.finish()
}

// keep is everything as it is.
func (f ScaleFacts) keep(format string, args ...any) ScaleStep {
	return ScaleStep{Members: f.Listed, Replicas: f.Replicas, PeerTLS: f.PeerTLS, Reason: fmt.Sprintf(format, args...)}
}

// asleep keeps the list of those who slept, so that the same ones are woken: fewer could be no
// majority of what the members' data say.
func (f ScaleFacts) asleep() ScaleStep {
	s := f.keep("no member is wanted: the volumes stay, and %s can be woken", members(max(f.Listed, f.Replicas, f.top(), f.slept())))
	s.Members = max(f.Listed, f.Replicas, f.top(), f.slept())
	if f.Listed == 0 {
		s.PeerTLS = f.unlistedTLS()
	}
	switch {
	case f.Replicas == 0 && f.Orphaned && f.SleepHold != "":
		s.Replicas, s.Waits = s.Members, f.SleepHold
		return s
	case f.Replicas > 0 && f.SleepHold != "":
		s.Waits = f.SleepHold
		return s
	case f.Replicas == 0 && s.Members <= 1:
		s.PeerTLS = f.WantPeerTLS // nobody reaches a single member
	}
	s.Replicas = 0
	return s
}

func (f ScaleFacts) wake() ScaleStep {
	if f.SleepHold != "" {
		s := f.keep("%s to come back", members(f.Want))
		s.Waits = f.SleepHold
		return s
	}
	n := f.slept()
	if n == 0 {
		return ScaleStep{Members: f.Want, Replicas: f.Want, PeerTLS: f.WantPeerTLS, Reason: fmt.Sprintf("%s begin: no volume has data", members(f.Want))}
	}
	why := "as many members are woken as fell asleep"
	switch {
	case f.Listed > 0 && f.lived() > f.Listed:
		n, why = f.lived(), "as many members come back as had not left"
	case f.Listed > 0:
	case f.MembersKnown:
		why = "the members that there are get their StatefulSet back"
	default:
		why = "as many members come back as there are volumes of, which alone are left to tell how many there were"
	}
	s := ScaleStep{Members: n, Replicas: n, PeerTLS: f.PeerTLS, Reason: fmt.Sprintf("%s: %d", why, n)}
	switch {
	case f.Listed == 0:
		s.PeerTLS = f.unlistedTLS()
	case n == 1 && f.Pods == 0: // one that is there has the former certificates, or none
		s.PeerTLS = f.WantPeerTLS
	}
	return s
}

// unlistedTLS is the scheme of members of which no configuration tells it.
func (f ScaleFacts) unlistedTLS() bool {
	if f.MembersKnown {
		return slices.ContainsFunc(f.Members, func(m Member) bool { return m.PeerTLS })
	}
	return f.WantPeerTLS
}

func (f ScaleFacts) unborn() ScaleStep {
	s := f.keep("%s begin: no cluster was begun before", members(f.Want))
	s.Members, s.PeerTLS = f.Want, f.WantPeerTLS
	if f.Listed == f.Want {
		s.Replicas = f.Want
	}
	return s
}

// relist writes a configuration that was lost.
func (f ScaleFacts) relist() ScaleStep {
	s := f.keep("the configuration is gone: it lists everybody who has a pod or is a member")
	s.Members, s.PeerTLS = max(f.Replicas, f.top()), f.unlistedTLS()
	return s
}

// settled says that exactly the listed members vote, and have pods.
func (f ScaleFacts) settled() bool {
	return f.top() <= f.Listed && f.Replicas == f.Listed && f.missing() == ""
}

// missing are listed members that do not vote yet.
func (f ScaleFacts) missing() string {
	var out []string
	for i := range int(f.Listed) {
		switch m, ok := f.member(i); {
		case !ok:
			out = append(out, fmt.Sprintf("member %d to join", i))
		case !m.Voter:
			out = append(out, fmt.Sprintf("%s to catch up and vote", m.Name))
		}
	}
	return strings.Join(out, ", ")
}

// ill are the members below n that are no healthy voters.
func (f ScaleFacts) ill(n int32) string {
	var out []string
	for i := range int(n) {
		if m, ok := f.member(i); !ok {
			out = append(out, fmt.Sprintf("member %d has not joined", i))
		} else if !m.Voter || !m.Healthy {
			out = append(out, m.Name+" is no healthy voter")
		}
	}
	return strings.Join(out, ", ")
}

// comeBack wants the pods of members again that somebody took away before they had left: those that are there are no majority of what
// etcd lists. They are listed first, see out.
func (f ScaleFacts) comeBack() ScaleStep {
	s := f.keep("no member takes part, and %s did not leave: all are wanted again", members(f.lived()-f.Replicas))
	if s.Members = max(f.Listed, f.lived()); s.Members == f.Listed {
		s.Replicas = f.lived()
	}
	return s
}

// out lists the new members. Their pods follow with the next look, see mended: a member that is
// not listed yet would be refused, or removed again.
func (f ScaleFacts) out() ScaleStep {
	s := f.keep("from %s to %d", members(f.Listed), f.Want)
	if why := f.ill(f.Listed); why != "" {
		s.Waits = "healthy members to grow from: " + why
		return s
	}
	if f.PeerTLS && f.CertificateFault != "" {
		s.Waits = "certificates with which new members are reached: " + f.CertificateFault
		return s
	}
	s.Members = f.Want
	return s
}

// in lists those who stay. The sidecars remove the others.
func (f ScaleFacts) in() ScaleStep {
	s := f.keep("from %s to %d", members(f.Listed), f.Want)
	leave := slices.ContainsFunc(f.Members, func(m Member) bool { return m.Ordinal >= int(f.Want) && m.Voter })
	// Without a voter that leaves only those are taken off the list who never joined, and those who
	// stay need not be complete. A single member decides alone about its data, so it must have some.
	if why := f.ill(f.Want); why != "" && (leave || f.Want == 1) {
		s.Waits = "those who stay to be healthy: " + why
		return s
	}
	if leave && !f.NoStore && !f.BackupHealthy {
		s.Waits = "healthy backups, before copies of the data are given up" + because(f.BackupWhy)
		return s
	}
	s.Members = f.Want
	return s
}

// finish waits until the members are those that are listed, then lets the other pods go.
func (f ScaleFacts) finish() ScaleStep {
	s := f.keep("%s", members(f.Want))
	if f.top() > f.Listed {
		// Those who are wanted do not ask those who are not listed. If all of them lost their data now,
		// they would wait for ever for a cluster that is alive.
		if f.nobodyStays() {
			s.Members = max(f.Replicas, f.top())
			s.Reason = "nobody that is to stay takes part: the others are wanted again until somebody does"
			return s
		}
		var left []string
		for _, m := range f.Members {
			if m.Ordinal >= int(f.Listed) {
				left = append(left, m.Name)
			}
		}
		s.Waits = "the sidecars to remove " + strings.Join(left, ", ") + ", which they do only while those who stay have a majority"
		return s
	}
	if f.Replicas > f.Listed {
		voters, healthy := f.votes()
		if voters == 0 || healthy < quorum(voters) {
			s.Waits = fmt.Sprintf("a majority: %d of %d members that vote are healthy", healthy, voters)
			return s
		}
		s.Replicas, s.Reason = f.Listed, "the members have left, and their pods go"
		return s
	}
	s.Waits = f.missing()
	return s
}

// nobodyStays: of those who are listed all are down.
func (f ScaleFacts) nobodyStays() bool {
	return !slices.ContainsFunc(f.Members, func(m Member) bool { return m.Ordinal < int(f.Listed) && !m.Down })
}

// members is a number of them in words.
func members(n int32) string {
	if n == 1 {
		return "1 member"
	}
	return fmt.Sprintf("%d members", n)
}
