package snapshot

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Prefix is the path in a bucket below which the backups of one cluster are. It is made by
// NewPrefix alone, which returns the one form that stands in keys, so that whoever writes and
// whoever reads agree about every name. The zero value is valid: the backups are at the root.
//
// A leading slash is part of the keys, as upstream writes them:
//
//	ns--uid/etcd-main   ns--uid/etcd-main/v2/Full-…
//	/etcd-main          /etcd-main/v2/Full-…
//	(empty)             v2/Full-…
type Prefix string

// MaxPrefixLength bounds a prefix in bytes. Stores limit keys to 1024 bytes, and the longest
// name below a prefix has about 200.
const MaxPrefixLength = 512

// ErrPrefix is wrapped by every error of NewPrefix.
var ErrPrefix = errors.New("not a valid store prefix")

// NewPrefix returns the canonical form of text as upstream builds it: no doubled or trailing
// slashes and no elements ".". It refuses what a store could read differently.
func NewPrefix(text string) (Prefix, error) {
	bad := func(why string) (Prefix, error) { return "", fmt.Errorf("%w: %q %s", ErrPrefix, text, why) }
	clean, elements := path.Clean(text), strings.Split(text, "/")
	switch {
	case len(text) > MaxPrefixLength:
		return "", fmt.Errorf("%w: it has %d bytes, at most %d are possible; use a shorter one", ErrPrefix, len(text), MaxPrefixLength)
	case !utf8.ValidString(text):
		return bad("is not valid UTF-8; use printable characters")
	case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return bad("contains a control character or an invisible one; remove it")
	case strings.Contains(text, `\`):
		return bad(`contains a backslash; write / between elements`)
	case slices.ContainsFunc(elements, func(e string) bool { return e != strings.Trim(e, " ") }):
		return bad("has an element that begins or ends with a space; remove it")
	case slices.Contains(elements, ".."):
		return bad(`contains an element ".."; write the path without it`)
	case clean == "/":
		return bad("names no path; leave it empty for the root of the bucket")
	}
	if clean == "." {
		return "", nil
	}
	return Prefix(clean), nil
}

// String is the canonical form, from which NewPrefix makes the same prefix.
func (p Prefix) String() string { return string(p) }

// Set makes a Prefix the value of a command's flag.
func (p *Prefix) Set(text string) (err error) {
	*p, err = NewPrefix(text)
	return err
}

// Type names the kind of the flag's value.
func (p *Prefix) Type() string { return "string" }

// UnmarshalText makes a Prefix the value of a key in a configuration file.
func (p *Prefix) UnmarshalText(text []byte) error { return p.Set(string(text)) }

// Mistaken returns the prefixes that are easily confused with p: without its leading slash, or
// with one, and the part before the last element v1 or v2, which is rarely part of a prefix.
func (p Prefix) Mistaken() []Prefix {
	var all []Prefix
	switch unrooted, rooted := strings.CutPrefix(string(p), "/"); {
	case rooted:
		all = append(all, Prefix(unrooted))
	case p != "":
		all = append(all, "/"+p)
	}
	elements := strings.Split(string(p), "/")
	for i := len(elements) - 1; i >= 0; i-- {
		if e := Layout(elements[i]); e != V1 && e != V2 {
			continue
		}
		if before := strings.Join(elements[:i], "/"); i == 0 || before != "" {
			all = append(all, Prefix(before))
		}
		break
	}
	return all
}
