package config

import (
	"fmt"
	"strings"
)

// Reference is the page about the file and the flags, without its heading. It is the same whoever
// generates it.
func Reference() string {
	var b strings.Builder
	c, f := Defaults("VERSION"), flagDefaults("VERSION")
	rows, flagRows := settings(&c), settings(&f)

	b.WriteString("## The file\n\nA field that is left out, or null, has its default. An unknown field, a wrong type or a value out of bounds keeps the operator from starting:\n" +
		"every problem is told in a line of its own, with the place in the file and what to do about it.\n\n" +
		"| field | default | may be | meaning |\n| --- | --- | --- | --- |\n")
	for _, s := range rows {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.path, code(s.value.text()), cell(s.value.kind()), cell(s.doc))
	}

	b.WriteString("\nAll defaults as a file:\n\n```yaml\n" + Defaults("VERSION").YAML() + "```\n")

	b.WriteString("\n## Flags\n\nInstead of the file: none of them goes together with `--config`. Bounds and meaning are those of the field.\n\n| flag | field | default if not that of the field |\n| --- | --- | --- |\n")
	for i, s := range rows {
		if s.flag == "" {
			continue
		}
		other := ""
		if d := flagRows[i].value.text(); d != s.value.text() {
			other = code(d)
		}
		fmt.Fprintf(&b, "| `--%s` | `%s` | %s |\n", s.flag, s.path, other)
	}

	b.WriteString("\n## Deprecated\n\nThey work, and the log says what to use instead.\n\n| flag or field | use |\n| --- | --- |\n")
	for _, s := range spellings(&c) {
		fmt.Fprintf(&b, "| `--%s` | `%s` |\n", s.flag, strings.ReplaceAll(s.use, " and ", "` and `"))
	}
	for _, s := range rows {
		if s.deprecated != "" {
			fmt.Fprintf(&b, "| `--%s`, `%s` | %s |\n", s.flag, s.path, cell(s.deprecated))
		}
	}

	b.WriteString("\n## Feature gates\n\nAn Alpha feature is off and a Beta feature on unless it is switched. A GA feature is always on: to switch it off, or to name a gate\n" +
		"that is not in the table, keeps the operator from starting.\n\n| gate | stage | default | meaning |\n| --- | --- | --- | --- |\n")
	for _, g := range gates {
		fmt.Fprintf(&b, "| `%s` | %s | `%t` | %s |\n", g.name, g.stage, g.byDefault(), cell(g.doc))
	}
	return b.String()
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
