package config

import (
	"fmt"
	"strings"
)

// Error is everything that is wrong with a configuration. Each problem is one line that says where
// it is, what is wrong and what to do.
type Error struct{ Problems []string }

// Error is all of them, a line each.
func (e *Error) Error() string { return strings.Join(e.Problems, "\n") }

// Notice is something that works, or is accepted, and that a person should know of.
type Notice struct {
	What    string // the same words for the same kind of notice
	Setting string // the field or flag
	Remedy  string
}

// The kinds of notices.
const (
	Deprecated = "a setting is deprecated"
	NoEffect   = "settings have no effect"
)

// origin knows where the settings were given, and collects what is wrong with them.
type origin struct {
	file     string            // empty: flags
	lines    map[string]int    // in the file, by path
	flags    map[string]string // without dashes, by path
	bad      map[string]bool   // paths of settings that could not be read
	problems []string
}

// given reports whether a setting was named at all.
func (o *origin) given(path string) bool {
	_, line := o.lines[path]
	_, flag := o.flags[path]
	return line || flag
}

// name is how the person who gave a setting calls it.
func (o *origin) name(s setting) string {
	if o.file != "" {
		return s.path
	}
	if flag, ok := o.flags[s.path]; ok {
		return "--" + flag
	}
	if s.flag != "" {
		return "--" + s.flag
	}
	return s.path
}

// at is name with the place, for the beginning of a problem.
func (o *origin) at(s setting) string {
	if o.file == "" {
		return o.name(s)
	}
	return o.place(o.lines[s.path]) + s.path
}

// place is a line of the file; 0: the file.
func (o *origin) place(line int) string {
	if line == 0 {
		return o.file + ": "
	}
	return fmt.Sprintf("%s:%d: ", o.file, line)
}

// add collects an error, each of its lines a problem of its own.
func (o *origin) add(where string, err error) {
	if err == nil {
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		o.problems = append(o.problems, where+": "+strings.Join(strings.Fields(line), " "))
	}
}

// err is what was collected.
func (o *origin) err() error {
	if len(o.problems) == 0 {
		return nil
	}
	return &Error{o.problems}
}

// notices are told of the settings that were given.
func (o *origin) notices(rows []setting) []Notice {
	var all []Notice
	for _, s := range rows {
		if s.deprecated != "" && o.given(s.path) {
			all = append(all, Notice{Deprecated, o.name(s), s.deprecated})
		}
	}
	for _, missing := range []struct{ section, why string }{
		{"controllers.compaction", "this version has no compaction controller"},
		{"controllers.secret", "no controller works on Secrets, which an admission policy protects"},
	} {
		var names []string
		for _, s := range rows {
			if strings.HasPrefix(s.path, missing.section+".") && o.given(s.path) {
				names = append(names, o.name(s))
			}
		}
		if len(names) > 0 {
			all = append(all, Notice{NoEffect, strings.Join(names, ", "), missing.why + "; they are accepted so that a configuration need not be changed"})
		}
	}
	return all
}
