package wrapper

import (
	"sync"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// fatal is the message, a mere warning, with which etcd says why it stops by itself.
const fatal = "server error"

// lastError remembers why etcd stopped by itself, which it tells its log alone: the fatal message,
// or else the last error.
type lastError struct {
	zapcore.LevelEnabler
	*remembered
	fields []zapcore.Field
}

type remembered struct {
	mu    sync.Mutex
	text  string
	fatal bool // text is the fatal message
}

// listen has etcd log to its outputs and to the one returned.
func listen(c *embed.Config) *lastError {
	l := &lastError{LevelEnabler: zapcore.WarnLevel, remembered: &remembered{}}
	both := zap.WrapCore(func(core zapcore.Core) zapcore.Core { return zapcore.NewTee(core, l) })
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(c.GetLogger().WithOptions(both))
	return l
}

// String is the message with its cause; empty: there was none.
func (l *lastError) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text
}

// With, Check, Write and Sync make it a core of a logger.
func (l *lastError) With(fields []zapcore.Field) zapcore.Core {
	return &lastError{l.LevelEnabler, l.remembered, append(l.fields[:len(l.fields):len(l.fields)], fields...)}
}

func (l *lastError) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if l.Enabled(e.Level) {
		return checked.AddCore(e, l)
	}
	return checked
}

func (l *lastError) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if e.Level < zapcore.ErrorLevel && e.Message != fatal {
		return nil
	}
	text := e.Message
	for _, f := range append(l.fields[:len(l.fields):len(l.fields)], fields...) {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			text += ": " + oneLine(err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.fatal {
		l.text, l.fatal = text, e.Message == fatal
	}
	return nil
}

func (l *lastError) Sync() error { return nil }
