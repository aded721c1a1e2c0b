package agentapi

import (
	"errors"
	"fmt"
	"net/http"
)

// What a sidecar's work can end with and callers branch on. The server answers each with a code of
// its own, and the client's errors are the same values again.
var (
	// ErrNoStore: no backup store is configured, so there is nothing to answer with. 405, as in the
	// original.
	ErrNoStore = errors.New("no backup store is configured")
	// ErrUnavailable: not now; the same call may succeed later. 503.
	ErrUnavailable = errors.New("not available at the moment")
	// ErrNotLeader: the sidecar is not, or no longer, the backup leader. 503.
	ErrNotLeader = errors.New("this sidecar is not the backup leader")
	// ErrBusy: the same or a conflicting operation goes on. 409.
	ErrBusy = errors.New("an operation goes on")
	// ErrRefused: the call can succeed only after somebody changed something. 422.
	ErrRefused = errors.New("refused")
	// ErrDenied: the caller's credentials are missing or not accepted. 401 or 403.
	ErrDenied = errors.New("the credentials are not accepted")
)

// codes in the order in which an error is compared with them. The client takes the first error with
// a code.
var codes = []struct {
	err  error
	code int
}{
	{ErrNoStore, http.StatusMethodNotAllowed},
	{ErrNotLeader, http.StatusServiceUnavailable},
	{ErrUnavailable, http.StatusServiceUnavailable},
	{ErrBusy, http.StatusConflict},
	{ErrRefused, http.StatusUnprocessableEntity},
}

// CodeOf is the HTTP code with which the server answers an error: 500 for those it does not know.
func CodeOf(err error) int {
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return http.StatusInternalServerError
}

// StatusError is an answer that is not a success.
type StatusError struct {
	Method, URL string
	Code        int
	Text        string // the first line of the answer, quoted and at most a few hundred bytes; empty: there is none
	// NoStore tells a 405 of a sidecar without a store from one for a wrong method.
	NoStore bool
}

func (e *StatusError) Error() string {
	s := fmt.Sprintf("%s %s: %d %s", e.Method, e.URL, e.Code, http.StatusText(e.Code))
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// Is makes errors.Is work with the errors of this package.
func (e *StatusError) Is(target error) bool {
	switch target {
	case ErrNoStore:
		return e.NoStore
	case ErrUnavailable:
		return e.Code == http.StatusServiceUnavailable
	case ErrBusy:
		return e.Code == http.StatusConflict
	case ErrRefused:
		return e.Code == http.StatusUnprocessableEntity
	case ErrDenied:
		return e.Code == http.StatusUnauthorized || e.Code == http.StatusForbidden
	}
	return false
}
