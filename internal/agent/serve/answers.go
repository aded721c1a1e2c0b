package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/agentapi/httpserver"
)

// answerer turns what handlers return into answers.
type answerer struct {
	log *slog.Logger
}

// answers are the handlers by the path of their route. What is missing is not configured.
func answers(o Options, h Handlers) map[string]http.Handler {
	a := answerer{o.Log}
	all := map[string]http.Handler{
		agentapi.InitStart: a.reply(func(r *http.Request) (any, error) {
			return nothing{}, h.InitStart(agentapi.ParseValidationMode(r.URL.Query().Get("mode")))
		}),
		agentapi.InitStatus:      a.reply(func(*http.Request) (any, error) { return text(h.InitStatus()), nil }),
		agentapi.InitAcknowledge: a.reply(func(*http.Request) (any, error) { return nothing{}, h.InitAcknowledge() }),
		agentapi.Config: a.reply(func(r *http.Request) (any, error) {
			content, err := h.Config(r.Context())
			return yaml(content), err
		}),
		agentapi.Healthz:    a.health(h.Healthy),
		agentapi.Metrics:    h.Metrics,
		agentapi.MemberPath: a.reply(func(r *http.Request) (any, error) { return h.Member(r.Context()), nil }),
		agentapi.Operations: a.reply(func(*http.Request) (any, error) {
			return append([]agentapi.Operation{}, h.Operations()...), nil
		}),
		agentapi.Defragment: a.reply(func(r *http.Request) (any, error) { return begun(h.Defragment(r.Context())) }),
		agentapi.Clients: a.reply(func(r *http.Request) (any, error) {
			d, err := agentapi.ParseRefuse(r.URL.Query().Get("refuse"))
			if err != nil {
				return nil, badCall{err.Error()}
			}
			return h.Refuse(r.Context(), d)
		}),
	}
	if h.Full != nil {
		all[agentapi.Full] = a.reply(func(r *http.Request) (any, error) {
			final, err := parseFinal(r.URL.Query().Get("final"))
			if err != nil {
				return nil, err
			}
			purpose := r.URL.Query().Get("for")
			switch {
			case purpose == "":
				return h.Full(r.Context(), final)
			case !final || h.Final == nil:
				return nil, badCall{"only a final snapshot is for something: give final=true, or leave out the parameter for"}
			case len(purpose) > maxPurpose || !printable(purpose):
				return nil, badCall{fmt.Sprintf("the parameter for has %d bytes; give at most %d printable ones", len(purpose), maxPurpose)}
			}
			return h.Final(r.Context(), purpose)
		})
	}
	if h.Delta != nil {
		all[agentapi.Delta] = a.reply(func(r *http.Request) (any, error) { return h.Delta(r.Context()) })
	}
	if h.Latest != nil {
		all[agentapi.Latest] = a.reply(func(r *http.Request) (any, error) { return h.Latest(r.Context()) })
	}
	if h.Timeline != nil {
		all[agentapi.TimelinePath] = a.reply(func(r *http.Request) (any, error) { return h.Timeline(r.Context()) })
	}
	if h.Verify != nil {
		all[agentapi.Verify] = a.reply(func(r *http.Request) (any, error) { return begun(h.Verify(r.Context())) })
	}
	if h.Compact != nil {
		all[agentapi.Compact] = a.reply(func(r *http.Request) (any, error) { return begun(h.Compact(r.Context())) })
	}
	if o.Profiling {
		all[agentapi.Profiles] = profiles()
	}
	return all
}

// Kinds of answers that are not JSON with 200.
type (
	nothing  struct{}
	text     string
	yaml     []byte
	accepted struct{ agentapi.Operation }
)

func begun(op agentapi.Operation, err error) (any, error) { return accepted{op}, err }

// badCall is an error that lies in the call.
type badCall struct{ why string }

func (e badCall) Error() string { return e.why }

// maxPurpose bounds what a final snapshot is for, in bytes: it stands in the manifest.
const maxPurpose = 256

// printable: there is nothing but ASCII that can be seen.
func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// parseFinal reads the parameter final of a full snapshot.
func parseFinal(s string) (bool, error) {
	if s == "" {
		return false, nil
	}
	final, err := strconv.ParseBool(s)
	if err != nil {
		return false, badCall{fmt.Sprintf("the parameter final is %.32q; give true or false", s)}
	}
	return final, nil
}

// reply answers with what do returns.
func (a answerer) reply(do func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := do(r)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		switch answer := answer.(type) {
		case nothing:
			w.WriteHeader(http.StatusOK)
		case text:
			a.send(w, r, http.StatusOK, "text/plain; charset=utf-8", []byte(answer))
		case yaml:
			a.send(w, r, http.StatusOK, "application/yaml", answer)
		case accepted:
			a.json(w, r, http.StatusAccepted, answer.Operation)
		default:
			a.json(w, r, http.StatusOK, answer)
		}
	})
}

func (a answerer) health(healthy func() bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, code := agentapi.Health{Health: healthy()}, http.StatusOK
		if !h.Health {
			code = http.StatusServiceUnavailable
		}
		a.json(w, r, code, h)
	})
}

func (a answerer) json(w http.ResponseWriter, r *http.Request, code int, v any) {
	content, err := json.Marshal(v)
	if err != nil {
		a.fail(w, r, fmt.Errorf("put the answer into JSON: %w", err))
		return
	}
	a.send(w, r, code, "application/json", content)
}

func (a answerer) send(w http.ResponseWriter, r *http.Request, code int, kind string, content []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	w.WriteHeader(code)
	if _, err := w.Write(content); err != nil {
		a.log.Debug("answer not read", "method", r.Method, "path", r.URL.Path, "error", err)
	}
}

func (a answerer) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		a.log.Info("caller did not wait", "method", r.Method, "path", r.URL.Path, "error", err)
		return
	}
	code := agentapi.CodeOf(err)
	if errors.As(err, new(badCall)) {
		code = http.StatusBadRequest
	}
	a.log.Warn("call failed", "method", r.Method, "path", r.URL.Path, "code", code, "error", err)
	switch code {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", "")
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	httpserver.Text(w, code, err.Error())
}

// notConfigured answers what only a sidecar with a store can. The empty Allow says that the
// configuration, not the method, is the reason.
func notConfigured(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Allow", "")
	httpserver.Text(w, http.StatusMethodNotAllowed, agentapi.ErrNoStore.Error())
}

// profiles leaves out the command line, which can hold secrets.
func profiles() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch strings.TrimPrefix(r.URL.Path, agentapi.Profiles) {
		case "cmdline":
			notFound(w)
		case "profile":
			pprof.Profile(w, r)
		case "symbol":
			pprof.Symbol(w, r)
		case "trace":
			pprof.Trace(w, r)
		default:
			pprof.Index(w, r)
		}
	})
}
