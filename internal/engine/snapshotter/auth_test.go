package snapshotter

import (
	"context"
	"testing"
	"time"

	"druid.internal/druid/internal/etcd/member"
)

// covered waits until the newest full has the revision of etcd's users.
func (r *running) covered(e *etcd) Taken {
	r.t.Helper()
	want := e.authRevision()
	return r.delivered(func(f *Taken) bool { return f != nil && f.Manifest.AuthRevision == want })
}

func (e *etcd) authRevision() uint64 {
	e.t.Helper()
	r, err := e.client.AuthStatus(e.t.Context())
	if err != nil {
		e.t.Fatal(err)
	}
	return r.AuthRevision
}

func (e *etcd) addUser(name string) {
	e.t.Helper()
	if _, err := e.client.UserAdd(e.t.Context(), name, "secret"); err != nil {
		e.t.Fatal(err)
	}
}

func TestFullFollowsChangedUsers(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	cfg := config(e, s)
	e.addUser("bk")
	r := start(t, cfg)
	base := r.covered(e)
	e.addUser("late")
	if _, err := e.client.UserDelete(t.Context(), "bk"); err != nil {
		t.Fatal(err)
	}
	e.put(1)
	r.delta()
	if next := r.covered(e); next.Key == base.Key {
		t.Errorf("%s holds users that were changed after it", base.Key)
	}
}

func TestFullFollowsUsersChangedWhileStopped(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	cfg := config(e, s)
	e.put(3)
	r := start(t, cfg)
	base := r.covered(e)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	again := start(t, cfg)
	e.put(3)
	again.delta()
	if now := *again.Standing().LastFull; now.Key != base.Key {
		t.Errorf("%s was taken although no user changed", now.Key)
	}
	again.stop()
	e.addUser("late")
	start(t, cfg).covered(e)
}

func TestUsersAreBackedUpBeforeTheEnd(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	r := start(t, config(e, s))
	r.covered(e)
	e.addUser("late")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if _, chain, _ := newest(read(t, s)); chain.Base.Manifest.AuthRevision != e.authRevision() {
		t.Errorf("%s has the users of revision %d, want %d", chain.Base.Name(), chain.Base.Manifest.AuthRevision, e.authRevision())
	}
}

func TestFinalFullIsNotReusedAfterUsersChanged(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	cfg := config(e, s)
	cfg.Ending = func(context.Context) bool { return true }
	r := start(t, cfg)
	r.covered(e)
	final := r.full(true)
	if same := r.full(true); !same.Reused || same.Key != final.Key {
		t.Fatalf("%s is not reused", final.Key)
	}
	e.addUser("late")
	if next := r.full(true); next.Reused || next.Manifest.AuthRevision != e.authRevision() {
		t.Errorf("%s has the users of revision %d, want %d", next.Key, next.Manifest.AuthRevision, e.authRevision())
	}
}

// TestFullsBecauseOfUsersBecomeRarer has users change at every look.
func TestFullsBecauseOfUsersBecomeRarer(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	n := &session{
		Snapshotter: &Snapshotter{cfg: Config{Retry: Backoff{}.complete(), Now: func() time.Time { return now }}},
		lastFull:    &Taken{}, asked: make(chan struct{}, 1),
	}
	revision := uint64(1)
	n.cfg.Connect = func(context.Context) (Member, error) { revision++; return users{revision: revision}, nil }
	fulls := 0
	for range 24 * 60 * 60 { // a day, second by second
		now = now.Add(time.Second)
		if err := n.checkAuth(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n.due != "" {
			fulls, n.due = fulls+1, ""
		}
	}
	if fulls < 2 || fulls > 12 {
		t.Errorf("%d fulls in a day of changes every second, want 2 to 12", fulls)
	}
}

type users struct {
	Member
	revision uint64
}

func (u users) AuthRevision(context.Context) (uint64, error) { return u.revision, nil }

// TestUserWithoutRightsStillBacksUp has an etcd that does not report the revision of its users.
func TestUserWithoutRightsStillBacksUp(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	cfg := config(e, s)
	cfg.Connect = func(ctx context.Context) (Member, error) {
		m, err := e.connect(ctx)
		return forbidden{m}, err
	}
	r := start(t, cfg)
	r.full(false)
	e.addUser("late")
	last := e.put(3)
	r.delta()
	r.stop()
	if chain := wantRestorable(t, e, s, last); chain.Base.Manifest.AuthRevision != 0 {
		t.Errorf("the manifest names revision %d of users, want none", chain.Base.Manifest.AuthRevision)
	}
}

type forbidden struct{ Member }

func (forbidden) AuthRevision(context.Context) (uint64, error) { return 0, member.ErrForbidden }
