package httpserver

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// hardened bounds the calls of a handler.
type hardened struct {
	next    http.Handler
	o       Options
	tls     bool
	running *sync.RWMutex // read-locked by each call; locked once and for all at the end
}

func (h *hardened) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	if !h.running.TryRLock() {
		panic(http.ErrAbortHandler) // the server has ended
	}
	defer h.running.RUnlock()
	w := &patient{ResponseWriter: out, control: http.NewResponseController(out), timeout: h.o.WriteTimeout}
	// What the server itself has to send at the end of the call.
	defer w.extend()
	defer h.recover(w, r)

	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'")
	header.Set("Cache-Control", "no-store")
	if h.tls {
		header.Set("Strict-Transport-Security", "max-age=31536000; includeSubDomains")
	}
	if r.Body != nil && r.Body != http.NoBody {
		// Holds for NoBody, and for the server, which reads what nobody read. At the end of the body
		// net/http takes it back. Without a body there must be none: it would end the context of a call
		// that takes long.
		_ = w.control.SetReadDeadline(time.Now().Add(h.o.BodyTimeout))
	}
	h.next.ServeHTTP(w, r)
}

func (h *hardened) recover(w *patient, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler) // the way to break an answer off
	}
	h.o.Log.Error("call panicked", "method", r.Method, "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
	if w.wrote {
		panic(http.ErrAbortHandler)
	}
	Text(w, http.StatusInternalServerError, "internal error; the log of the server has the details")
}

// NoBody reads and forgets the body of a call before next is called, and refuses one that is too
// large or takes too long.
func NoBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		_, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, MaxBody))
		if err == nil {
			r.Body, r.ContentLength, r.TransferEncoding = http.NoBody, 0, nil
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		var large *http.MaxBytesError
		switch {
		case errors.As(err, &large):
			Text(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes, and none is needed", MaxBody))
		case errors.Is(err, os.ErrDeadlineExceeded):
			Text(w, http.StatusRequestTimeout, "the body came too slowly, and none is needed")
		default:
			Text(w, http.StatusBadRequest, "the body could not be read")
		}
	})
}

// Text answers with one line.
func Text(w http.ResponseWriter, code int, line string) {
	line = strings.Join(strings.Fields(line), " ")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", fmt.Sprint(len(line)+1))
	w.WriteHeader(code)
	fmt.Fprintln(w, line)
}

// chunk is what must be read of an answer within the write timeout, in bytes.
const chunk = 64 << 10

// patient waits for a reader as long as it reads.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	wrote   bool
}

// Unwrap is for [http.ResponseController].
func (w *patient) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// extend fails for connections without deadlines only, which tests have.
func (w *patient) extend() { _ = w.control.SetWriteDeadline(time.Now().Add(w.timeout)) }

func (w *patient) WriteHeader(code int) {
	w.extend()
	w.wrote = true
	w.ResponseWriter.WriteHeader(code)
}

func (w *patient) Write(p []byte) (int, error) {
	w.wrote = true
	written := 0
	for {
		w.extend()
		n, err := w.ResponseWriter.Write(p[:min(len(p), chunk)])
		written += n
		if p = p[n:]; err != nil || len(p) == 0 {
			return written, err
		}
	}
}
