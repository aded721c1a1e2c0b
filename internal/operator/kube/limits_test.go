package kube

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// fill sets every text, list and pointer of a value.
func fill(v reflect.Value, text string, n int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text, n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(v.Index(i), text, n)
		}
	case reflect.Struct:
		if t := v.Type(); t == reflect.TypeFor[metav1.Time]() || t == reflect.TypeFor[druidv1alpha1.StoreSpec]() || t == reflect.TypeFor[metav1.LabelSelector]() {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), text, n)
			}
		}
	}
}

// TestClippedStatusIsSmall fills every field, so that one which is added later without a limit shows.
func TestClippedStatusIsSmall(t *testing.T) {
	for plural, status := range map[string]any{
		"etcds":                &druidv1alpha1.EtcdStatus{},
		"etcdmembers":          &druidv1alpha1.MemberReport{},
		"etcdcopybackupstasks": &druidv1alpha1.EtcdCopyBackupsTaskStatus{},
		"etcdoperatortasks":    &druidv1alpha1.EtcdOperatorTaskStatus{},
		"etcdopstasks":         &druidv1alpha1.EtcdOpsTaskStatus{},
	} {
		l := StatusLimits(plural)
		if l.Exceeded(status) {
			t.Errorf("%s: an empty status exceeds the limits", plural)
		}
		fill(reflect.ValueOf(status).Elem(), strings.Repeat("é", 20000), 200)
		if !l.Exceeded(status) {
			t.Errorf("%s: a status of megabytes does not exceed the limits", plural)
		}
		l.Clip(status)
		if l.Exceeded(status) {
			t.Errorf("%s: what was clipped exceeds the limits", plural)
		}
		content, err := json.Marshal(status)
		if err != nil || len(content) > 1<<20 {
			t.Errorf("%s: %d bytes at most, %v; want less than an object may have", plural, len(content), err)
		}
	}
}

// TestMemberTextOfAMegabyteIsClipped is what a member's own token can write where the definition has
// no limits yet.
func TestMemberTextOfAMegabyteIsClipped(t *testing.T) {
	m := &druidv1alpha1.MemberReport{Waiting: strings.Repeat("x", 1<<20), State: "Started"}
	for range 100 {
		m.Transitions = append(m.Transitions, druidv1alpha1.MemberTransition{Reason: "old"})
	}
	m.Transitions[99].Reason = "newest"
	StatusLimits("etcdmembers").Clip(m)
	if len(m.Waiting) != 1024 || !strings.HasSuffix(m.Waiting, "x...") || m.State != "Started" {
		t.Errorf("a text of %d bytes, state %q", len(m.Waiting), m.State)
	}
	if n := len(m.Transitions); n != 32 || m.Transitions[n-1].Reason != "newest" {
		t.Errorf("%d transitions, want the newest 32", n)
	}
}
