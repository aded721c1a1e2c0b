package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// value is one setting of a Config, wherever it comes from. Errors say what is wrong and what to
// write instead; where it was written is added by the caller. An error of several lines is several
// errors.
type value interface {
	flagValue
	// read takes a node of the file, which is never null and never an alias.
	read(n *yaml.Node) error
	// yaml is what read reads, on one line.
	yaml() string
	// check looks at the bounds.
	check() error
}

// flagValue is what a flag sets.
type flagValue interface {
	// parse takes the texts of all occurrences of the flag, in their order, at least one.
	parse(texts []string) error
	// text is what parse reads; "" if empty.
	text() string
	// kind says what may be written, for people.
	kind() string
}

func last(texts []string) string { return texts[len(texts)-1] }

// scalar reads the text of a node with one of the tags.
func scalar(n *yaml.Node, what string, tags []string, parse func([]string) error) error {
	if n.Kind == yaml.ScalarNode && slices.Contains(tags, n.ShortTag()) {
		return parse([]string{n.Value})
	}
	return fmt.Errorf("%s where %s belongs%s", written(n), what, quotes(n, tags))
}

// resolve follows an alias to what it stands for.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// quotes is the remedy when only quotes are wrong.
func quotes(n *yaml.Node, tags []string) string {
	switch {
	case n.Kind != yaml.ScalarNode:
		return ""
	case slices.Contains(tags, "!!str"):
		return ": put it in quotes"
	case n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		return ": remove the quotes"
	}
	return ""
}

// written describes what stands in the file.
func written(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a group of fields"
	case yaml.SequenceNode:
		return "a list"
	}
	text := n.Value
	if len(text) > 40 {
		text = text[:40] + "..."
	}
	if n.ShortTag() == "!!str" {
		return strconv.Quote(text)
	}
	return strings.Join(strings.Fields(text), " ")
}

// toggle is true or false.
type toggle struct{ p *bool }

func (v toggle) parse(texts []string) error {
	b, err := strconv.ParseBool(last(texts))
	if err != nil {
		return fmt.Errorf("%q is not %s", last(texts), v.kind())
	}
	*v.p = b
	return nil
}
func (v toggle) read(n *yaml.Node) error {
	return scalar(n, "true or false", []string{"!!bool"}, v.parse)
}
func (v toggle) check() error { return nil }
func (v toggle) text() string { return strconv.FormatBool(*v.p) }
func (v toggle) yaml() string { return v.text() }
func (v toggle) kind() string { return "true or false" }

// number is a whole number from min to max.
type number[T int | int64] struct {
	p        *T
	min, max T
}

func (v number[T]) parse(texts []string) error {
	n, err := strconv.ParseInt(last(texts), 10, 64)
	if err != nil || int64(T(n)) != n {
		return fmt.Errorf("%q is not %s", last(texts), v.kind())
	}
	*v.p = T(n)
	return nil
}
func (v number[T]) read(n *yaml.Node) error { return scalar(n, v.kind(), []string{"!!int"}, v.parse) }
func (v number[T]) check() error {
	if *v.p < v.min || *v.p > v.max {
		return fmt.Errorf("%d is not %s", *v.p, v.kind())
	}
	return nil
}
func (v number[T]) text() string { return strconv.FormatInt(int64(*v.p), 10) }
func (v number[T]) yaml() string { return v.text() }
func (v number[T]) kind() string {
	if int64(v.max) == math.MaxInt64 {
		return fmt.Sprintf("a whole number of at least %d", v.min)
	}
	return fmt.Sprintf("a whole number from %d to %d", v.min, v.max)
}

// rate is how often per second; negative: unlimited.
type rate struct{ p *float64 }

func (v rate) parse(texts []string) error {
	f, err := strconv.ParseFloat(last(texts), 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return fmt.Errorf("%q is not %s", last(texts), v.kind())
	}
	*v.p = f
	return nil
}
func (v rate) read(n *yaml.Node) error {
	return scalar(n, v.kind(), []string{"!!int", "!!float"}, v.parse)
}
func (v rate) check() error {
	if f := float32(*v.p); f == 0 || math.IsInf(float64(f), 0) {
		return fmt.Errorf("%s is not %s", v.text(), v.kind())
	}
	return nil
}
func (v rate) text() string { return strconv.FormatFloat(*v.p, 'g', -1, 64) }
func (v rate) yaml() string { return v.text() }
func (v rate) kind() string { return "a number above 0, or -1 for no limit" }

// duration is at least min.
type duration struct {
	p   *time.Duration
	min time.Duration
}

func (v duration) parse(texts []string) error {
	d, err := time.ParseDuration(last(texts))
	if err != nil {
		return fmt.Errorf("%q is not %s", last(texts), v.kind())
	}
	*v.p = d
	return nil
}
func (v duration) read(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && (n.ShortTag() == "!!int" || n.ShortTag() == "!!float") {
		return fmt.Errorf("%s has no unit: write %s", written(n), v.kind())
	}
	return scalar(n, v.kind(), []string{"!!str"}, v.parse)
}
func (v duration) check() error {
	if *v.p < v.min {
		return fmt.Errorf("%s is not %s", v.text(), v.kind())
	}
	return nil
}
func (v duration) text() string { return short(*v.p) }
func (v duration) yaml() string { return v.text() }
func (v duration) kind() string {
	return "a duration like 90s, 5m or 1h30m of at least " + short(v.min)
}

