package kube

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// addition is something of an object that somebody else wrote and that was not applied.
type addition struct {
	path  []string // of keys and indices
	value any      // what stands there
	name  string   // for people
	by    string   // who wrote it
}

// wholly are, by kind, the parts of which nothing is anybody else's: what the pods of a StatefulSet are and when their volumes go, what they
// are configured by, by what they are reached, and what protects them. Labels and annotations may be anybody's. What webhooks and
// policies of the cluster change is noted as nobody's, and stays.
var wholly = map[string][][]string{
	"StatefulSet": {
		{"spec", "template", "spec"}, {"spec", "persistentVolumeClaimRetentionPolicy"}, {"spec", "updateStrategy"}, {"spec", "minReadySeconds"},
		{"spec", "ordinals"},
	},
	"ConfigMap":           {{"data"}, {"binaryData"}},
	"Service":             {{"spec", "ports"}, {"spec", "selector"}, {"spec", "externalIPs"}, {"spec", "externalName"}, {"spec", "publishNotReadyAddresses"}},
	"PodDisruptionBudget": {{"spec"}},
}

// Writers are the entries about who wrote what that [Applier.Apply] needs of an object in a cache: those of intruders, and without
// fields those of the operator.
func Writers(o client.Object) []metav1.ManagedFieldsEntry {
	kept := make([]metav1.ManagedFieldsEntry, 0, 1)
	for _, m := range o.GetManagedFields() {
		switch {
		case intrudes(m, wholly[kindOf(o)]):
			kept = append(kept, m)
		case m.Manager == FieldManager && m.Subresource == "":
			m.FieldsV1 = nil // what it wrote is read anew when it counts
			kept = append(kept, m)
		}
	}
	return kept
}

// intrudes tells whether an entry is about somebody else who wrote something of these parts. What is noted in the operator's name stays:
// a webhook may write it anew as often as it is taken out.
func intrudes(m metav1.ManagedFieldsEntry, parts [][]string) (does bool) {
	if m.Manager == FieldManager || m.Subresource != "" || parts == nil {
		return false
	}
	fieldsOf(m).Iterate(func(p fieldpath.Path) { does = does || beneath(p, parts) })
	return does
}

// kindOf is the kind of an object that a cache may have left without.
func kindOf(o client.Object) string {
	if u, is := o.(*unstructured.Unstructured); is {
		return u.GetKind()
	}
	return reflect.TypeOf(o).Elem().Name()
}

// fieldsOf are the fields of an entry, none if they cannot be read.
func fieldsOf(m metav1.ManagedFieldsEntry) *fieldpath.Set {
	set := fieldpath.NewSet()
	if m.FieldsV1 == nil || set.FromJSON(m.FieldsV1.GetRawReader()) != nil {
		return fieldpath.NewSet()
	}
	return set
}

// beneath tells whether a field is one of the parts of an object, or in one.
func beneath(p fieldpath.Path, parts [][]string) bool {
	return slices.ContainsFunc(parts, func(part []string) bool {
		for i, name := range part {
			if i == len(p) || p[i].FieldName == nil || *p[i].FieldName != name {
				return false
			}
		}
		return true
	})
}

// additions are what others wrote, by the entries about who wrote what, and want does not say, the last of a list first. altered:
// something that is written as a whole, such as a selector, is more than want says.
func additions(want, have map[string]any, writers []metav1.ManagedFieldsEntry) (all []addition, altered bool) {
	kind, _, _ := unstructured.NestedString(want, "kind")
	for _, m := range writers {
		if !intrudes(m, wholly[kind]) {
			continue
		}
		fieldsOf(m).Leaves().Iterate(func(p fieldpath.Path) {
			if !beneath(p, wholly[kind]) {
				return
			}
			a, added, more := strange(p, want, have)
			if altered = altered || more; added && !slices.ContainsFunc(all, func(b addition) bool { return slices.Equal(a.path, b.path) }) {
				a.by = m.Manager
				all = append(all, a)
			}
		})
	}
	slices.SortFunc(all, func(a, b addition) int { return slices.CompareFunc(b.path, a.path, byPlace) })
	return all, altered
}

// strange follows a field as far as want says it. What have says beyond is added.
func strange(p fieldpath.Path, want, have any) (a addition, added, altered bool) {
	for _, e := range p {
		here, there, name := step(e, have)
		if !there {
			return addition{}, false, false // nobody says it any more
		}
		mine, wanted, _ := step(e, want)
		a = addition{path: append(a.path, here.key), value: here.value, name: a.name + name}
		if !wanted {
			a.name = strings.TrimPrefix(a.name, ".")
			return a, true, false
		}
		want, have = mine.value, here.value
	}
	last := p[len(p)-1]
	return addition{}, false, last.FieldName != nil && !within(have, want)
}

// place is where an element of a path leads.
type place struct {
	key   string
	value any
}

// step goes one element of a path. What an element of a list does not say of its key may be anything: the API server says it.
func step(e fieldpath.PathElement, of any) (to place, there bool, name string) {
	if e.FieldName != nil {
		m, _ := of.(map[string]any)
		value, there := m[*e.FieldName]
		return place{*e.FieldName, value}, there, "." + *e.FieldName
	}
	list, _ := of.([]any)
	i := -1
	switch {
	case e.Key != nil:
		i = slices.IndexFunc(list, func(one any) bool {
			m, _ := one.(map[string]any)
			for _, f := range *e.Key {
				if v, says := m[f.Name]; says && !equal(v, f.Value.Unstructured()) {
					return false
				}
			}
			return true
		})
	case e.Value != nil:
		i = slices.IndexFunc(list, func(one any) bool { return equal(one, (*e.Value).Unstructured()) })
	case e.Index != nil && *e.Index < len(list):
		i = *e.Index
	}
	if i < 0 {
		return place{}, false, ""
	}
	m, _ := list[i].(map[string]any)
	if name, _ = m["name"].(string); name == "" {
		name = strconv.Itoa(i)
	}
	return place{strconv.Itoa(i), list[i]}, true, "[" + name + "]"
}

// equal tells whether two values are the same, however their numbers were read.
func equal(a, b any) bool {
	number := func(v any) (float64, bool) {
		switch v := v.(type) {
		case int64:
			return float64(v), true
		case float64:
			return v, true
		}
		return 0, false
	}
	if x, is := number(a); is {
		y, also := number(b)
		return also && x == y
	}
	return reflect.DeepEqual(a, b)
}

// byPlace compares keys, and indices by what they count.
func byPlace(a, b string) int {
	x, err := strconv.Atoi(a)
	y, other := strconv.Atoi(b)
	if err == nil && other == nil {
		return cmp.Compare(x, y)
	}
	return strings.Compare(a, b)
}

// pointer is a path as JSON Patch writes it.
func (a addition) pointer() string {
	var b strings.Builder
	for _, key := range a.path {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key))
	}
	return b.String()
}
