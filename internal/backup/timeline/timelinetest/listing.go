// Package timelinetest writes listings as short text, so that scenarios about backups can be
// read as a specification. Only tests import it.
package timelinetest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// Prefix of all keys in a listing made from text.
const Prefix = "p"

// ParseListing reads a listing, one object per line:
//
//	full 100 at 1000                    the full of revision 100, created at second 1000
//	delta 101-150 at 1010 .gz           with a compression suffix
//	full 100 at 1000 manifest last=103  with a manifest beside it that tells revision 103
//	delta 101-150 at 1010 header        with a header and without a manifest
//	manifest full 100 at 1000           a manifest without the object, or a further one
//	chunk full 100 at 1000              a part of the object
//	foreign p/v2/whatever               an object that is none of ours
//	omitted 7 foreign                   that many more objects that are none of ours
//	omitted 7 empty p/v2/KEY            that many more empty objects, one of them with this key
//	bad-owner 2                         an owner record with this number that names no owner
//
// Words that may follow an object:
//
//	.SUFFIX final dir=DIR               parts of the name; dir puts it into layout v1
//	version=ID modified=SECOND          of the stored version; modified is the second created by default
//	size=BYTES digest=LETTERS           of the stored bytes; 10 bytes and nothing known by default
//	marker hidden excluded latest empty flags
//	told-size=BYTES told-digest=LETTERS what the manifest says; size and digest (or "d") by default
//	last=REV lineage=ID parent=ID fork=REV cluster=ID earliest=SECOND latest=SECOND previous=LETTERS is=NAME compacted=REV suspect=WHY made-of=NAME
//	unreadable                          of a manifest
func ParseListing(lines []string) (timeline.Listing, error) {
	var l timeline.Listing
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := addLine(&l, words); err != nil {
			return l, fmt.Errorf("%q: %w", line, err)
		}
	}
	return l, nil
}

// MustParse is ParseListing of one text, for tests that know their text.
func MustParse(text string) timeline.Listing {
	l, err := ParseListing(strings.Split(text, "\n"))
	if err != nil {
		panic(err)
	}
	return l
}

func addLine(l *timeline.Listing, words []string) error {
	what := ""
	switch words[0] {
	case "foreign":
		_, err := snapshot.ParseKey(Prefix, words[1])
		l.Foreign = append(l.Foreign, timeline.Foreign{Key: words[1], Err: err, Probe: snapshot.IsProbe(Prefix, words[1])})
		return nil
	case "omitted":
		n, err := strconv.Atoi(words[1])
		if words[2] == "foreign" {
			l.Omitted.Foreign = n
		} else {
			l.Omitted.Empty, l.Omitted.EmptyExample = n, words[3]
		}
		return err
	case "bad-owner":
		number, err := strconv.ParseInt(words[1], 10, 64)
		ref := timeline.Ref{Key: snapshot.OwnerKey(Prefix, number)}
		l.BadOwner = &timeline.BadOwner{Ref: ref, Err: fmt.Errorf("%s is no owner record: it is not JSON", ref)}
		return err
	case "manifest", "chunk":
		what, words = words[0], words[1:]
	}
	key, words, err := parseKey(words)
	if err != nil {
		return err
	}
	o, m, flags, err := parseWords(key, words)
	if err != nil {
		return err
	}
	switch {
	case what == "chunk":
		o.Key.Object, o.Key.Chunk = snapshot.ChunkObject, fmt.Sprintf("%010d", len(l.Objects)+1)
		l.Objects = append(l.Objects, o)
		return nil
	case what == "manifest":
		stored := timeline.StoredManifest{Key: key.Manifest(), Version: o.Version, Modified: o.Modified, Marker: o.Marker, Hidden: o.Hidden, Manifest: &m}
		if flags["unreadable"] {
			stored.Manifest, stored.Err = nil, errors.New("it is not JSON")
		}
		if stored.Marker {
			stored.Manifest = nil
		}
		l.Manifests = append(l.Manifests, stored)
		return nil
	case flags["header"]:
		o.Header = &m
	case flags["manifest"]:
		l.Manifests = append(l.Manifests, timeline.StoredManifest{Key: key.Manifest(), Modified: o.Modified.Add(time.Second), Manifest: &m})
	}
	l.Objects = append(l.Objects, o)
	return nil
}

