package member

import (
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// watchAhead is how many bytes of events are read before the reader waits, and
// watchWindow what etcd may send on top of that, which the connection keeps.
const (
	watchAhead  = 256 << 10
	watchWindow = 1 << 20
	// takePause is about as long as it takes to unpack what came in one round of the connection.
	takePause = 10 * time.Millisecond
)

// reader takes answers from a stream and hands them on many at a time: what came within takePause
// of the first, or watchAhead, comes out together. It reads no further while so much was not taken.
type reader struct {
	recv func() (*pb.WatchResponse, error)
	some chan struct{} // told when there is something to take
	much chan struct{} // told when it is not worth waiting for more
	room chan struct{} // told when much was taken
	stop chan struct{} // closed by whoever takes nothing any more
	done chan struct{} // closed at the end

	mu       sync.Mutex
	answers  []*pb.WatchResponse
	bytes    int
	received time.Time // the last of answers
	ended    error     // why there will be no more
}

func newReader(recv func() (*pb.WatchResponse, error)) *reader {
	return &reader{recv: recv, some: make(chan struct{}, 1), much: make(chan struct{}, 1), room: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{})}
}

func (r *reader) run() {
	defer close(r.done)
	for {
		answer, err := r.recv()
		if more := r.add(answer, err); !more {
			return
		}
	}
}

// add reports whether to go on.
func (r *reader) add(answer *pb.WatchResponse, err error) bool {
	r.mu.Lock()
	if err != nil {
		r.ended = err
	} else {
		r.answers, r.received = append(r.answers, answer), time.Now()
		for _, e := range answer.Events {
			r.bytes += e.Size()
		}
	}
	full := r.bytes >= watchAhead
	r.mu.Unlock()
	tell(r.some)
	if err != nil || full {
		tell(r.much)
	}
	if !full || err != nil {
		return err == nil
	}
	select {
	case <-r.room:
		return true
	case <-r.stop:
		return false
	}
}

// take returns what there is, after some was told, and why there will be no more.
func (r *reader) take() (answers []*pb.WatchResponse, received time.Time, ended error) {
	select {
	case <-r.much:
	case <-time.After(takePause):
	}
	r.mu.Lock()
	answers, received, ended = r.answers, r.received, r.ended
	full := r.bytes >= watchAhead
	r.answers, r.bytes = nil, 0
	select {
	case <-r.some: // that was all taken now
	default:
	}
	r.mu.Unlock()
	if full {
		tell(r.room)
	}
	return answers, received, ended
}

// tell says something to a channel of one, unless it was said already.
func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
