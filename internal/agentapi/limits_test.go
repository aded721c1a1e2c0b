package agentapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

// flood is a body of so many bytes that repeats one text between two others.
func flood(begin, again, end string, size int) io.Reader {
	n := (size - len(begin) - len(end)) / len(again)
	return io.MultiReader(strings.NewReader(begin), &repeated{text: strings.Repeat(again, 4096), left: n * len(again)}, strings.NewReader(strings.TrimPrefix(end, ",")))
}

// repeated reads a text again and again.
type repeated struct {
	text     string
	left, at int
}

func (r *repeated) Read(p []byte) (n int, err error) {
	for n < len(p) && r.left > 0 {
		some := copy(p[n:], r.text[r.at:min(len(r.text), r.at+r.left)])
		n, r.left, r.at = n+some, r.left-some, (r.at+some)%len(r.text)
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// streamed answers each call with a body that is not in memory.
type streamed func() io.Reader

func (s streamed) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(s()), Request: r}, nil
}

// allocated returns how many bytes do allocates, garbage included.
func allocated(do func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

func TestHostileAnswerIsBounded(t *testing.T) {
	calls := map[string]struct {
		path string
		call func(*Client) error
	}{
		"member":     {MemberPath, func(c *Client) error { _, err := c.Member(t.Context()); return err }},
		"operations": {Operations, func(c *Client) error { _, err := c.Operations(t.Context()); return err }},
		"full":       {Full, func(c *Client) error { _, err := c.Full(t.Context(), true); return err }},
		"delta":      {Delta, func(c *Client) error { _, err := c.Delta(t.Context()); return err }},
		"latest":     {Latest, func(c *Client) error { _, err := c.Latest(t.Context()); return err }},
		"timeline":   {TimelinePath, func(c *Client) error { _, err := c.Timeline(t.Context()); return err }},
		"verify":     {Verify, func(c *Client) error { _, err := c.Verify(t.Context()); return err }},
		"refuse":     {Clients, func(c *Client) error { _, err := c.Refuse(t.Context(), 0); return err }},
		"healthy":    {Healthz, func(c *Client) error { _, err := c.Healthy(t.Context()); return err }},
		"config":     {Config, func(c *Client) error { _, err := c.Config(t.Context()); return err }},
	}
	bodies := map[string]func(size int) io.Reader{
		"transitions": func(n int) io.Reader { return flood(`{"transitions":[`, "{},", `{}]}`, n) },
		"list":        func(n int) io.Reader { return flood(`[`, "{},", `{}]`, n) },
		"numbers":     func(n int) io.Reader { return flood(`[`, "0,", `0]`, n) },
		"deltas":      func(n int) io.Reader { return flood(`{"fullSnapshot":null,"deltaSnapshots":[`, "{},", `{}]}`, n) },
		"lineages":    func(n int) io.Reader { return flood(`{"lineages":[`, "{},", `{}]}`, n) },
		"names":       func(n int) io.Reader { return flood(`{"bootstrap":{"saw":{`, `"a":"",`, `"b":""}}}`, n) },
		"depth":       func(n int) io.Reader { return flood("", "[", "", n) },
		"one text":    func(n int) io.Reader { return flood(`{"waiting":"`, "x", `"}`, n) },
	}
	for route, c := range calls {
		limit := limitOf(c.path)
		for body, make := range bodies {
			for _, size := range []int{int(limit.Bytes), 32 << 20} {
				client := newClient("http://sidecar", &http.Client{Transport: streamed(func() io.Reader { return make(size) })}, time.Minute, nil)
				var err error
				got := allocated(func() { err = c.call(client) })
				if most := limit.Cost() + 64<<10; got > most {
					t.Errorf("%s answered with %s of %d bytes: %d bytes allocated, want at most %d", route, body, size, got, most)
				}
				if size > int(limit.Bytes) && err == nil {
					t.Errorf("%s answered with %s of %d bytes: accepted", route, body, size)
				}
			}
		}
	}
}

func TestMemberAnswerOf32MiBIsRefused(t *testing.T) {
	c := newClient("http://sidecar", &http.Client{Transport: streamed(func() io.Reader {
		return flood(`{"transitions":[`, "{},", `{}]}`, 32<<20)
	})}, time.Minute, nil)
	var err error
	got := allocated(func() { _, err = c.Member(t.Context()) })
	if err == nil || !strings.Contains(err.Error(), "the answer is larger than 262144 bytes") || got > 4<<20 {
		t.Errorf("%v after %d bytes were allocated, want a refusal within 4 MiB", err, got)
	}
}

// budget notes the highest sum of what was taken.
type budget struct{ now, most, capacity int64 }

func (b *budget) Acquire(_ context.Context, bytes int64) error {
	if b.now+bytes > b.capacity {
		return errors.New("no memory left")
	}
	b.now += bytes
	b.most = max(b.most, b.now)
	return nil
}

func (b *budget) Release(bytes int64) { b.now -= bytes }

func TestAnswerTakesItsCostFromTheBudget(t *testing.T) {
	body := func() io.Reader { return strings.NewReader(`{"name":"a"}`) }
	cost := limitOf(MemberPath).Cost()
	for capacity, want := range map[int64]bool{cost: true, cost - 1: false} {
		b := &budget{capacity: capacity}
		c, err := NewClientOver(streamed(body), "http://sidecar", 0, b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.Member(t.Context()); (err == nil) != want || b.now != 0 || want && b.most != cost {
			t.Errorf("capacity %d: %v, %d of %d bytes still taken", capacity, err, b.now, b.most)
		}
	}
}

// fill sets every string of a value to text, and every list and map to n entries.
func fill(v reflect.Value, text string, n int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text, n)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), text, n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(v.Index(i), text, n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for i := range n {
			v.SetMapIndex(reflect.ValueOf(strings.Repeat("k", i+1)), reflect.ValueOf(text))
		}
	}
}

