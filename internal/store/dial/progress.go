package dial

import (
	"io"
	"net/http"

	"druid.internal/druid/internal/store"
)

// Reporting is a transport that reports the progress of bodies to [store.WithProgress].
type Reporting struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t Reporting) RoundTrip(r *http.Request) (*http.Response, error) {
	moved := store.Progress(r.Context())
	if moved == nil {
		return t.Transport.RoundTrip(r)
	}
	if r.Body != nil && r.Body != http.NoBody {
		again := r.GetBody
		r = r.Clone(r.Context())
		r.Body = &body{r.Body, moved}
		if again != nil {
			r.GetBody = func() (io.ReadCloser, error) {
				b, err := again()
				return &body{b, moved}, err
			}
		}
	}
	resp, err := t.Transport.RoundTrip(r)
	if err == nil {
		moved(0) // the server answers
		resp.Body = &body{resp.Body, moved}
	}
	return resp, err
}

// body reports each read. The transport reads on when the connection has taken what it read before.
type body struct {
	io.ReadCloser
	moved func(n int)
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.moved(n)
	}
	return n, err
}
