package main

import (
	"io"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"druid.internal/druid/internal/operator/config"
)

// newLog writes lines of the wanted kind.
func newLog(w io.Writer, l config.Logging) *slog.Logger {
	level := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "error": slog.LevelError}[l.LogLevel]
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: ours}
	if l.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}

// ours brings what the libraries log to the keys and levels of our own lines: an error is under
// "error", and all degrees of verbosity are DEBUG.
func ours(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	if a.Key == "err" {
		a.Key = "error"
	}
	if level, ok := a.Value.Any().(slog.Level); ok && a.Key == slog.LevelKey && level < slog.LevelInfo {
		a.Value = slog.AnyValue(slog.LevelDebug)
	}
	return a
}

// collectLogs has the libraries log to the same place. It is called once, before they are used.
func collectLogs(log *slog.Logger) {
	ctrllog.SetLogger(logr.FromSlogHandler(log.Handler()))
	klog.SetSlogLogger(log)
}
