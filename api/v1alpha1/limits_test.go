package v1alpha1

import (
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLongMessageIsTheSameAgain keeps a message that is cut from being written at each pass.
func TestLongMessageIsTheSameAgain(t *testing.T) {
	first, later := metav1.Now(), metav1.Time{Time: metav1.Now().Add(1e9)}
	long := Condition{Type: ConditionReady, Status: ConditionFalse, Reason: "Any", Message: strings.Repeat("é", MaxMessage)}
	was := long.After(nil, first)
	if len(was.Message) > MaxMessage {
		t.Errorf("a message of %d bytes", len(was.Message))
	}
	if is := long.After(&was, later); is != was {
		t.Errorf("updated at %s, want %s", is.LastUpdateTime, was.LastUpdateTime)
	}
}

func FuzzCut(f *testing.F) {
	f.Add("é", 1)
	f.Add("aé\xff", 2)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most &= 0xff
		got := Cut(text, most)
		if len(got) > most || utf8.ValidString(text) && !utf8.ValidString(got) || len(text) <= most && got != text {
			t.Errorf("Cut(%q, %d) is %q", text, most, got)
		}
	})
}
