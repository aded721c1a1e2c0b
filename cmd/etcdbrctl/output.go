package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// outputFlag is -o: how a result is printed. Every result is one struct: the table for people
// and the other forms come from the same value.
type outputFlag string

func (o *outputFlag) add(flags *pflag.FlagSet) {
	*o = "table"
	flags.VarP(o, "output", "o", "form of the result: table, json or yaml")
}

func (o *outputFlag) String() string { return string(*o) }
func (o *outputFlag) Type() string   { return "form" }
func (o *outputFlag) Set(s string) error {
	switch s {
	case "table", "json", "yaml":
		*o = outputFlag(s)
		return nil
	}
	return fmt.Errorf("want table, json or yaml")
}

// print writes v in the chosen form; table prints it for people.
func (o outputFlag) print(w io.Writer, v any, table func(io.Writer) error) error {
	switch o {
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(v)
	case "yaml":
		b, err := yaml.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	}
	return table(w)
}

// columns prints rows of cells, aligned; the first row is the heading.
func columns(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	return t.Flush()
}

// moment is a time for people: UTC, to the second, or a dash.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}
