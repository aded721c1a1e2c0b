package kube

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func decode(t *testing.T, s string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return v
}

func TestWithin(t *testing.T) {
	for name, c := range map[string]struct {
		want, have string
		is         bool
	}{
		"the same":                      {`{"a":1,"b":[{"c":"d"}]}`, `{"a":1,"b":[{"c":"d"}]}`, true},
		"defaults besides":              {`{"a":1}`, `{"a":1,"b":2}`, true},
		"defaults in an element":        {`{"b":[{"c":"d"}]}`, `{"b":[{"c":"d","e":5}]}`, true},
		"another value":                 {`{"a":1}`, `{"a":2}`, false},
		"a field that is missing":       {`{"a":1}`, `{}`, false},
		"a list that is longer":         {`{"b":[1]}`, `{"b":[1,2]}`, false},
		"a list that is shorter":        {`{"b":[1,2]}`, `{"b":[1]}`, false},
		"an element that differs":       {`{"b":[{"c":"d"}]}`, `{"b":[{"c":"e"}]}`, false},
		"an empty map, and nothing":     {`{"a":{}}`, `{}`, true},
		"an empty list, and nothing":    {`{"a":[]}`, `{}`, true},
		"an empty list, and a full one": {`{"a":[]}`, `{"a":[1]}`, false},
		"a map, and a text":             {`{"a":{"b":1}}`, `{"a":"b"}`, false},
		"a text, and a number":          {`{"a":"1"}`, `{"a":1}`, false},
		"false, and nothing":            {`{"a":false}`, `{}`, false},
	} {
		if got := within(decode(t, c.want), decode(t, c.have)); got != c.is {
			t.Errorf("%s: %t, want %t", name, got, c.is)
		}
	}
}

func TestPlainHasNothingThatOthersWrite(t *testing.T) {
	got, err := plain(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "u", ResourceVersion: "7", Generation: 3, ManagedFields: []metav1.ManagedFieldsEntry{{}}},
		Status:     corev1.ServiceStatus{Conditions: []metav1.Condition{{}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := json.Marshal(got)
	if want := `{"metadata":{"name":"x"},"spec":{}}`; string(b) != want {
		t.Errorf("%s, want %s", b, want)
	}
}

func FuzzEverythingIsWithinItself(f *testing.F) {
	f.Add(`{"a":[{"b":1}]}`)
	f.Fuzz(func(t *testing.T, object string) {
		var o any
		if json.Unmarshal([]byte(object), &o) != nil {
			return
		}
		if !within(o, o) {
			t.Errorf("%s is not within itself", object)
		}
	})
}
