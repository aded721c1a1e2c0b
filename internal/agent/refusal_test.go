package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/hosttest"
)

// A sidecar tells what its wrapper says now, and whether it can refuse clients at all.
func TestWhetherClientsAreRefusedIsTheWrappersWord(t *testing.T) {
	const closed = `200 {"forSeconds":7,"leftSeconds":593}`
	for phrase, c := range map[string]struct {
		noPass bool
		answer string // of the wrapper
		gone   bool   // it does not answer
		later  time.Duration
		want   agentapi.Refusal
		fails  error
	}{
		"it refuses them":                      {answer: closed, want: agentapi.Refusal{ForSeconds: 7, LeftSeconds: 593}},
		"it was started anew since":            {answer: `200 {"forSeconds":0,"leftSeconds":0}`},
		"nobody can have asked for that long":  {answer: closed, later: 11 * time.Minute},
		"it does not answer":                   {gone: true, fails: agentapi.ErrUnavailable},
		"it fails":                             {answer: "500 no", fails: agentapi.ErrUnavailable},
		"the token was not changed there yet":  {answer: "401 no", fails: agentapi.ErrUnavailable},
		"it says what cannot be read":          {answer: "200 no", fails: agentapi.ErrUnavailable},
		"it is of a former version":            {answer: "404 no", fails: agentapi.ErrRefused, want: agentapi.Refusal{Impossible: "of a version that cannot"}},
		"it has no token":                      {answer: "422 without a token", fails: agentapi.ErrRefused, want: agentapi.Refusal{Impossible: "without a token"}},
		"it knows nobody":                      {answer: "403 nobody may", fails: agentapi.ErrRefused, want: agentapi.Refusal{Impossible: "nobody may"}},
		"the sidecar would be refused as well": {noPass: true, answer: closed, fails: agentapi.ErrRefused, want: agentapi.Refusal{Impossible: "token-file"}},
	} {
		t.Run(phrase, func(t *testing.T) {
			var calls []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls = append(calls, r.Method+" "+r.URL.RequestURI())
				var code int
				text := c.answer
				_, _ = fmt.Sscanf(text, "%d", &code)
				if code != http.StatusOK {
					w.WriteHeader(code)
				}
				fmt.Fprint(w, text[4:])
			}))
			defer server.Close()
			url := server.URL
			if c.gone {
				url = "http://" + hosttest.Nobody()
			}
			now := time.Now()
			r := newRefusal(supervisor{url, http.DefaultClient}, !c.noPass, func() time.Time { return now }, slog.New(slog.DiscardHandler))
			r.until = now // no sidecar was before it
			if got := r.tell(t.Context()); !c.noPass && *got != (agentapi.Refusal{}) || len(calls) > 0 {
				t.Errorf("before anybody asked %+v, after the calls %q", got, calls)
			}
			if _, err := r.refuse(t.Context(), 10*time.Minute); !errors.Is(err, c.fails) {
				t.Errorf("%v, want %v", err, c.fails)
			}
			if c.noPass != (len(calls) == 0) && !c.gone || len(calls) > 0 && calls[0] != "POST /clients?refuse=10m0s" {
				t.Errorf("calls %q", calls)
			}
			now = now.Add(c.later)
			got := *r.tell(t.Context())
			if !strings.Contains(got.Impossible, c.want.Impossible) || (got.Impossible == "") != (c.want.Impossible == "") {
				t.Errorf("impossible: %q, want %q", got.Impossible, c.want.Impossible)
			}
			if got.ForSeconds != c.want.ForSeconds || got.LeftSeconds != c.want.LeftSeconds {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// What a sidecar was told is forgotten as it is started anew, and not by its wrapper.
func TestAYoungSidecarAsksItsWrapper(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"leftSeconds":60}`) }))
	defer server.Close()
	now := time.Now()
	r := newRefusal(supervisor{server.URL, http.DefaultClient}, true, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	if got := r.tell(t.Context()); got.LeftSeconds != 60 {
		t.Errorf("%+v", got)
	}
	now = now.Add(agentapi.MaxRefusal)
	if got := r.tell(t.Context()); got.LeftSeconds != 0 {
		t.Errorf("after the longest refusal: %+v", got)
	}
}
