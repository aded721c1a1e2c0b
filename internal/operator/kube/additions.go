package kube

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// addition is something of an object that was not applied to it.
type addition struct {
	path  string // a JSON pointer
	value any    // what stands there
	name  string // for people
}

// wholly are, by kind, the lists and maps of which nothing is anybody else's: what runs in the pods of a StatefulSet, what they are
// configured by, and by which ports they are reached. Labels and annotations may be anybody's.
var wholly = map[string][][]string{
	"StatefulSet": {{"spec", "template", "spec", "containers"}, {"spec", "template", "spec", "initContainers"}, {"spec", "template", "spec", "volumes"}},
	"ConfigMap":   {{"data"}, {"binaryData"}},
	"Service":     {{"spec", "ports"}},
}

// additions are what have says more than want where nothing is anybody else's, in the order in which it stands there.
func additions(want, have map[string]any) (all []addition) {
	kind, _, _ := unstructured.NestedString(want, "kind")
	for _, at := range wholly[kind] {
		ours, _, _ := unstructured.NestedFieldNoCopy(want, at...)
		there, _, _ := unstructured.NestedFieldNoCopy(have, at...)
		path, name := "/"+strings.Join(at, "/"), strings.Join(at, ".")
		switch there := there.(type) {
		case map[string]any:
			mine, _ := ours.(map[string]any)
			for _, key := range slices.Sorted(maps.Keys(there)) {
				if _, is := mine[key]; !is {
					all = append(all, addition{path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key), there[key], name + "." + key})
				}
			}
		case []any:
			mine, _ := ours.([]any)
			for i, one := range there {
				if called := nameOf(one); !slices.ContainsFunc(mine, func(m any) bool { return nameOf(m) == called }) {
					all = append(all, addition{path + "/" + strconv.Itoa(i), one, name + "[" + called + "]"})
				}
			}
		}
	}
	return all
}

// nameOf is by what an element of a list is told from the others.
func nameOf(element any) string {
	m, _ := element.(map[string]any)
	name, _ := m["name"].(string)
	return name
}
