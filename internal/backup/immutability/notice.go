package immutability

import (
	"encoding/json"
	"strings"
	"time"
)

// Notice is what a run that prolonged locks tells whoever started it: one line of JSON, which Kubernetes keeps
// with the pod that has ended.
type Notice struct {
	At       time.Time `json:"extensionAt"` // when the run began, before it asked the store
	Snapshot string    `json:"snapshot"`    // name of the full that is kept locked; empty: nothing is, as Damaged says
	// End is the revision to which a restore of it goes; 0: the program is one that did not tell it yet.
	End int64 `json:"endRevision,omitempty"`
	// Until is the first end among the locks of what a restore of it reads, as it was read back; zero: none is known.
	Until time.Time `json:"protectedUntil,omitzero"`
	// Inferred: Until was computed from the bucket's policy, as the store tells no dates; nil: the program is one that did
	// not tell it yet.
	Inferred *bool `json:"inferred,omitempty"`
	Held     bool  `json:"held,omitempty"` // all of it is held without an end
	// Recorded is the name by which the program was asked to keep it, whatever is newer: then all of this is about that, or a
	// copy of it. Empty: it was asked to keep the newest, or is one that knows nothing else.
	Recorded string `json:"recorded,omitempty"`
	// Whole: this run has read what Recorded names, or that copy of it: its digests are right, and it is a database that has its
	// last revision. Unproven is why it is not although it was read.
	Whole    bool   `json:"whole,omitempty"`
	Unproven string `json:"unproven,omitempty"`
	// Newer says what a restore of the newest state would use, or trip over, that is not it; empty: nothing.
	Newer string `json:"newer,omitempty"`
	// NewestEnd is the revision to which such a restore goes.
	NewestEnd int64 `json:"newestRevision,omitempty"`
	// Released: it is newer than what runs held, and nothing is held by them any more.
	Released bool `json:"released,omitempty"`
	// Damaged says what is wrong with the newest backup, in whose place an older one is kept, or none; empty: nothing.
	Damaged string `json:"damaged,omitempty"`
	// Excluded are the names of snapshots that restores leave out, MostNamed of them at most, and ExcludedCount is how many there
	// are; nil: the program is one that did not tell it yet.
	Excluded      []string `json:"excluded,omitempty"`
	ExcludedCount *int     `json:"excludedCount,omitempty"`
}

// MostNamed is how many snapshots are named.
const MostNamed = 10

// Exclude has the notice tell of snapshots that restores leave out.
func (n *Notice) Exclude(names []string) {
	count := len(names)
	n.Excluded, n.ExcludedCount = names[:min(count, MostNamed)], &count
}

// MaxNotice bounds a notice in bytes: Kubernetes keeps no more of a pod.
const MaxNotice = 4096

// String is the line.
func (n Notice) String() string {
	const room = MaxNotice / 2 // for what JSON makes of it
	n.Damaged, n.Newer, n.Unproven = cut(n.Damaged, room), cut(n.Newer, room/4), cut(n.Unproven, room/8)
	for {
		text, err := json.Marshal(n)
		switch left := len(n.Excluded); {
		case err != nil:
			return "" // not of times and texts
		case len(text) <= MaxNotice || left == 0:
			return string(text)
		default:
			n.Excluded = n.Excluded[:left-1] // how many there are is told all the same
		}
	}
}

// cut shortens a text: both texts, and names of objects, are as those who write into the bucket want them.
func cut(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// ParseNotice finds the notice in what a pod left behind; false: there is none.
func ParseNotice(text string) (n Notice, found bool) {
	for line := range strings.Lines(text) {
		var one Notice
		if json.Unmarshal([]byte(line), &one) == nil && !one.At.IsZero() && (one.Snapshot != "" || one.Damaged != "") {
			n, found = one, true
		}
	}
	return n, found
}
