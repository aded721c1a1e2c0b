package httpclient

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestRedirectIsNotFollowed(t *testing.T) {
	followed := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed = true }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	resp, err := New(Transport(nil)).Post(server.URL, "text/plain", strings.NewReader("a secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if followed || resp.StatusCode != http.StatusTemporaryRedirect {
		t.Errorf("followed %t, code %d; want the redirect itself", followed, resp.StatusCode)
	}
}

func TestLargeBodyIsAnError(t *testing.T) {
	for size, want := range map[int]bool{0: true, 9: true, 10: true, 11: false, 1000: false} {
		content, err := Read(strings.NewReader(strings.Repeat("x", size)), 10)
		if (err == nil) != want || want && len(content) != size {
			t.Errorf("%d bytes: %d, %v; want success %t", size, len(content), err, want)
		}
	}
}

func TestDecodeRefusesWhatExceedsTheLimit(t *testing.T) {
	limit := Limit{Bytes: 100, Elements: 10}
	for name, c := range map[string]struct {
		document, want string // want: part of the error
	}{
		"fits":                    {`{"a":["{","[",",\"[[[[[[[[[["]}`, ""},
		"many empty objects":      {"[" + strings.Repeat("{},", 10) + "{}]", "22 elements, more than 10"},
		"many numbers":            {"[" + strings.Repeat("0,", 20) + "0]", "21 elements"},
		"long":                    {`"` + strings.Repeat("x", 100) + `"`, "larger than 100 bytes"},
		"not JSON":                {"<html>", "invalid character"},
		"an escape and its quote": {`["\\",0,0,0,0,0,0,0,0,0,0,0]`, "12 elements"},
	} {
		var into any
		err := Decode([]byte(c.document), limit, &into)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	var into any
	if err := Decode([]byte(strings.Repeat("[", 40)), Limit{Bytes: 100, Elements: 100}, &into); err == nil || !strings.Contains(err.Error(), "40 levels deep") {
		t.Errorf("%v, want that it is nested too deep", err)
	}
}

// FuzzShape compares with what the standard library finds.
func FuzzShape(f *testing.F) {
	for _, seed := range []string{`{}`, `[{},{"a":"\\\""}]`, `"{[,:"`, `[[[0]]]`, `{"\"":{"":[1,2]}}`, `"`, `\`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		elements, depth := shape(content)
		if elements < 0 || elements > len(content) || depth > elements {
			t.Fatalf("%q: %d elements, depth %d", content, elements, depth)
		}
		var v any
		if json.Unmarshal(content, &v) != nil {
			return
		}
		values, levels := count(v)
		if depth != levels || elements < values-1 {
			t.Errorf("%q: %d elements, depth %d; the document has %d values, depth %d", content, elements, depth, values, levels)
		}
	})
}

func count(v any) (values, depth int) {
	values = 1
	add := func(part any) {
		n, d := count(part)
		values, depth = values+n, max(depth, d)
	}
	switch v := v.(type) {
	case map[string]any:
		for _, part := range v {
			add(part)
		}
		depth++
	case []any:
		for _, part := range v {
			add(part)
		}
		depth++
	}
	return values, depth
}

func FuzzExcerpt(f *testing.F) {
	for _, seed := range []string{"", "one", "one\ntwo", "\x00\xff", strings.Repeat("é", 2000), "\x1b[31m"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		got := Excerpt(content)
		if strings.ContainsAny(got, "\n\r\x00\x1b\x7f") || !utf8.ValidString(got) || len(got) > 10*excerptLength {
			t.Errorf("%q", got)
		}
		if got != "" && (got[0] != '"' || got[len(got)-1] != '"') {
			t.Errorf("%s is not quoted", got)
		}
	})
}
