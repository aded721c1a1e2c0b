package agentapi

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"druid.internal/druid/internal/agentapi/httpclient"
)

// Limits of what a sidecar reports. [Member.Bounded] keeps to them on both sides: the sidecar applies
// it before it answers, and the client after it decoded an answer.
const (
	MaxName        = 256 // bytes of an id, a version, a name or a word
	MaxURL         = 512 // bytes
	MaxText        = 600 // bytes of a sentence
	MaxMembers     = 128 // of a cluster; the resource allows 99
	MaxURLs        = 8   // of a member
	MaxTransitions = 32
	MaxMismatches  = 16
	MaxListed      = 10 // findings, or excluded snapshots
	MaxAlarms      = 4
)

// limitOf returns what the answer of a route may hold. An answer that is not JSON has no elements.
func limitOf(path string) httpclient.Limit {
	path, _, _ = strings.Cut(path, "?")
	switch path {
	case Config:
		return httpclient.Limit{Bytes: 1 << 20}
	case MemberPath: // 80 texts of 1 KiB, and 128 members of 1 KiB with 20 elements each
		return httpclient.Limit{Bytes: 256 << 10, Elements: 4 << 10}
	case Operations, Defragment, Verify, Compact: // a few kinds, each of 1 KiB with 20 elements
		return httpclient.Limit{Bytes: 32 << 10, Elements: 512}
	case Full, Delta: // one snapshot
		return httpclient.Limit{Bytes: 8 << 10, Elements: 128}
	case Latest: // 16384 deltas of half a KiB, decoded one after the other
		return httpclient.Limit{Bytes: 8 << 20}
	case TimelinePath: // 500 findings, and the windows of a long history
		return httpclient.Limit{Bytes: 4 << 20, Elements: 64 << 10}
	}
	return httpclient.Limit{Bytes: 4 << 10, Elements: 64}
}

