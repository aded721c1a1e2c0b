package wrapper

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

func TestWhyEtcdStoppedIsKnownFromItsLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	c := embed.NewConfig()
	c.LogOutputs = []string{file}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	l := listen(c)
	if err := c.Validate(); err != nil { // as etcd does when it starts
		t.Fatal(err)
	}
	log := c.GetLogger()
	if got := l.String(); got != "" {
		t.Errorf("%q before anything was logged", got)
	}
	log.Error("first", zap.String("key", "value"))
	log.Named("raft").With(zap.Error(errors.New("two\nlines"))).Error("second")
	log.Warn("no error", zap.Error(errors.New("none")))
	if want := "second: two lines"; l.String() != want {
		t.Errorf("%q, want %q", l, want)
	}
	log.Warn("server error", zap.Error(errors.New("removed")))
	log.Error("shutting down")
	if want := "server error: removed"; l.String() != want {
		t.Errorf("%q, want %q", l, want)
	}
	written, err := os.ReadFile(file)
	if err != nil || strings.Count(string(written), `"level":"error"`) != 3 || strings.Count(string(written), `"no error"`) != 1 {
		t.Errorf("the log itself: %s, %v", written, err)
	}
}
