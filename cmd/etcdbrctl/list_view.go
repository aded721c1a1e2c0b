package main

import (
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// listView is what `list` prints: as a table, drawn, or as it stands with -o json.
type listView struct {
	Store    string          `json:"store"`
	Prefix   snapshot.Prefix `json:"prefix"`
	Lineages []lineageView   `json:"lineages"` // newest first
	Findings []findingView   `json:"findings"` // the gravest first
}

type lineageView struct {
	snapshot.Lineage
	Newest     snapshot.Revision `json:"newest"`     // newest revision known to have been uploaded
	Restorable []windowView      `json:"restorable"` // oldest first
	Snapshots  []snapshotView    `json:"snapshots"`  // in the order of application
}

type windowView struct {
	From     snapshot.Revision `json:"from"`
	To       snapshot.Revision `json:"to"`
	FromTime time.Time         `json:"fromTime,omitzero"`
	ToTime   time.Time         `json:"toTime,omitzero"`
	Base     string            `json:"base"`
}

type snapshotView struct {
	Name       string            `json:"name"`
	Key        string            `json:"key"`
	Version    string            `json:"version,omitempty"`
	Kind       snapshot.Kind     `json:"kind"`
	From       snapshot.Revision `json:"from"` // first revision of a delta, 0 for a full
	To         snapshot.Revision `json:"to"`   // last revision; of a full a lower bound unless Certain
	Certain    bool              `json:"certain"`
	Created    time.Time         `json:"created"`
	Stored     time.Time         `json:"stored,omitzero"` // when the store got it, by its clock; who writes can name any other time
	Size       int64             `json:"size"`            // stored bytes
	Events     int64             `json:"events,omitempty"`
	Digest     snapshot.Digest   `json:"digest,omitzero"`
	DigestOf   digested          `json:"digestOf,omitempty"` // what Digest is the SHA-256 of
	Final      bool              `json:"final,omitempty"`
	Excluded   bool              `json:"excluded,omitempty"`
	Problem    string            `json:"problem,omitempty"`
	Protection *protectionView   `json:"protection,omitempty"` // absent: the store did not tell
}

// digested is what a digest covers.
type digested string

const (
	wholeObject digested = "object"  // everything that is stored, as a manifest tells
	onlyPayload digested = "payload" // what follows the header of a native delta, as that tells
)

type protectionView struct {
	Mode  immutability.Mode `json:"mode"`
	Until time.Time         `json:"until,omitzero"`
	Hold  bool              `json:"hold,omitempty"`
}

type findingView struct {
	Severity string             `json:"severity"`
	Code     timeline.Code      `json:"code"`
	Lineage  snapshot.LineageID `json:"lineage,omitempty"`
	Key      string             `json:"key,omitempty"`
	Version  string             `json:"version,omitempty"`
	Text     string             `json:"text"`
}

func newListView(store string, prefix snapshot.Prefix, t timeline.Timeline, retention map[timeline.Ref]*immutability.Retention) listView {
	v := listView{Store: store, Prefix: prefix, Lineages: []lineageView{}, Findings: []findingView{}}
	for _, l := range t.Lineages {
		lv := lineageView{Lineage: l.Lineage, Newest: l.Newest, Restorable: []windowView{}, Snapshots: []snapshotView{}}
		for _, w := range l.Windows() {
			lv.Restorable = append(lv.Restorable, windowView{From: w.From, To: w.To, FromTime: w.FromTime, ToTime: w.ToTime, Base: w.Base.Name().String()})
		}
		for _, s := range l.Snapshots {
			lv.Snapshots = append(lv.Snapshots, newSnapshotView(s, retention[s.Ref]))
		}
		v.Lineages = append(v.Lineages, lv)
	}
	for _, f := range t.Findings {
		v.Findings = append(v.Findings, findingView{f.Severity.String(), f.Code, f.Lineage, f.Key, f.Version, f.Text})
	}
	return v
}

func newSnapshotView(s timeline.Snapshot, r *immutability.Retention) snapshotView {
	n := s.Name()
	v := snapshotView{Name: n.String(), Key: s.Key.String(), Version: s.Version, Kind: n.Kind, From: n.Start, To: s.Last, Certain: s.Certain,
		Created: n.CreatedAt(), Stored: s.Modified.UTC().Truncate(time.Second), Size: s.Size, Final: n.Final, Excluded: s.Excluded, Problem: s.Problem}
	if s.Manifest != nil {
		v.Events, v.Digest, v.DigestOf = s.Manifest.Events, s.Manifest.Digest, wholeObject
		if s.Manifest == s.Header {
			v.DigestOf = onlyPayload
		}
	}
	if r != nil {
		v.Protection = &protectionView{r.Mode, r.Until, r.Hold}
	}
	return v
}
