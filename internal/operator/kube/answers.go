package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrTooLarge is returned when an answer of the API server is larger than [LimitAnswer] allows.
var ErrTooLarge = errors.New("the answer of the API server is too large")

type answerLimit struct{}

// LimitAnswer limits the answers to requests that are made with the context, in bytes.
func LimitAnswer(ctx context.Context, bytes int64) context.Context {
	return context.WithValue(ctx, answerLimit{}, bytes)
}

// LimitAnswers returns a transport that keeps to the limits of [LimitAnswer].
func LimitAnswers(t http.RoundTripper) http.RoundTripper { return limitingTransport{t} }

type limitingTransport struct{ http.RoundTripper }

func (t limitingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if most, limited := r.Context().Value(answerLimit{}).(int64); limited && err == nil {
		resp.Body = &limitedBody{resp.Body, most}
	}
	return resp, err
}

type limitedBody struct {
	io.ReadCloser
	left int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		// One more byte tells whether the answer ends here.
		if n, err := b.ReadCloser.Read(make([]byte, 1)); n == 0 {
			return 0, err
		}
		return 0, ErrTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// MaxList limits a list of a few objects of one cluster or task, in bytes.
const MaxList = 16 << 20

// pageBytes limits one page of a list, in bytes. An object has at most 1.5 MiB.
const pageBytes = 4 << 20

// List is a list that the API server gives in pages.
type List[T any] interface {
	*T
	client.ObjectList
}

// ListPages lists in pages of at most so many objects, and of fewer where they would exceed 4 MiB, so
// that large objects of others cost requests and no memory. It passes each page on.
func ListPages[T any, L List[T]](ctx context.Context, from client.Reader, objects int64, page func(L), options ...client.ListOption) error {
	limited := LimitAnswer(ctx, pageBytes)
	for size, next := objects, ""; ; {
		list := L(new(T)) // what is decoded into a list that was used keeps parts of it
		err := from.List(limited, list, append(options[:len(options):len(options)], client.Limit(size), client.Continue(next))...)
		switch {
		case errors.Is(err, ErrTooLarge) && size > 1:
			size /= 2
			continue
		case err != nil:
			return fmt.Errorf("list a page of %d: %w", size, err)
		}
		page(list)
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}
