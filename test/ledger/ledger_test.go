package ledger

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/test/history"
	"druid.internal/druid/test/linear"
	"druid.internal/druid/test/stores"
)

func kv(key, value string, mod int64) *mvccpb.KeyValue {
	return &mvccpb.KeyValue{Key: []byte(key), Value: []byte(value), ModRevision: mod}
}

func TestAKeySpaceMustHaveWhatWasAcknowledged(t *testing.T) {
	for what, c := range map[string]struct {
		kvs  []*mvccpb.KeyValue
		upTo int64
		want string // part of what is wrong; empty: nothing
	}{
		"all is there":                         {kvs: []*mvccpb.KeyValue{kv("/a", "2", 3)}},
		"a key is gone":                        {want: "lost"},
		"a key is older":                       {kvs: []*mvccpb.KeyValue{kv("/a", "1", 2)}, want: "acknowledged at 3 is lost"},
		"a key has another value":              {kvs: []*mvccpb.KeyValue{kv("/a", "x", 3)}, want: "not the acknowledged one"},
		"a key has an unanswered value":        {kvs: []*mvccpb.KeyValue{kv("/a", "u", 9)}},
		"a key has a newer value of nobody":    {kvs: []*mvccpb.KeyValue{kv("/a", "x", 9)}, want: "nobody's"},
		"a deleted key is back":                {kvs: []*mvccpb.KeyValue{kv("/a", "2", 3), kv("/b", "1", 4)}, want: `key "/b"`},
		"a key nobody wrote":                   {kvs: []*mvccpb.KeyValue{kv("/a", "2", 3), kv("/c", "1", 9)}, want: "nobody wrote it"},
		"a key elsewhere":                      {kvs: []*mvccpb.KeyValue{kv("/a", "2", 3), kv("else", "1", 9)}},
		"older than it need be, and no older":  {kvs: []*mvccpb.KeyValue{kv("/a", "1", 2)}, upTo: 2},
		"newer than it need be":                {kvs: []*mvccpb.KeyValue{kv("/a", "2", 3)}, upTo: 2},
		"newer than it need be, another value": {kvs: []*mvccpb.KeyValue{kv("/a", "x", 3)}, upTo: 2, want: "nobody's"},
	} {
		t.Run(what, func(t *testing.T) {
			l := Ledger{Prefix: "/"}
			l.Put("/a", "2", 3) // entered in another order than written
			l.Put("/a", "1", 2)
			l.Unsure("/a", "u")
			l.Put("/b", "1", 4)
			l.Delete("/b", 5)
			got := strings.Join(l.AgainstKeys(c.kvs, c.upTo), "; ")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("AgainstKeys: %q, want %q", got, c.want)
			}
		})
	}
}

func TestAHistoryMustHaveEveryAcknowledgedWrite(t *testing.T) {
	whole := []Event{{2, "/a", "1", false}, {3, "/a", "2", false}, {4, "/b", "1", false}, {5, "/b", "", true}}
	for what, c := range map[string]struct {
		events     []Event
		from, upTo int64
		want       string
	}{
		"all is there":                   {events: whole},
		"one in the middle is lost":      {events: []Event{whole[0], whole[2], whole[3]}, want: `acknowledged write of "/a" at revision 3`},
		"one of another value":           {events: []Event{whole[0], {3, "/a", "x", false}, whole[2], whole[3]}, want: "became"},
		"a deletion is lost":             {events: whole[:3], want: `acknowledged deletion of "/b" at revision 5`},
		"a deletion after what was kept": {events: whole[:3], upTo: 4},
		"a write before what was kept":   {events: whole[1:], from: 3},
		"an unanswered write":            {events: append(whole[:4:4], Event{6, "/a", "u", false})},
		"a write of nobody":              {events: append(whole[:4:4], Event{6, "/a", "x", false}), want: "nobody asked for"},
		"a deletion of nobody":           {events: append(whole[:4:4], Event{6, "/a", "", true}), want: "nobody asked for"},
		"a write twice":                  {events: append(whole[:4:4], Event{6, "/a", "2", false}), want: "nobody asked for"},
	} {
		t.Run(what, func(t *testing.T) {
			var l Ledger
			for _, e := range whole {
				l.enter(e)
			}
			l.Unsure("/a", "u")
			got := strings.Join(l.AgainstEvents(c.events, c.from, c.upTo), "; ")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("AgainstEvents: %q, want %q", got, c.want)
			}
		})
	}
}

func TestWhatARestoreGaveUpIsForgotten(t *testing.T) {
	var l Ledger
	l.Put("/a", "1", 2)
	l.Put("/a", "2", 3)
	l.Put("/b", "1", 4)
	l.Forget(2)
	if got := l.AgainstKeys([]*mvccpb.KeyValue{kv("/a", "1", 2)}, 0); len(got) > 0 || l.Acknowledged() != 1 || l.Newest() != 2 {
		t.Errorf("%q with %d acknowledged up to %d, want nothing with 1 up to 2", got, l.Acknowledged(), l.Newest())
	}
}

// TestTheLedgerOfARealEtcdAgreesWithItsKeysItsWatchAndItsDatabase, and no longer when one write is
// entered that was never made.
func TestTheLedgerOfARealEtcdAgreesWithItsKeysItsWatchAndItsDatabase(t *testing.T) {
	e := stores.RunEtcd(t, stores.EtcdOptions{})
	connect := func(int) (clientv3.KV, error) {
		return clientv3.New(clientv3.Config{Endpoints: e.Endpoints(), DialTimeout: 10 * time.Second})
	}
	r := linear.NewRecorder()
	load := linear.Load{Connect: connect, Clients: 8, Keys: 20, Operations: 4000, Prefix: "/ledger/", Seed: 3}
	if err := load.Run(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	l := &Ledger{Prefix: load.Prefix}
	l.Add(r.Operations())

	kvc, err := connect(0)
	if err != nil {
		t.Fatal(err)
	}
	c := kvc.(*clientv3.Client)
	defer c.Close()
	kvs, rev, err := history.Read(t.Context(), c, 0)
	if err != nil {
		t.Fatal(err)
	}
	watched, err := Watched(t.Context(), c, 2, rev)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	stored, err := Stored(e.DataDir())
	if err != nil {
		t.Fatal(err)
	}
	if diff := Differ(stored, watched, 2, rev); len(diff) > 0 || len(watched) < 1000 {
		t.Errorf("the database and the watch with %d events differ: %q", len(watched), diff)
	}
	if diff := Differ(stored[1:], watched, 2, rev); len(diff) == 0 {
		t.Error("a database without its first event does not differ")
	}
	if got := l.AgainstKeys(kvs, 0); len(got) > 0 {
		t.Errorf("keys: %q", got)
	}
	if got := l.AgainstEvents(stored, 0, 0); len(got) > 0 {
		t.Errorf("events: %q", got)
	}
	l.Put(load.Prefix+"0000", "never written", rev+1)
	if len(l.AgainstKeys(kvs, 0)) != 1 || len(l.AgainstEvents(stored, 0, 0)) != 1 {
		t.Error("a write that was acknowledged and never made is not missed")
	}
	if _, err := Stored(filepath.Join(t.TempDir(), "nothing")); err == nil {
		t.Error("there is no database and it was read")
	}
}
