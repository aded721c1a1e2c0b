package member

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"druid.internal/druid/internal/backup/snapshot"
)

// told runs a reader of a stream that is fed by the channels it returns.
func told(t *testing.T) (*reader, chan<- *pb.WatchResponse, chan<- error) {
	answers, ends := make(chan *pb.WatchResponse), make(chan error, 1)
	r := newReader(func() (*pb.WatchResponse, error) {
		select {
		case a := <-answers:
			return a, nil
		case err := <-ends:
			return nil, err
		}
	})
	go r.run()
	t.Cleanup(func() {
		ends <- context.Canceled
		close(r.stop)
		<-r.done
	})
	return r, answers, ends
}

func TestAReaderGivesEveryAnswerInOrderAndThenWhyItEnded(t *testing.T) {
	r, answers, ends := told(t)
	broken := errors.New("the stream broke")
	const n = 500
	go func() {
		for i := range int64(n) {
			answers <- answer(false, i+1)
		}
		ends <- broken
	}()
	var got []int64
	for {
		<-r.some
		all, received, ended := r.take()
		for _, a := range all {
			got = append(got, a.Events[0].Kv.ModRevision)
		}
		if len(all) > 0 && received.IsZero() {
			t.Fatal("answers that were never received")
		}
		if ended != nil {
			if !errors.Is(ended, broken) {
				t.Errorf("it ended with %v, want %v", ended, broken)
			}
			break
		}
	}
	for i, rev := range got {
		if rev != int64(i+1) {
			t.Fatalf("answer %d is of revision %d", i, rev)
		}
	}
	if len(got) != n {
		t.Errorf("%d answers, want %d", len(got), n)
	}
}

func TestAReaderReadsNoFurtherWhileMuchIsNotTaken(t *testing.T) {
	var taken atomic.Int64
	calls := int64(0)
	r := newReader(func() (*pb.WatchResponse, error) {
		if calls++; taken.Load() != calls-1 {
			t.Errorf("answer %d is read when %d were taken", calls, taken.Load())
		}
		if calls > 20 {
			return nil, context.Canceled
		}
		large := answer(false, calls)
		large.Events[0].Kv.Value = make([]byte, watchAhead)
		return large, nil
	})
	go r.run()
	for ended := error(nil); ended == nil; {
		<-r.some
		taken.Add(1)
		_, _, ended = r.take()
	}
	<-r.done
	if calls != 21 {
		t.Errorf("%d answers were read, want all", calls)
	}
}

func TestAnswersAreHandedOnTogetherAsFarAsNothingIsBetweenThem(t *testing.T) {
	sign := &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: 6}}
	refused := errors.New("refused")
	type batch struct {
		Events []int64
		Known  snapshot.Revision
	}
	for name, c := range map[string]struct {
		answers []*pb.WatchResponse
		fail    int // the call of fn that fails, from 1
		want    []batch
		err     error
	}{
		"events":                {answers: []*pb.WatchResponse{answer(false, 5), answer(false, 6, 6), answer(false, 7)}, want: []batch{{[]int64{5, 6, 6, 7}, 7}}},
		"a sign of life":        {answers: []*pb.WatchResponse{sign}, want: []batch{{nil, 6}}},
		"a sign of life within": {answers: []*pb.WatchResponse{answer(false, 5), sign, answer(false, 6)}, want: []batch{{[]int64{5}, 5}, {nil, 6}, {[]int64{6}, 6}}},
		"a revision that goes on in the next round": {answers: []*pb.WatchResponse{answer(false, 5), answer(true, 6, 7)}, want: []batch{{[]int64{5, 6}, 6}}},
		"a gap behind events":                       {answers: []*pb.WatchResponse{answer(false, 5), answer(false, 9)}, want: []batch{{[]int64{5}, 5}}, err: new(GapError)},
		"a compaction behind events":                {answers: []*pb.WatchResponse{answer(false, 5), {CompactRevision: 9}}, want: []batch{{[]int64{5}, 5}}, err: ErrCompacted},
		"events that are refused":                   {answers: []*pb.WatchResponse{answer(false, 5), {CompactRevision: 9}}, fail: 1, want: []batch{{[]int64{5}, 5}}, err: refused},
		"a sign of life that is refused":            {answers: []*pb.WatchResponse{answer(false, 5), sign, answer(false, 6)}, fail: 2, want: []batch{{[]int64{5}, 5}, {nil, 6}}, err: refused},
	} {
		t.Run(name, func(t *testing.T) {
			var got []batch
			err := (&Member{}).hand(&assembler{next: 5}, c.answers, time.Now(), func(b Batch) error {
				var revs []int64
				for _, e := range b.Events {
					revs = append(revs, e.Kv.ModRevision)
				}
				if got = append(got, batch{revs, b.Known}); len(got) == c.fail {
					return refused
				}
				return nil
			})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			var gap *GapError
			if isGap := errors.As(c.err, &gap); isGap && !errors.As(err, &gap) || !isGap && !errors.Is(err, c.err) {
				t.Errorf("%v, want %v", err, c.err)
			}
		})
	}
}

func TestMessagesAreTheSameOnTheWire(t *testing.T) {
	want := answer(true, 5, 5, 6)
	want.Header.Revision, want.WatchId = 9, 3
	want.Events[1] = &mvccpb.Event{Type: mvccpb.DELETE, Kv: &mvccpb.KeyValue{Key: []byte("key"), ModRevision: 5}}
	data, err := wire{}.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got := &pb.WatchResponse{Canceled: true} // of a former message
	if err := (wire{}).Unmarshal(data, got); err != nil {
		t.Fatal(err)
	}
	if got.String() != want.String() {
		t.Errorf("%v, want %v", got, want)
	}
	if err := (wire{}).Unmarshal(data, new(int)); err == nil {
		t.Error("a number was read")
	}
	if _, err := (wire{}).Marshal(1); err == nil {
		t.Error("a number was written")
	}
}
