package gcsworm

import (
	"strconv"
	"strings"
	"testing"
)

func TestContentRangesAreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string][2]int64{
		"bytes 0-99/200": {0, 200}, "bytes 5-9/*": {5, -1}, "bytes */200": {-1, 200}, "bytes */*": {-1, -1}, "bytes */0": {-1, 0},
	} {
		first, total, err := parseContentRange(text)
		if err != nil || first != want[0] || total != want[1] {
			t.Errorf("%q is %d of %d, %v", text, first, total, err)
		}
	}
	for _, text := range []string{"", "bytes", "bytes 0-99", "bytes 9-5/10", "bytes 0-10/10", "bytes -5/10", "bytes a-b/c", "items 0-1/2", "bytes */-1"} {
		if _, _, err := parseContentRange(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func FuzzParsers(f *testing.F) {
	f.Add("bytes 0-99/200", "2.15a/b")
	f.Add("bytes */*", "")
	f.Fuzz(func(t *testing.T, span, token string) {
		if first, total, err := parseContentRange(span); err == nil && (first < -1 || total < -1 || total >= 0 && first >= total) {
			t.Errorf("%q is %d of %d", span, first, total)
		}
		if key, generation := parsePageToken(token); generation > 0 && !strings.Contains(token, strconv.FormatInt(generation, 10)) || !strings.HasSuffix(token, key) {
			t.Errorf("%q is %q, %d", token, key, generation)
		}
	})
}