func parseKey(words []string) (snapshot.Key, []string, error) {
	if len(words) < 4 || words[2] != "at" {
		return snapshot.Key{}, nil, errors.New("want full REV at SECOND, or delta FROM-TO at SECOND")
	}
	n := snapshot.Name{Kind: snapshot.Full}
	from, to := "0", words[1]
	if words[0] == "delta" {
		n.Kind = snapshot.Delta
		from, to, _ = strings.Cut(words[1], "-")
	}
	for text, into := range map[string]*int64{from: (*int64)(&n.Start), to: (*int64)(&n.Last), words[3]: &n.Created} {
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return snapshot.Key{}, nil, err
		}
		*into = v
	}
	if from == to {
		n.Start = n.Last
	}
	words = words[4:]
	key := snapshot.SnapshotKey(Prefix, n)
	for len(words) > 0 {
		switch w := words[0]; {
		case strings.HasPrefix(w, "."):
			key.Name.Compression = snapshot.Compression(w)
		case w == "final":
			key.Name.Final = true
		case strings.HasPrefix(w, "dir="):
			key.Layout, key.Dir = snapshot.V1, strings.TrimPrefix(w, "dir=")
		default:
			return key, words, nil
		}
		words = words[1:]
	}
	return key, words, nil
}

func parseWords(key snapshot.Key, words []string) (o timeline.Object, m snapshot.Manifest, flags map[string]bool, err error) {
	o = timeline.Object{Ref: timeline.Ref{Key: key}, Size: 10, Modified: key.Name.CreatedAt()}
	m = snapshot.Manifest{Version: snapshot.ManifestVersion, Snapshot: key.Name.String(), LastRevision: key.Name.Last}
	flags = make(map[string]bool)
	told := map[string]string{"told-digest": "d"}
	for _, w := range words {
		name, value, is := strings.Cut(w, "=")
		if !is {
			flags[w] = true
			continue
		}
		number, _ := strconv.ParseInt(value, 10, 64)
		switch name {
		case "version":
			o.Version = value
		case "modified":
			o.Modified = Second(value)
		case "size":
			o.Size = number
		case "digest":
			o.Digest, told["told-digest"] = Digest(value), value
		case "told-size", "told-digest":
			told[name] = value
		case "last":
			m.LastRevision = snapshot.Revision(number)
		case "lineage":
			m.Lineage.ID = snapshot.LineageID(value)
		case "parent":
			m.Lineage.Parent = snapshot.LineageID(value)
		case "fork":
			m.Lineage.Fork = snapshot.Revision(number)
		case "cluster":
			m.ClusterID = uint64(number)
		case "earliest":
			m.Earliest = Second(value)
		case "latest":
			m.Latest = Second(value)
		case "compacted":
			m.HashKV = &snapshot.HashKV{Revision: key.Name.Last, CompactRevision: snapshot.Revision(number)}
		case "previous":
			m.Previous = Digest(value)
		case "made-of":
			m.CompactedFrom = value
		case "copied-from":
			m.CopiedFrom = value
		case "suspect":
			m.Suspect = value
		case "is":
			m.Snapshot = value
		default:
			return o, m, nil, fmt.Errorf("unknown word %q", w)
		}
	}
	o.Marker, o.Excluded, o.Latest, o.Hidden = flags["marker"], flags["excluded"], flags["latest"], flags["hidden"]
	o.Empty = flags["empty"] || flags["unreadable"]
	if flags["unreadable"] {
		o.Unreadable = "it is a symbolic link"
	}
	if o.Marker || o.Empty {
		o.Size = 0
	}
	m.Digest, m.Size = Digest(told["told-digest"]), o.Size
	if flags["header"] {
		m.Digest = snapshot.Digest{}
	}
	if size := told["told-size"]; size != "" {
		m.Size, err = strconv.ParseInt(size, 10, 64)
	}
	return o, m, flags, err
}

// Second is a time from decimal seconds, with or without a fraction.
func Second(text string) time.Time {
	d, err := time.ParseDuration(text + "s")
	if err != nil {
		panic(err)
	}
	return time.Unix(0, 0).UTC().Add(d)
}

// Digest is one made of letters, which stand for themselves.
func Digest(letters string) snapshot.Digest {
	var d snapshot.Digest
	copy(d[:], letters)
	return d
}
