package neighbours

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"druid.internal/druid/internal/etcd/member"
)

// busy is an etcd that drops changes, as one does that just makes another.
type busy struct {
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedClusterServer
	drops int             // so many changes
	given []time.Duration // to each change
}

func (b *busy) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Header: &pb.ResponseHeader{ClusterId: 1, MemberId: 2}, Version: "3.6.5", Leader: 2}, nil
}

func (b *busy) MemberAdd(ctx context.Context, r *pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	deadline, _ := ctx.Deadline()
	b.given = append(b.given, time.Until(deadline))
	if len(b.given) <= b.drops {
		return nil, rpctypes.ErrGRPCTimeout // what is said at last, without the wait
	}
	return &pb.MemberAddResponse{Member: &pb.Member{ID: 7, PeerURLs: r.PeerURLs, IsLearner: true}}, nil
}

// A second member that was added in the same moment waited for ten seconds.
func TestAChangeThatIsDroppedIsSoonAskedForAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	etcd, server := &busy{drops: 4}, grpc.NewServer()
	pb.RegisterMaintenanceServer(server, etcd)
	pb.RegisterClusterServer(server, etcd)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	a := asker(t, 1)
	add := func() error {
		_, err := a.AddLearner(t.Context(), []string{"http://" + l.Addr().String()}, []string{"http://127.0.0.1:9"})
		return err
	}
	for range etcd.drops {
		if err := add(); !errors.Is(err, member.ErrNoLeader) {
			t.Fatalf("a dropped change: %v, want %v", err, member.ErrNoLeader)
		}
	}
	if err := errors.Join(add(), add()); err != nil {
		t.Fatal(err)
	}
	for i, want := range []time.Duration{2, 4, 8, 10, 10, 2} {
		want *= time.Second
		if got := etcd.given[i]; got > want || got < want*3/4 {
			t.Errorf("attempt %d had %s, want %s", i, got, want)
		}
	}
}
