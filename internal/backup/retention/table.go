package retention

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// Table is the plan for people: one line per version, and a line that sums it up.
func (p Plan) Table() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ACTION\tKIND\tOBJECT\tCREATED\tWHY")
	for _, d := range p.Decisions {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", d.Action, d.Kind, d.object(), d.Created.UTC().Format(time.RFC3339), d.Why())
	}
	w.Flush()
	fmt.Fprintln(&text, p.Summary())
	return text.String()
}

// object is the key without its prefix, with the version.
func (d Decision) object() string {
	name := d.Key
	if d.Ref.Key.Prefix != "" {
		name = strings.TrimPrefix(name, string(d.Ref.Key.Prefix)+"/")
	}
	if d.Version != "" {
		name += "@" + d.Version
	}
	return name
}

// Why is the decision's reasons in words.
func (d Decision) Why() string {
	words := make([]string, len(d.Reasons))
	for i, r := range d.Reasons {
		words[i] = r.Text()
	}
	why := strings.Join(words, "; ")
	if !d.Until.IsZero() {
		why += ", not before " + d.Until.UTC().Format(time.RFC3339)
	}
	return why
}

// Summary is one line: how much is kept, deleted and blocked, under which policy.
func (p Plan) Summary() string {
	var parts []string
	for _, a := range []Action{Keep, Delete, Blocked} {
		t := p.Total(a)
		parts = append(parts, fmt.Sprintf("%s %d (%d bytes)", a, t.Objects, t.Bytes))
	}
	return fmt.Sprintf("%s; policy: %s", strings.Join(parts, ", "), p.Policy)
}
