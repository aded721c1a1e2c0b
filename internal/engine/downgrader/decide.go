package downgrader

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Member is what one member says of itself.
type Member struct {
	Name    string `json:"name"` // its id, if it never started
	Version string `json:"version,omitempty"`
	Storage string `json:"storageVersion,omitempty"` // whose form its data have; empty below 3.6
	// Allowed is the version to which a downgrade is allowed, as far as it knows; empty: to none.
	Allowed string `json:"downgradeTo,omitempty"`
	Learner bool   `json:"learner,omitempty"`
	Problem string `json:"problem,omitempty"` // why it could not be asked
}

// State is how far a downgrade is.
type State string

// The states, in the order in which they follow each other.
const (
	Refused    State = "refused"    // something stands against it; nothing was changed
	Due        State = "due"        // it can be allowed
	Converting State = "converting" // it is allowed, and data have the form of the version that runs
	Ready      State = "ready"      // each member may be started with the earlier version
	Done       State = "done"       // all members run the earlier version
)

// Verdict is a state with its reasons, one sentence each.
type Verdict struct {
	State   State    `json:"state"`
	Reasons []string `json:"reasons,omitempty"`
}

var minorVersion = regexp.MustCompile(`^[0-9]+\.[0-9]+$`)

// ParseVersion accepts a minor version such as 3.5.
func ParseVersion(s string) (string, error) {
	if !minorVersion.MatchString(s) {
		return "", fmt.Errorf("%q is no minor version of etcd: write it like 3.5", s)
	}
	return s, nil
}

// Decide says how far the downgrade to a minor version is. It depends on its arguments alone.
func Decide(members []Member, to string) Verdict {
	var against, behind []string
	allowed, running := false, 0
	for _, m := range members {
		switch {
		case m.Problem != "":
			against = append(against, fmt.Sprintf("%s cannot be asked: %s", m.Name, m.Problem))
			continue
		case m.Learner:
			against = append(against, m.Name+" has no vote yet: wait until it is promoted, or remove it")
		case m.Allowed != "" && !is(m.Allowed, to):
			against = append(against, fmt.Sprintf("a downgrade to %s goes on, as %s says: finish it or end it first", m.Allowed, m.Name))
		}
		allowed = allowed || is(m.Allowed, to)
		switch {
		case is(m.Version, to):
			running++
		case !is(m.Storage, to):
			behind = append(behind, fmt.Sprintf("the data of %s have the form of etcd %s", m.Name, m.Storage))
		}
	}
	switch {
	case len(members) == 0:
		return Verdict{Refused, []string{"the cluster lists no member"}}
	case len(against) > 0:
		return Verdict{Refused, against}
	case running == len(members):
		return Verdict{State: Done}
	case !allowed:
		return Verdict{State: Due}
	case len(behind) > 0:
		return Verdict{Converting, behind}
	}
	return Verdict{State: Ready}
}

// precedes says whether all members run the minor version after this one.
func precedes(minor string, members []Member) bool {
	major, n, _ := strings.Cut(minor, ".")
	number, err := strconv.Atoi(n)
	return err == nil && !slices.ContainsFunc(members, func(m Member) bool { return !is(m.Version, fmt.Sprintf("%s.%d", major, number+1)) })
}

// is says whether a version, such as 3.5.21, is of a minor version.
func is(version, minor string) bool { return version == minor || strings.HasPrefix(version, minor+".") }