// Clip returns a text as one line of at most so many bytes.
func Clip(text string, most int) string {
	if len(text) > 4*most { // do not split a text that is cut anyway
		text = text[:4*most]
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= most {
		return text
	}
	const mark = "..."
	cut := most - len(mark)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + mark
}

// Bounded returns the member with every text and list within the limits above. It changes no list of
// m. Of transitions and mismatches the last remain, of other lists the first.
func (m Member) Bounded() Member {
	name, text := clipTo(MaxName), clipTo(MaxText)
	m.Name, m.ID, m.ClusterID, m.Authorities = name(m.Name), name(m.ID), name(m.ClusterID), name(m.Authorities)
	m.PeerURLs = boundedURLs(m.PeerURLs)
	m.Initialization = InitState(name(string(m.Initialization)))
	m.Waiting, m.VolumeFull = text(m.Waiting), text(m.VolumeFull)
	m.Transitions = slices.Clone(lastOf(m.Transitions, MaxTransitions))
	for i := range m.Transitions {
		t := &m.Transitions[i]
		t.State, t.SubState, t.Reason, t.Message = State(name(string(t.State))), SubState(name(string(t.SubState))), Reason(name(string(t.Reason))), text(t.Message)
	}
	if m.Etcd != nil {
		e := m.Etcd.bounded()
		m.Etcd = &e
	}
	m.Data.State, m.Data.Why, m.Data.ID, m.Data.ClusterID = DataState(name(string(m.Data.State))), text(m.Data.Why), name(m.Data.ID), name(m.Data.ClusterID)
	if m.Bootstrap != nil {
		b := Bootstrap{Cluster: name(m.Bootstrap.Cluster), Nonce: name(m.Bootstrap.Nonce)}
		for _, member := range firstOf(slices.Sorted(maps.Keys(m.Bootstrap.Saw)), MaxMembers) {
			if b.Saw == nil {
				b.Saw = map[string]string{}
			}
			b.Saw[name(member)] = name(m.Bootstrap.Saw[member])
		}
		m.Bootstrap = &b
	}
	if m.Snapshots != nil {
		s := m.Snapshots.bounded()
		m.Snapshots = &s
	}
	if f := m.BackupFailure; f != nil {
		m.BackupFailure = &BackupFailure{Since: f.Since, Reason: BackupReason(name(string(f.Reason))), Message: text(f.Message)}
	}
	if m.LastRestoration != nil {
		r := *m.LastRestoration
		r.Type, r.Status, r.Message, r.Phase = name(r.Type), Outcome(name(string(r.Status))), text(r.Message), name(r.Phase)
		m.LastRestoration = &r
	}
	if m.LastDefragmentation != nil {
		d := *m.LastDefragmentation
		d.Status, d.Reason, d.Message = Outcome(name(string(d.Status))), name(d.Reason), text(d.Message)
		m.LastDefragmentation = &d
	}
	m.VolumeMismatches = slices.Clone(lastOf(m.VolumeMismatches, MaxMismatches))
	for i := range m.VolumeMismatches {
		m.VolumeMismatches[i].VolumeID = name(m.VolumeMismatches[i].VolumeID)
	}
	if m.Refusal != nil {
		r := *m.Refusal
		r.Impossible = text(r.Impossible)
		m.Refusal = &r
	}
	return m
}

func (e Etcd) bounded() Etcd {
	name := clipTo(MaxName)
	e.Version, e.Leader = name(e.Version), name(e.Leader)
	e.Alarms = slices.Clone(firstOf(e.Alarms, MaxAlarms))
	for i := range e.Alarms {
		e.Alarms[i] = name(e.Alarms[i])
	}
	e.Members = slices.Clone(firstOf(e.Members, MaxMembers))
	for i := range e.Members {
		l := &e.Members[i]
		l.ID, l.Name, l.PeerURLs, l.ClientURLs = name(l.ID), name(l.Name), boundedURLs(l.PeerURLs), boundedURLs(l.ClientURLs)
	}
	return e
}

func (s Snapshots) bounded() Snapshots {
	name, text := clipTo(MaxName), clipTo(MaxText)
	for _, u := range []**Uploaded{&s.LastFull, &s.LastDelta} {
		if *u != nil {
			one := **u
			one.Name = name(one.Name)
			*u = &one
		}
	}
	if s.Proof != nil {
		p := *s.Proof
		p.Result, p.Base, p.Message = ProofResult(name(string(p.Result))), name(p.Base), text(p.Message)
		s.Proof = &p
	}
	if s.Bucket != nil {
		b := *s.Bucket
		b.Level, b.Protection = name(b.Level), text(b.Protection)
		b.Tampering = slices.Clone(firstOf(b.Tampering, MaxListed))
		for i := range b.Tampering {
			b.Tampering[i] = Tampering{Code: name(b.Tampering[i].Code), Text: text(b.Tampering[i].Text)}
		}
		b.Excluded = slices.Clone(firstOf(b.Excluded, MaxListed))
		for i := range b.Excluded {
			b.Excluded[i] = text(b.Excluded[i])
		}
		s.Bucket = &b
	}
	return s
}

// bounded returns the operation with its texts within the limits.
func (o Operation) bounded() Operation {
	name := clipTo(MaxName)
	o.Kind, o.Status, o.Phase, o.Message = name(o.Kind), Outcome(name(string(o.Status))), name(o.Phase), Clip(o.Message, MaxText)
	if o.Proved != nil {
		o.Proved = &Proved{Base: name(o.Proved.Base), EndRevision: o.Proved.EndRevision}
	}
	return o
}

// bounded returns the snapshot with its texts within the limits.
func (s Snapshot) bounded() Snapshot {
	name := clipTo(MaxName)
	s.Kind, s.SnapDir, s.SnapName, s.CompressionSuffix = name(s.Kind), name(s.SnapDir), name(s.SnapName), name(s.CompressionSuffix)
	s.Prefix, s.Digest, s.Suspect, s.Mode = Clip(s.Prefix, 4*MaxName), name(s.Digest), Clip(s.Suspect, MaxText), name(s.Mode)
	return s
}

func boundedURLs(urls []string) []string {
	urls = slices.Clone(firstOf(urls, MaxURLs))
	for i := range urls {
		urls[i] = Clip(urls[i], MaxURL)
	}
	return urls
}

func clipTo(most int) func(string) string {
	return func(text string) string { return Clip(text, most) }
}

func firstOf[T any](all []T, n int) []T { return all[:min(len(all), n)] }

func lastOf[T any](all []T, n int) []T { return all[max(0, len(all)-n):] }
