package member

import (
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"druid.internal/druid/internal/backup/snapshot"
)

func answer(fragment bool, revs ...int64) *pb.WatchResponse {
	r := &pb.WatchResponse{Header: &pb.ResponseHeader{}, Fragment: fragment}
	for _, rev := range revs {
		r.Events = append(r.Events, &mvccpb.Event{Kv: &mvccpb.KeyValue{ModRevision: rev}})
	}
	return r
}

func TestOnlyWholeRevisionsLeaveTheAssembler(t *testing.T) {
	a := assembler{next: 5}
	steps := []struct {
		in   *pb.WatchResponse
		want []int64
	}{
		{answer(true, 5, 5, 6), []int64{5, 5}},
		{answer(true, 6, 6), nil},
		{answer(true, 6, 7, 8), []int64{6, 6, 6, 6, 7}},
		{answer(false, 8), []int64{8, 8}},
		{answer(false), nil},
		{answer(false, 9), []int64{9}},
	}
	for i, s := range steps {
		b, err := a.add(s.in, time.Now())
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		var got []int64
		for _, e := range b.Events {
			got = append(got, e.Kv.ModRevision)
		}
		if len(got) != len(s.want) {
			t.Fatalf("step %d: got %v, want %v", i, got, s.want)
		}
		for j := range got {
			if got[j] != s.want[j] {
				t.Fatalf("step %d: got %v, want %v", i, got, s.want)
			}
		}
		if len(got) > 0 && b.Known != snapshot.Revision(got[len(got)-1]) {
			t.Fatalf("step %d: known revision %d, want %d", i, b.Known, got[len(got)-1])
		}
	}
}

func TestAHoleInAWatchIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		in        [][]int64
		want, got snapshot.Revision
	}{
		"at the beginning":          {[][]int64{{6}}, 5, 6},
		"within an answer":          {[][]int64{{5, 7}}, 6, 7},
		"between answers":           {[][]int64{{5}, {8}}, 6, 8},
		"backwards":                 {[][]int64{{5, 6, 5}}, 7, 5},
		"a revision that goes on":   {[][]int64{{5}, {5}}, 6, 5},
		"the one before the first":  {[][]int64{{4}}, 5, 4},
		"a revision told once more": {[][]int64{{5, 6}, {5, 6}}, 7, 5},
	} {
		t.Run(name, func(t *testing.T) {
			a := assembler{next: 5}
			var err error
			for _, revs := range c.in {
				if err != nil {
					t.Fatalf("too early: %v", err)
				}
				_, err = a.add(answer(false, revs...), time.Now())
			}
			var gap *GapError
			if !errors.As(err, &gap) || gap.Want != c.want || gap.Got != c.got {
				t.Fatalf("%v, want a gap from %d to %d", err, c.want, c.got)
			}
		})
	}
}

func TestACancelledWatchIsAnError(t *testing.T) {
	a := assembler{next: 5}
	_, err := a.add(&pb.WatchResponse{Header: &pb.ResponseHeader{}, Canceled: true, CancelReason: "permission denied"}, time.Now())
	if !errors.Is(err, ErrCancelled) {
		t.Fatalf("%v, want ErrCancelled", err)
	}
	_, err = a.add(&pb.WatchResponse{Header: &pb.ResponseHeader{}, Canceled: true, CompactRevision: 9}, time.Now())
	if !errors.Is(err, ErrCompacted) {
		t.Fatalf("%v, want ErrCompacted", err)
	}
}
