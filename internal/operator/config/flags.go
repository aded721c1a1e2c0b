package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// Flags are the flags of the operator that are about its configuration: --config, or everything
// else. They keep what was given; Config makes sense of it, so that everything that is wrong is
// told at once.
type Flags struct {
	version string
	file    string
	given   map[string]*occurrences
}

// NewFlags adds the flags to fs. The image is that of version unless told otherwise.
func NewFlags(fs *pflag.FlagSet, version string) *Flags {
	f := &Flags{version: version, given: map[string]*occurrences{}}
	fs.StringVar(&f.file, "config", "", "file of kind "+Kind+"; it is the whole configuration, so none of the flags that have a field in it goes with it")
	c := flagDefaults(version)
	for _, s := range settings(&c) {
		if s.flag != "" {
			f.add(fs, s.flag, s.value, s.doc)
		}
	}
	for _, s := range spellings(&c) {
		f.add(fs, s.flag, s.value, "deprecated, use "+s.use+": "+s.doc)
	}
	return f
}

func (f *Flags) add(fs *pflag.FlagSet, name string, v flagValue, doc string) {
	o := &occurrences{value: v}
	f.given[name] = o
	flag := fs.VarPF(o, name, "", doc)
	if _, ok := v.(toggle); ok {
		flag.NoOptDefVal = "true"
	}
}

// occurrences of a flag, as pflag wants them. It accepts every text.
type occurrences struct {
	value flagValue // the default
	texts []string
}

func (o *occurrences) String() string {
	if o.value == nil { // pflag asks a zero value
		return ""
	}
	return o.value.text()
}

func (o *occurrences) Set(text string) error {
	o.texts = append(o.texts, text)
	return nil
}

// Type is the word in the help text.
func (o *occurrences) Type() string {
	switch o.value.(type) {
	case toggle:
		return "bool"
	case number[int], number[int64]:
		return "int"
	case rate:
		return "float"
	case duration:
		return "duration"
	case list:
		return "strings"
	case switches:
		return "NAME=bool,..."
	}
	return "string"
}

// Config reads the file, if one was given, or else the flags. The error is an *Error.
func (f *Flags) Config() (Config, []Notice, error) {
	c := flagDefaults(f.version)
	rows := settings(&c)
	if f.file != "" {
		if err := f.alone(rows, spellings(&c)); err != nil {
			return Config{}, nil, err
		}
		return ReadFile(f.file, f.version)
	}
	o := &origin{flags: map[string]string{}, bad: map[string]bool{}}
	for _, s := range rows {
		if s.flag != "" {
			o.parse(s.flag, f.given[s.flag].texts, []string{s.path}, s.value)
		}
	}
	var old []Notice
	for _, s := range spellings(&c) {
		texts := f.given[s.flag].texts
		if len(texts) == 0 {
			continue
		}
		old = append(old, Notice{Deprecated, "--" + s.flag, "use " + s.use})
		for _, path := range s.paths {
			if flag, ok := o.flags[path]; ok {
				o.add("--"+s.flag, fmt.Errorf("it is given together with --%s, which means the same: drop --%s", flag, s.flag))
				texts = nil
				break
			}
		}
		o.parse(s.flag, texts, s.paths, s.value)
	}
	o.check(c, rows)
	if err := o.err(); err != nil {
		return Config{}, nil, err
	}
	return c.finish(), append(old, o.notices(rows)...), nil
}

// parse reads the texts of a flag that is about the settings of these paths.
func (o *origin) parse(flag string, texts, paths []string, v flagValue) {
	if len(texts) == 0 {
		return
	}
	err := v.parse(texts)
	for _, path := range paths {
		o.flags[path] = flag
		o.bad[path] = err != nil
	}
	o.add("--"+flag, err)
}

// alone reports the flags that say what the file should say.
func (f *Flags) alone(rows []setting, others []spelling) error {
	o := &origin{}
	refuse := func(flag string, paths ...string) {
		if len(f.given[flag].texts) > 0 {
			o.add("--"+flag, errors.New("it does not go together with --config, which is the whole configuration: write "+strings.Join(paths, " and ")+" into "+f.file+" and drop the flag"))
		}
	}
	for _, s := range rows {
		if s.flag != "" {
			refuse(s.flag, s.path)
		}
	}
	for _, s := range others {
		refuse(s.flag, s.paths...)
	}
	return o.err()
}
