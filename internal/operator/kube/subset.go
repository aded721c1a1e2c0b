package kube

import (
	"encoding/json"
	"reflect"
)

// plain is an object as the API server would send it, without what only the API server or others write:
// the status, and the head's fields about the object's life.
func plain(object any) (map[string]any, error) {
	b, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, err
	}
	delete(m, "status")
	if head, ok := m["metadata"].(map[string]any); ok {
		for _, k := range []string{"creationTimestamp", "resourceVersion", "generation", "uid", "managedFields", "selfLink"} {
			delete(head, k)
		}
	}
	prune(m)
	return m, nil
}

// prune removes what is null, which says nothing: Go's encoding of an unset time is one.
func prune(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			if inner == nil {
				delete(v, k)
				continue
			}
			prune(inner)
			if template, ok := inner.(map[string]any); ok && (k == "status" || k == "metadata") && len(template) == 0 {
				delete(v, k)
			}
		}
	case []any:
		for _, inner := range v {
			prune(inner)
		}
	}
}

// within tells whether everything that want says stands in have. What want does not say may be anything:
// defaults, and what others wrote. Lists have the same length.
func within(want, have any) bool {
	switch want := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return len(want) == 0 && have == nil
		}
		for k, v := range want {
			if !within(v, h[k]) {
				return false
			}
		}
		return true
	case []any:
		h, ok := have.([]any)
		if !ok || len(h) != len(want) {
			return len(want) == 0 && len(h) == 0 && (ok || have == nil)
		}
		for i := range want {
			if !within(want[i], h[i]) {
				return false
			}
		}
		return true
	case nil:
		return true
	}
	return reflect.DeepEqual(want, have)
}