// short is a duration without zeros at its end.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// text is a word that ok accepts; nil: every one.
type text struct {
	p    *string
	what string
	ok   func(string) error
}

func (v text) parse(texts []string) error {
	*v.p = last(texts)
	return nil
}
func (v text) read(n *yaml.Node) error { return scalar(n, v.what, []string{"!!str"}, v.parse) }
func (v text) check() error {
	if v.ok == nil {
		return nil
	}
	if err := v.ok(*v.p); err != nil {
		return fmt.Errorf("%q is not %s: %w", *v.p, v.what, err)
	}
	return nil
}
func (v text) text() string { return *v.p }
func (v text) yaml() string { return quoted(*v.p) }
func (v text) kind() string { return v.what }

// choice is one of a few words. As in the original, an empty text leaves the default.
type choice struct {
	p     *string
	words []string
	why   string // the others are not accepted; may be empty
}

func (v choice) parse(texts []string) error {
	if last(texts) != "" {
		*v.p = last(texts)
	}
	return nil
}
func (v choice) read(n *yaml.Node) error { return scalar(n, v.kind(), []string{"!!str"}, v.parse) }
func (v choice) check() error {
	if slices.Contains(v.words, *v.p) {
		return nil
	}
	if v.why != "" {
		return fmt.Errorf("%q is not %s: %s", *v.p, v.kind(), v.why)
	}
	return fmt.Errorf("%q is not %s", *v.p, v.kind())
}
func (v choice) text() string { return *v.p }
func (v choice) yaml() string { return quoted(*v.p) }
func (v choice) kind() string {
	if len(v.words) == 1 {
		return v.words[0]
	}
	n := len(v.words) - 1
	return strings.Join(v.words[:n], ", ") + " or " + v.words[n]
}

// list is some texts that ok accepts.
type list struct {
	p    *[]string
	what string // of one element
	ok   func(string) error
}

func (v list) parse(texts []string) error {
	*v.p = nil
	for _, item := range strings.Split(strings.Join(texts, ","), ",") {
		if item = strings.TrimSpace(item); item != "" {
			*v.p = append(*v.p, item)
		}
	}
	return nil
}
func (v list) read(n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode {
		return fmt.Errorf("%s where %s belongs", written(n), v.kind())
	}
	*v.p = nil
	var errs []error
	for _, item := range n.Content {
		errs = append(errs, scalar(resolve(item), v.what, []string{"!!str"}, func(texts []string) error {
			*v.p = append(*v.p, last(texts))
			return nil
		}))
	}
	return errors.Join(errs...)
}
func (v list) check() error {
	var errs []error
	for _, item := range *v.p {
		if err := v.ok(item); err != nil {
			errs = append(errs, fmt.Errorf("%q is not %s: %w", item, v.what, err))
		}
	}
	return errors.Join(errs...)
}
func (v list) text() string { return strings.Join(*v.p, ",") }
func (v list) yaml() string {
	items := make([]string, len(*v.p))
	for i, item := range *v.p {
		items[i] = quoted(item)
	}
	return "[" + strings.Join(items, ", ") + "]"
}
func (v list) kind() string { return "a list, each " + v.what }

// switches are feature gates.
type switches struct{ p *map[string]bool }

func (v switches) parse(texts []string) error {
	set, err := parseGates(strings.Join(texts, ","))
	*v.p = set
	return err
}
func (v switches) read(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("%s where %s belong", written(n), v.kind())
	}
	*v.p = map[string]bool{}
	var errs []error
	for i := 0; i+1 < len(n.Content); i += 2 {
		var on bool
		name := n.Content[i].Value
		if err := (toggle{&on}).read(resolve(n.Content[i+1])); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", strconv.Quote(name), err))
			continue
		}
		if _, twice := (*v.p)[name]; twice {
			errs = append(errs, fmt.Errorf("%q is there twice: remove one", name))
		}
		(*v.p)[name] = on
	}
	return errors.Join(errs...)
}
func (v switches) check() error { return checkGates(gates, *v.p) }
func (v switches) text() string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(*v.p)) {
		pairs = append(pairs, fmt.Sprintf("%s=%t", name, (*v.p)[name]))
	}
	return strings.Join(pairs, ",")
}
func (v switches) yaml() string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(*v.p)) {
		pairs = append(pairs, fmt.Sprintf("%s: %t", quoted(name), (*v.p)[name]))
	}
	return "{" + strings.Join(pairs, ", ") + "}"
}
func (v switches) kind() string { return "feature gates with true or false" }

// quoted is a text that YAML and JSON read back as it is.
func quoted(s string) string {
	b, _ := json.Marshal(s) // a string always has a form in JSON
	return string(b)
}
