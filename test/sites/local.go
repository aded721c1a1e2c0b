package sites

import (
	"context"
	"net/http"
	"os"
	"path/filepath"

	"druid.internal/druid/test/stores"
)

// local is a directory; its buckets are directories in it.
type local struct{ root string }

func startLocal(context.Context, *Fleet) (Site, error) {
	root, err := os.MkdirTemp("", "druid-local-")
	return &local{root}, err
}

func (l *local) Name() string { return "Local" }

func (l *local) Kinds() []Kind { return []Kind{Plain} }

func (l *local) Reach() (string, *stores.CA) { return "", nil }

func (l *local) Create(_ context.Context, bucket string, _ Kind) error {
	return os.Mkdir(filepath.Join(l.root, bucket), 0o700)
}

func (l *local) Way(_ context.Context, bucket, _ string, _ Who) (Way, error) {
	return Way{Provider: "Local", Container: filepath.Join(l.root, bucket)}, nil
}

func (l *local) Raw(_ context.Context, bucket string, _ Who) (stores.Raw, error) {
	return stores.Directory(filepath.Join(l.root, bucket)), nil
}

func (l *local) Request(*http.Request) Request { return Request{Does: Other} }

func (l *local) stop() error { return os.RemoveAll(l.root) }
