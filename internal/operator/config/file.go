package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFile is far above the size of a file that says everything.
const maxFile = 1 << 20

// ReadFile reads an OperatorConfiguration, in YAML or JSON. What it does not say has its default,
// of which the image is that of version. The error is an *Error.
func ReadFile(path, version string) (Config, []Notice, error) {
	fail := func(err error) (Config, []Notice, error) {
		return Config{}, nil, &Error{[]string{fmt.Sprintf("--config: %s; give the place of a file of kind %s", err, Kind)}}
	}
	f, err := os.Open(path)
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return fail(err)
	}
	if len(data) > maxFile {
		return fail(fmt.Errorf("%s is larger than %d bytes", path, maxFile))
	}
	return Parse(path, data, version)
}

// Parse is ReadFile for what is already in memory. Problems call it name.
func Parse(name string, data []byte, version string) (Config, []Notice, error) {
	c := Defaults(version)
	rows := settings(&c)
	o := &origin{file: name, lines: map[string]int{}, bad: map[string]bool{}}
	root, err := document(data)
	if err != nil {
		o.add(name, err)
		return Config{}, nil, o.err()
	}
	if o.identify(root) {
		o.walk(root, treeOf(rows), "")
	}
	o.check(c, rows)
	if err := o.err(); err != nil {
		return Config{}, nil, err
	}
	return c.finish(), o.notices(rows), nil
}

// document returns the one value of a file, which is null if there is nothing in it.
func document(data []byte) (*yaml.Node, error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	var n yaml.Node
	switch err := d.Decode(&n); {
	case errors.Is(err, io.EOF):
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}, nil
	case err != nil:
		return nil, fmt.Errorf("it is neither YAML nor JSON: %s", strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\n", " "), "yaml: "))
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is a second document after a line of three dashes: keep one")
	}
	return resolve(n.Content[0]), nil
}

// identify looks at apiVersion and kind, and reports whether the rest is worth reading.
func (o *origin) identify(root *yaml.Node) bool {
	if root.Kind != yaml.MappingNode && root.ShortTag() != "!!null" {
		o.add(o.file, fmt.Errorf("%s where the fields of an %s belong", written(root), Kind))
		return false
	}
	readable := true
	for _, want := range []struct{ key, value string }{{"apiVersion", APIVersion}, {"kind", Kind}} {
		i := indexOf(root, want.key)
		if i < 0 {
			o.add(o.file, fmt.Errorf("%s is missing: write %s: %s", want.key, want.key, want.value))
			continue
		}
		if n := resolve(root.Content[i+1]); n.Kind != yaml.ScalarNode || n.Value != want.value {
			o.add(o.place(n.Line)+want.key, fmt.Errorf("%s is not %s, and nothing else is read here", written(n), want.value))
			readable = false
		}
	}
	return readable
}

// indexOf returns where a key stands in a mapping; below 0: nowhere.
func indexOf(n *yaml.Node, key string) int {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// tree is the fields of the file: either a setting, or a group of fields.
type tree struct {
	setting *setting
	fields  map[string]*tree
	order   []string
}

func treeOf(rows []setting) *tree {
	root := &tree{fields: map[string]*tree{}}
	for i := range rows {
		t := root
		for key := range strings.SplitSeq(rows[i].path, ".") {
			next := t.fields[key]
			if next == nil {
				next = &tree{fields: map[string]*tree{}}
				t.fields[key] = next
				t.order = append(t.order, key)
			}
			t = next
		}
		t.setting = &rows[i]
	}
	return root
}

// walk reads a node into the settings of t. A null leaves them as they are.
func (o *origin) walk(n *yaml.Node, t *tree, path string) {
	n = resolve(n)
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return
	}
	if t.setting != nil {
		o.lines[path] = n.Line
		if err := t.setting.value.read(n); err != nil {
			o.bad[path] = true
			o.add(o.at(*t.setting), err)
		}
		return
	}
	if n.Kind != yaml.MappingNode {
		o.add(o.place(n.Line)+path, fmt.Errorf("%s where a group of fields belongs: there are %s", written(n), strings.Join(t.order, ", ")))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if path == "" && (key.Value == "apiVersion" || key.Value == "kind") && !seen[key.Value] {
			seen[key.Value] = true
			continue
		}
		at := path + "." + key.Value
		if path == "" {
			at = key.Value
		}
		next := t.fields[key.Value]
		switch {
		case seen[key.Value]:
			o.add(o.place(key.Line)+at, errors.New("it is there twice: remove one"))
		case next == nil || key.Kind != yaml.ScalarNode:
			o.add(o.place(key.Line)+at, fmt.Errorf("there is no such field: %s", remedyFor(at, key.Value, t)))
		default:
			o.walk(n.Content[i+1], next, at)
		}
		seen[key.Value] = true
	}
}

// formerly are keys that were written elsewhere for a field of the same meaning.
var formerly = map[string]string{
	"logConfiguration": "logging",
	"log":              "logging",
	"webhooks.etcdComponentProtection.reconcilerServiceAccount": "reconcilerServiceAccountFQDN",
}

// remedyFor says what was probably meant by an unknown key.
func remedyFor(path, key string, t *tree) string {
	if is := formerly[path]; is != "" {
		return "call it " + is
	}
	best, distance := "", 3
	for _, field := range t.order {
		d := editDistance(strings.ToLower(key), strings.ToLower(field))
		if d < distance && d < len(field)/2 {
			best, distance = field, d
		}
	}
	if best != "" {
		return "call it " + best
	}
	return "remove it; there are " + strings.Join(t.order, ", ")
}

// editDistance is how many letters are changed, added or removed between a and b. Longer words
// than any field are far from all of them.
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			same := row[j]
			if a[i] != b[j] {
				same++
			}
			next[j+1] = min(same, row[j+1]+1, next[j]+1)
		}
		row = next
	}
	return row[len(b)]
}

// YAML is the whole configuration as a file. Parse reads it back as it is.
func (c Config) YAML() string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: %s\nkind: %s\n", APIVersion, Kind)
	var open []string
	for _, s := range settings(&c) {
		keys := strings.Split(s.path, ".")
		groups := keys[:len(keys)-1]
		common := 0
		for common < len(groups) && common < len(open) && groups[common] == open[common] {
			common++
		}
		for i := common; i < len(groups); i++ {
			fmt.Fprintf(&b, "%s%s:\n", strings.Repeat("  ", i), groups[i])
		}
		open = slices.Clone(groups)
		fmt.Fprintf(&b, "%s%s: %s\n", strings.Repeat("  ", len(groups)), keys[len(keys)-1], s.value.yaml())
	}
	return b.String()
}
