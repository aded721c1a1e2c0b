package main

import (
	"encoding"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/engine/collector"
	"druid.internal/druid/internal/engine/copier"
	"druid.internal/druid/internal/engine/excluder"
	"druid.internal/druid/internal/engine/extender"
	"druid.internal/druid/internal/engine/prober"
	"druid.internal/druid/internal/engine/verifier"
)

// TestTheNamesInJSONAreLowerCamelCase looks at every type that a verb prints with -o json.
func TestTheNamesInJSONAreLowerCamelCase(t *testing.T) {
	seen := 0
	for _, v := range []any{listView{}, planView{}, restoreView{}, compactView{}, verifier.Report{}, copier.Plan{}, copier.Report{},
		collector.Plan{}, collector.Report{}, prober.Report{}, bucketView{},
		extender.Report{}, excluder.Report{}} {
		walkJSON(t, reflect.TypeOf(v), reflect.TypeOf(v).String(), map[reflect.Type]bool{}, &seen)
	}
	if seen < 100 {
		t.Errorf("only %d names were seen", seen)
	}
}

var lowerCamel = regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`)

func walkJSON(t *testing.T, v reflect.Type, path string, done map[reflect.Type]bool, seen *int) {
	t.Helper()
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice || v.Kind() == reflect.Map {
		v = v.Elem()
	}
	own := reflect.PointerTo(v)
	if v.Kind() != reflect.Struct || done[v] || v == reflect.TypeFor[time.Time]() ||
		own.Implements(reflect.TypeFor[json.Marshaler]()) || own.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return
	}
	done[v] = true
	for i := range v.NumField() {
		f := v.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported() && !f.Anonymous, name == "-":
			continue
		case f.Anonymous && name == "":
			walkJSON(t, f.Type, path, done, seen)
			continue
		case !lowerCamel.MatchString(name):
			t.Errorf("%s.%s is called %q in JSON", path, f.Name, name)
		}
		*seen++
		walkJSON(t, f.Type, path+"."+f.Name, done, seen)
	}
}
