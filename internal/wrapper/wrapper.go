package wrapper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"druid.internal/druid/internal/etcd/datadir"
	"go.etcd.io/etcd/server/v3/embed"
)

// Options say how a member runs.
type Options struct {
	Sidecar Sidecar
	// ConfigFile is where etcd's configuration is put; it is replaced at every start of etcd.
	ConfigFile string
	// ExitCodeFile keeps how etcd ended: beside the data directory.
	ExitCodeFile string
	// ReadyTimeout ends the process if etcd is not ready so long after its start; 0: never.
	ReadyTimeout time.Duration

	Door

	Log *slog.Logger
	Now func() time.Time // nil: time.Now
}

// wrapper is a running supervisor.
type wrapper struct {
	Options
	log     *slog.Logger
	exit    exitFile
	health  *health
	door    *door
	gate    *gate
	restart chan string // why; at most one restart waits to be carried out
}

// Run supervises an etcd until the context ends, a call asks to stop, or etcd fails. The error is
// nil if etcd came to a clean end that was asked for. An [End] as the context's cause is the word
// for the exit code file.
func Run(ctx context.Context, o Options) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	w := &wrapper{Options: o, log: o.Log, exit: exitFile(o.ExitCodeFile), health: newHealth(o.Now), restart: make(chan string, 1)}
	var err error
	if w.gate, err = newGate(o.TokenFile, o.Now, w.log); err != nil {
		return err
	}
	w.door, err = openDoor(o.Door, w.health, calls{
		stop:    func(from string) { w.log.Info("a call asks to stop", "from", from); stop(Terminated) },
		restart: w.askRestart,
		clients: w.gate,
	}, w.log)
	if err != nil {
		return err
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := w.door.serve(); err != nil {
			stop(err)
		}
	})
	err = w.lives(ctx)
	w.door.close()
	serving.Wait()
	var end End
	if err == nil && ctx.Err() != nil && !errors.As(context.Cause(ctx), &end) && !errors.Is(context.Cause(ctx), context.Canceled) {
		err = context.Cause(ctx)
	}
	return err
}

func (w *wrapper) askRestart(from string) {
	select {
	case w.restart <- "a call from " + from:
	default: // one waits already, and will do
	}
}

// lives runs one etcd after the other.
func (w *wrapper) lives(ctx context.Context) error {
	for {
		again, err := w.life(ctx)
		if !again || err != nil {
			return err
		}
	}
}

// life is one etcd from the question to the sidecar to its end.
func (w *wrapper) life(ctx context.Context) (again bool, err error) {
	select {
	case <-w.restart: // is fulfilled by this start; later ones may want what comes too late for it
	default:
	}
	content, err := initialize(ctx, w.Sidecar, w.exit.mode(), w.health, w.log)
	if ctx.Err() != nil {
		return false, nil // nothing runs, and the data are as they were
	}
	if err != nil {
		return false, err
	}
	for {
		o, err := w.run(ctx, content)
		switch {
		case err != nil:
			return false, err
		case o.anew:
		case o.end == "":
			return false, o.err
		default:
			return o.again && ctx.Err() == nil, nil
		}
	}
}

// run is one etcd from its start to its end. The outcome of a context that ended before there was one
// is a clean end, of an etcd that never ran.
func (w *wrapper) run(ctx context.Context, content []byte) (outcome, error) {
	config, err := w.prepare(ctx, content)
	if ctx.Err() != nil {
		return outcome{end: endOf(ctx)}, nil
	}
	if err != nil {
		return outcome{}, err
	}
	// From here on, whatever happens before a clean end makes the next examination a full one.
	if err := w.exit.remove(); err != nil {
		return outcome{}, err
	}
	started := time.Now()
	w.health.waits("etcd starts")
	w.log.Info("etcd is started", "name", config.Name, "data-dir", config.Dir, "initial-cluster-state", config.ClusterState)
	logged := listen(config)
	w.gate.guard(config)
	introduced := newIntroduction(config, started)
	e, err := startEtcd(ctx, config)
	if err != nil {
		if strings.Contains(err.Error(), inconsistency) {
			err = errors.Join(err, w.exit.write(Inconsistent))
		}
		return outcome{}, err
	}
	w.health.runs()
	probing, endProbes := context.WithCancel(ctx)
	var probes sync.WaitGroup
	probes.Go(func() { w.health.probe(probing, e.Server) })

	o := w.attend(ctx, e, logged, introduced)

	w.health.waits("etcd stops")
	w.log.Info("etcd is stopped", "clean", o.end != "", "again", o.again || o.anew, "error", o.err)
	endProbes()
	// Not bound to ctx, which has ended in most cases.
	handOver(context.WithoutCancel(ctx), e.Server, w.log)
	probes.Wait()
	stopEtcd(e)
	if o.end == "" {
		return o, nil
	}
	if err := w.exit.write(o.end); err != nil {
		return outcome{}, err
	}
	w.log.Info("etcd came to a clean end", "exit-code", o.end)
	return o, nil
}

// inconsistency is what etcd's check for corruption at its start says.
const inconsistency = "found data inconsistency with peers"

// prepare makes the configuration and the data fit for a start, or says why they are not.
func (w *wrapper) prepare(ctx context.Context, content []byte) (*embed.Config, error) {
	config, err := loadConfig(w.ConfigFile, content)
	if err != nil {
		return nil, err
	}
	if err := w.door.admit(config.ClientTLSInfo.CertFile, config.ClientTLSInfo.KeyFile, config.ClientTLSInfo.TrustedCAFile); err != nil {
		return nil, err
	}
	if beside := filepath.Dir(filepath.Clean(config.Dir)); beside != filepath.Dir(filepath.Clean(string(w.exit))) {
		w.log.Warn("the exit code file is not beside the data directory: make sure that no other member uses it", "exit-code-file", w.exit, "data-dir", config.Dir)
	}
	if err := closeToOthers(config.Dir); err != nil {
		return nil, err
	}
	upgrade, err := datadir.CheckUpgrade(ctx, config.Dir)
	if err != nil {
		return nil, fmt.Errorf("etcd is not started: %w", err)
	}
	if len(upgrade.Mends) > 0 {
		w.log.Warn("etcd corrects its records of the members as it starts", "data-of", upgrade.From, "differences", upgrade.Mends)
	} else if upgrade.From != "" {
		w.log.Info("the data can be used", "data-of", upgrade.From)
	}
	return config, nil
}