// longest is the longest string, list or map of a value.
func longest(v reflect.Value) (text, list int) {
	add := func(part reflect.Value) {
		a, b := longest(part)
		text, list = max(text, a), max(list, b)
	}
	switch v.Kind() {
	case reflect.String:
		return v.Len(), 0
	case reflect.Pointer:
		if !v.IsNil() {
			add(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				add(v.Field(i))
			}
		}
	case reflect.Slice:
		list = v.Len()
		for i := range v.Len() {
			add(v.Index(i))
		}
	case reflect.Map:
		list = v.Len()
		for _, k := range v.MapKeys() {
			add(k)
			add(v.MapIndex(k))
		}
	}
	return text, list
}

// TestMemberIsBounded fills every field that there is, so that one which is added later is not left out.
func TestMemberIsBounded(t *testing.T) {
	var m Member
	fill(reflect.ValueOf(&m).Elem(), strings.Repeat("x<", 1000), 2*MaxMembers)
	before, _ := json.Marshal(m)
	got := m.Bounded()
	if text, list := longest(reflect.ValueOf(got)); text > MaxText || list > MaxMembers {
		t.Errorf("a text of %d bytes, and a list of %d, want at most %d and %d", text, list, MaxText, MaxMembers)
	}
	if after, _ := json.Marshal(m); !bytes.Equal(before, after) {
		t.Error("what was given is changed")
	}
	if again := got.Bounded(); !reflect.DeepEqual(again, got) {
		t.Error("what is within the limits is changed")
	}
}

// TestLargestHonestAnswersFit keeps limits above what a sidecar reports.
func TestLargestHonestAnswersFit(t *testing.T) {
	fits := func(path string, v any) {
		content, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		c := newClient("http://sidecar", &http.Client{Transport: streamed(func() io.Reader { return bytes.NewReader(content) })}, 0, nil)
		into := reflect.New(reflect.TypeOf(v)).Interface()
		if path == Latest {
			into = &newest{}
		}
		if err := c.call(t.Context(), http.MethodGet, path, into); err != nil {
			t.Errorf("%s of %d bytes: %v", path, len(content), err)
		}
	}
	text := strings.Repeat("x", 500)
	var m Member
	fill(reflect.ValueOf(&m).Elem(), text, MaxTransitions)
	m = m.Bounded()
	m.Etcd.Members = nil
	host := "https://etcd-main-98.etcd-main-peer.shoot--production--europe-1.svc.cluster.local:2380"
	for range 99 {
		m.Etcd.Members = append(m.Etcd.Members, Listed{ID: strings.Repeat("f", 16), Name: "etcd-main-98", PeerURLs: []string{host, host}, ClientURLs: []string{host, host}})
	}
	fits(MemberPath, m)
	var s Snapshot
	fill(reflect.ValueOf(&s).Elem(), text[:120], 1)
	s.Suspect, s.Prefix = text, text
	fits(Full, s)
	s.Suspect, s.Prefix = "", "prefix/v2"
	deltas := make([]*Snapshot, 5000) // more than a day of one every twenty seconds
	for i := range deltas {
		deltas[i] = &s
	}
	fits(Latest, LatestSnapshots{FullSnapshot: &s, DeltaSnapshots: deltas})
	var o Operation
	fill(reflect.ValueOf(&o).Elem(), text[:120], 1)
	o.Message = text
	fits(Operations, []Operation{o, o, o, o, o, o, o, o})
}

func FuzzClip(f *testing.F) {
	f.Add("a\nb\x00 é\xff", 5)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = 4 + most&0xff
		if got := Clip(text, most); len(got) > most || strings.ContainsAny(got, "\n\r\x00\x1b") || Clip(got, most) != got {
			t.Errorf("Clip(%q, %d) is %q", text, most, got)
		}
	})
}
