package serve

import (
	"net/http"
	"strings"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/agentapi/auth"
	"druid.internal/druid/internal/agentapi/httpserver"
)

// router decides in this order: is there such a path, does it take the method, may the caller. Only
// then the call is read to its end and answered.
type router struct {
	answers map[string]http.Handler // by the path of the route
}

func newRouter(o Options, h Handlers, guard *auth.Guard, transport http.RoundTripper) http.Handler {
	rt := &router{answers: answers(o, h)}
	forwarder := newForwarder(h.Leader, transport, o.Log)
	for _, route := range agentapi.Routes() {
		answer := rt.answers[route.Path]
		switch {
		case answer == nil && route.Path == agentapi.Profiles:
			continue // as if it did not exist
		case answer == nil:
			answer = http.HandlerFunc(notConfigured)
		case route.Leader:
			answer = forwarder.unlessLeader(answer)
		}
		answer = httpserver.NoBody(answer)
		if route.Access != agentapi.Open {
			answer = guard.Verified(answer)
		}
		rt.answers[route.Path] = answer
	}
	return rt
}

func (rt *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	route, known := agentapi.Find(r.URL.Path)
	answer := rt.answers[route.Path]
	switch {
	case !known || answer == nil:
		notFound(w)
	case !route.Allows(r.Method):
		w.Header().Set("Allow", strings.Join(route.Methods, ", "))
		httpserver.Text(w, http.StatusMethodNotAllowed, "the method is not allowed here; use "+strings.Join(route.Methods, " or "))
	default:
		answer.ServeHTTP(w, r)
	}
}

func notFound(w http.ResponseWriter) {
	httpserver.Text(w, http.StatusNotFound, "there is no such path")
}
