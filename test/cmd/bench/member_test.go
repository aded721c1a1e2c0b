package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/test/members"
	"druid.internal/druid/test/stores"
)

func TestTheLongestWaitIsFoundForEveryWriter(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(asked, answered int) answer {
		return answer{start.Add(time.Duration(asked) * time.Millisecond), start.Add(time.Duration(answered) * time.Millisecond)}
	}
	for phrase, c := range map[string]struct {
		acked [][]answer
		want  stall
	}{
		"answered all the time":                 {[][]answer{{at(0, 10), at(10, 20), at(20, 30)}}, stall{10 * time.Millisecond, 10 * time.Millisecond}},
		"one writer waits while another writes": {[][]answer{{at(0, 10), at(10, 20), at(20, 30)}, {at(0, 30)}}, stall{30 * time.Millisecond, 30 * time.Millisecond}},
		"one write is slow and others are not":  {[][]answer{{at(-90, 10), at(10, 20)}}, stall{10 * time.Millisecond, 100 * time.Millisecond}},
		"it waits at the beginning":             {[][]answer{{at(40, 50), at(50, 60)}}, stall{50 * time.Millisecond, 10 * time.Millisecond}},
		"what was before does not count":        {[][]answer{{at(-1000, -500), at(0, 10)}}, stall{10 * time.Millisecond, 10 * time.Millisecond}},
	} {
		t.Run(phrase, func(t *testing.T) {
			if got := longest(c.acked, start); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// working is a process that works until it is killed.
func working(t *testing.T) observed {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return observed{"it", func() members.Life { return members.Life{Running: true, PID: cmd.Process.Pid} }}
}

func TestAProcessIsObservedWhileSomethingGoesOn(t *testing.T) {
	o := working(t)
	for processTime(o.life().PID) < 100*time.Millisecond { // what was before does not count
		if t.Context().Err() != nil {
			t.Fatal("its time does not count")
		}
	}
	before := processTime(o.life().PID)
	m, err := (&bench{}).observe(t.Context(), "under test", []observed{o}, func(ctx context.Context) error {
		begun := processTime(o.life().PID)
		for processTime(o.life().PID) < begun+50*time.Millisecond && ctx.Err() == nil {
		}
		return ctx.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	r := m[0].runs[0]
	if want := 50 * time.Millisecond; r.cpu < want || r.cpu > processTime(o.life().PID)-before {
		t.Errorf("it took %s of processor time, want %s or a little more", r.cpu, want)
	}
	if r.anon <= 0 || r.wall <= 0 || ofCore(r) <= 0 {
		t.Errorf("anonymous %d, wall %s, %.1f %% of a core: that cannot be", r.anon, r.wall, ofCore(r))
	}
}

func TestAProcessThatEndsWhileItIsObservedIsNoMeasurement(t *testing.T) {
	o := working(t)
	pid := o.life().PID
	life := o.life
	again := false
	changing := observed{"it", func() members.Life {
		if again {
			return members.Life{PID: pid + 1}
		}
		return life()
	}}
	if _, err := (&bench{}).observe(t.Context(), "under test", []observed{changing}, func(context.Context) error { again = true; return nil }); err == nil {
		t.Error("there is no error, want one that says that it ended")
	}
	gone := observed{"it", func() members.Life { return members.Life{} }}
	if _, err := (&bench{}).observe(t.Context(), "under test", []observed{gone}, func(context.Context) error { return nil }); err == nil {
		t.Error("there is no error, want one that says that it does not run")
	}
}

// What the members are compared with must be a cluster, and have lost and regained a member.
func TestThreeEtcdsAloneStartAndTakeAMemberBack(t *testing.T) {
	t.Parallel()
	if _, err := stores.Binary("etcd"); err != nil {
		t.Fatal(err)
	}
	p, err := newPlain(t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if err := errors.Join(p.startAll(), p.serving(t.Context())); err != nil {
		t.Fatal(err)
	}
	client, err := p.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := populate(t.Context(), client, 1<<20); err != nil {
		t.Fatal(err)
	}
	w, err := startWriters(t.Context(), p.dial)
	if err != nil {
		t.Fatal(err)
	}
	defer w.stop()
	leader, err := p.leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.during(t.Context(), func(ctx context.Context) error {
		leader.proc.Kill()
		if err := os.RemoveAll(leader.dir); err != nil {
			return err
		}
		return p.rejoin(ctx, leader)
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.gap <= 0 || s.slow <= 0 {
		t.Errorf("%s: a leader was killed", s)
	}
	own, err := dial(leader.client)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	got, err := own.Get(t.Context(), "/populated/", clientv3.WithPrefix(), clientv3.WithCountOnly(), clientv3.WithSerializable())
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(1 << 20 / (64 << 10)); got.Count != want {
		t.Errorf("the member has %d keys, want %d", got.Count, want)
	}
}

func TestFullValidationRefusesWhatItShould(t *testing.T) {
	if err := inspect(t.Context(), []string{filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("a directory that does not exist is valid")
	}
	e, err := stores.StartEtcd(t.Context(), stores.EtcdOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	client, err := dial(e.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := populate(t.Context(), client, 1<<20); err != nil {
		t.Fatal(err)
	}
	dir := e.DataDir()
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(inspect(t.Context(), []string{dir}), files(t.Context(), []string{dir})); err != nil {
		t.Error(err)
	}
}
