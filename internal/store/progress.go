package store

import "context"

type progressKey struct{}

// WithProgress returns a context for uploads and downloads that report to moved, from any goroutine,
// how many bytes of a body have just been sent or received. A store may hold back as much as a part of
// an upload, so what is read of a body does not show whether anything moves.
func WithProgress(ctx context.Context, moved func(n int)) context.Context {
	return context.WithValue(ctx, progressKey{}, moved)
}

// Progress returns the function that WithProgress was given; nil if there is none.
func Progress(ctx context.Context) func(n int) {
	moved, _ := ctx.Value(progressKey{}).(func(n int))
	return moved
}
