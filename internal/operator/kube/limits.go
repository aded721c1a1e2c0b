package kube

import (
	"fmt"
	"path"
	"reflect"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/config/crd"
)

// Limits are what the definition of a resource allows in its status. A status within them is never
// refused for its size, and one that is copied into another within them neither.
type Limits struct{ root *limit }

// limit is one node of a schema. 0 means none.
type limit struct {
	text, items int64
	fields      map[string]*limit // of an object, by JSON name
	item        *limit            // of a list
}

// StatusLimits reads the limits from the definitions that are part of this program, by the plural of
// the resource. It reads each once.
func StatusLimits(plural string) *Limits {
	once, _ := statusLimits.LoadOrStore(plural, sync.OnceValue(func() *Limits { return readLimits(plural) }))
	return once.(func() *Limits)()
}

var statusLimits sync.Map

func readLimits(plural string) *Limits {
	file := path.Join("bases", "druid.gardener.cloud_"+plural+".yaml")
	text, err := crd.Files.ReadFile(file)
	if err != nil {
		panic(err) // a plural that does not exist
	}
	var d apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &d); err != nil {
		panic(fmt.Errorf("read %s: %w", file, err)) // it is part of the program, and tested
	}
	status := d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
	return &Limits{newLimit(&status)}
}

func newLimit(s *apiextensionsv1.JSONSchemaProps) *limit {
	var l limit
	if s.MaxLength != nil {
		l.text = *s.MaxLength
	}
	if s.MaxItems != nil {
		l.items = *s.MaxItems
	}
	if s.Items != nil && s.Items.Schema != nil {
		l.item = newLimit(s.Items.Schema)
	}
	if len(s.Properties) > 0 {
		l.fields = make(map[string]*limit, len(s.Properties))
	}
	for name, part := range s.Properties {
		l.fields[name] = newLimit(&part)
	}
	return &l
}

// Exceeded reports whether a status, given by a pointer, exceeds the limits.
func (l *Limits) Exceeded(status any) bool {
	return walk(reflect.ValueOf(status).Elem(), l.root, false)
}

// Clip brings a status, given by a pointer, within the limits: texts are cut, with "..." at the end,
// and of lists the last elements remain. It changes what the status points to.
func (l *Limits) Clip(status any) { walk(reflect.ValueOf(status).Elem(), l.root, true) }

// walk reports whether v exceeds the limit, and cuts it if that is asked for.
func walk(v reflect.Value, l *limit, cut bool) (exceeded bool) {
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && walk(v.Elem(), l, cut)
	case reflect.String:
		// Bytes instead of characters: that is stricter, and quicker.
		if exceeded = l.text > 0 && int64(v.Len()) > l.text; exceeded && cut {
			v.SetString(druidv1alpha1.Cut(v.String(), int(l.text)))
		}
	case reflect.Slice:
		if exceeded = l.items > 0 && int64(v.Len()) > l.items; exceeded && cut {
			v.Set(v.Slice(v.Len()-int(l.items), v.Len()))
		}
		for i := 0; i < v.Len() && l.item != nil; i++ {
			exceeded = walk(v.Index(i), l.item, cut) || exceeded
		}
	case reflect.Struct:
		exceeded = walkFields(v, l, cut)
	}
	return exceeded
}

func walkFields(v reflect.Value, l *limit, cut bool) (exceeded bool) {
	if l.fields == nil { // a time, a quantity, or a part without a schema
		return false
	}
	for i, name := range jsonNames(v.Type()) {
		of, known := l.fields[name]
		switch {
		case name == inlined:
			exceeded = walkFields(v.Field(i), l, cut) || exceeded
		case known:
			exceeded = walk(v.Field(i), of, cut) || exceeded
		}
	}
	return exceeded
}

// inlined stands for the fields of an embedded structure.
const inlined = "."

// jsonNames are the JSON names of a structure's fields, by index.
func jsonNames(t reflect.Type) []string {
	if known, is := fieldNames.Load(t); is {
		return known.([]string)
	}
	names := make([]string, t.NumField())
	for i := range names {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if names[i] = name; name == "" && strings.Contains(options, "inline") {
			names[i] = inlined
		}
	}
	fieldNames.Store(t, names)
	return names
}

var fieldNames sync.Map
