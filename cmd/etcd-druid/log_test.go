package main

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"testing/slogtest"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"druid.internal/druid/internal/operator/config"
)

func TestLinesOfTheLibrariesHaveOurKeys(t *testing.T) {
	failed := errors.New("refused")
	for name, c := range map[string]struct {
		level, format string
		write         func(*slog.Logger)
		want          string
	}{
		"ours": {"info", "json", func(l *slog.Logger) { l.Warn("put aside", "etcd", "a", "error", failed) },
			`{"level":"WARN","msg":"put aside","etcd":"a","error":"refused"}`},
		"an error of a library": {"info", "json", func(l *slog.Logger) {
			logr.FromSlogHandler(l.Handler()).WithName("events").Error(failed, "not sent", "Etcd", klog.KRef("garden", "main"))
		}, `{"level":"ERROR","msg":"not sent","logger":"events","error":"refused","Etcd":{"name":"main","namespace":"garden"}}`},
		"its chatter, which is not wanted": {"info", "json", func(l *slog.Logger) { logr.FromSlogHandler(l.Handler()).V(1).Info("looked") }, ``},
		"its chatter":                      {"debug", "json", func(l *slog.Logger) { logr.FromSlogHandler(l.Handler()).V(1).Info("looked") }, `{"level":"DEBUG","msg":"looked"}`},
		"nothing but errors":               {"error", "json", func(l *slog.Logger) { l.Warn("put aside") }, ``},
		"text":                             {"info", "text", func(l *slog.Logger) { l.Info("looked", "etcd", "a b") }, `level=INFO msg=looked etcd="a b"`},
		"a group with a key like ours":     {"info", "json", func(l *slog.Logger) { l.Info("x", slog.Group("call", "err", "none")) }, `{"level":"INFO","msg":"x","call":{"err":"none"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			c.write(newLog(&b, config.Logging{LogLevel: c.level, LogFormat: c.format}))
			if got := withoutTime(b.String()); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestTheLogIsASoundHandler(t *testing.T) {
	var b bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		b.Reset()
		return newLog(&b, config.Logging{LogLevel: "info", LogFormat: "json"}).Handler()
	}, func(t *testing.T) map[string]any { return parsed(t, b.Bytes()) })
}
