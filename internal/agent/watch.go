package agent

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"druid.internal/druid/internal/agent/memberconf"
)

// templateInterval is how often is looked whether etcd's configuration file changed.
const templateInterval = 2 * time.Second

// templates is etcd's configuration file, which changes when the cluster shall.
type templates struct {
	path    string
	log     *slog.Logger
	content []byte
	first   *memberconf.Template
	current atomic.Pointer[memberconf.Template]
}

func openTemplates(path string, log *slog.Logger) (*templates, error) {
	t := &templates{path: path, log: log}
	var err error
	first, err := memberconf.Load(path)
	if err != nil {
		return nil, err
	}
	t.first = first
	t.current.Store(first)
	t.content, _ = os.ReadFile(path) // it was read a moment ago; if not, that is a change
	return t, nil
}

// get is the file as it could be used last.
func (t *templates) get() *memberconf.Template { return t.current.Load() }

// run calls changed whenever the file says something else, until ctx ends. A file that cannot be
// used after a change leaves the former content in use, and is told.
func (t *templates) run(ctx context.Context, changed func(*memberconf.Template)) error {
	tick := time.NewTicker(templateInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		b, err := os.ReadFile(t.path)
		if err != nil || string(b) == string(t.content) {
			continue // Kubernetes replaces it by a rename: it is back in a moment
		}
		t.content = b
		next, err := memberconf.Parse(b)
		if err != nil {
			t.log.Error("etcd's configuration file has changed and cannot be used; the former content stays in use", "file", t.path, "error", err)
			continue
		}
		t.log.Info("etcd's configuration file has changed", "file", t.path, "members", len(next.Wanted()))
		if !next.ServesAs(t.first) {
			t.log.Info("clients are served as before until this sidecar is started anew, as with a new pod", "file", t.path)
		}
		t.current.Store(next)
		changed(next)
	}
}
