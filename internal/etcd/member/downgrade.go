package member

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// AllowDowngrade has the members bring their data, while they run, into the form that the etcd of an
// earlier minor version reads, such as 3.5. Nobody is downgraded by it: each member is then started
// with the earlier etcd, one after the other. How far a member is tells its [Status.StorageVersion].
// etcd forgets the permission when all members run the earlier version.
//
// ErrDowngradeTarget if it is not the minor version before the cluster's; ErrDowngrading if it is
// allowed already, to this version or another.
func (c *Cluster) AllowDowngrade(ctx context.Context, minor string) error {
	return c.downgrade(ctx, "allow a downgrade of etcd to "+minor, &pb.DowngradeRequest{Action: pb.DowngradeRequest_ENABLE, Version: minor})
}

// ForbidDowngrade ends what [Cluster.AllowDowngrade] began: the data get the form of the version that
// the members run. It is done already if no downgrade is allowed. etcd answers alike whether it did
// it or not: [Status.DowngradeTo] tells.
func (c *Cluster) ForbidDowngrade(ctx context.Context) error {
	return c.downgrade(ctx, "end the downgrade of etcd", &pb.DowngradeRequest{Action: pb.DowngradeRequest_CANCEL})
}

func (c *Cluster) downgrade(ctx context.Context, what string, r *pb.DowngradeRequest) error {
	return c.ask(ctx, what, func(ctx context.Context, m *Member, _ Status) error {
		_, err := pb.NewMaintenanceClient(m.client.ActiveConnection()).Downgrade(ctx, r)
		return explain(what, m.endpoint, err)
	})
}

func downgradeTo(d *pb.DowngradeInfo) string {
	if !d.GetEnabled() {
		return ""
	}
	return d.TargetVersion
}
