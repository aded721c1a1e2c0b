package health

import (
	"fmt"
	"strconv"
	"strings"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// Identity is what a sidecar writes into the holderIdentity of its member's Lease: the member's id,
// the cluster's, and the role, as in "4c37667312a3912b:cdf818194e3a8c32:Leader".
type Identity struct {
	ID        string // hexadecimal
	ClusterID string // hexadecimal; empty: sidecars before v0.40 of the original do not tell
	Role      druidv1alpha1.EtcdRole
}

// ParseIdentity reads both forms, with and without the id of the cluster.
func ParseIdentity(holder string) (Identity, error) {
	parts := strings.Split(holder, ":")
	var id Identity
	switch len(parts) {
	case 2:
		id = Identity{ID: parts[0], Role: druidv1alpha1.EtcdRole(parts[1])}
	case 3:
		id = Identity{ID: parts[0], ClusterID: parts[1], Role: druidv1alpha1.EtcdRole(parts[2])}
		if !hexadecimal(id.ClusterID) {
			return Identity{}, fmt.Errorf("holder identity %q: the id of the cluster is not hexadecimal", clip(holder))
		}
	default:
		return Identity{}, fmt.Errorf("holder identity %q: want id:cluster:role, or id:role", clip(holder))
	}
	if !hexadecimal(id.ID) {
		return Identity{}, fmt.Errorf("holder identity %q: the id of the member is not hexadecimal", clip(holder))
	}
	if id.Role != druidv1alpha1.EtcdRoleLeader && id.Role != druidv1alpha1.EtcdRoleMember {
		return Identity{}, fmt.Errorf("holder identity %q: the role is neither %s nor %s", clip(holder), druidv1alpha1.EtcdRoleLeader, druidv1alpha1.EtcdRoleMember)
	}
	return id, nil
}

// String is the identity as it is written.
func (i Identity) String() string {
	if i.ClusterID == "" {
		return i.ID + ":" + string(i.Role)
	}
	return i.ID + ":" + i.ClusterID + ":" + string(i.Role)
}

// hexadecimal says whether text is an id of etcd: up to sixteen digits.
func hexadecimal(text string) bool {
	_, err := strconv.ParseUint(text, 16, 64)
	return err == nil && len(text) <= 16
}

// clip keeps what is quoted in a message short.
func clip(text string) string {
	if len(text) > 80 {
		return text[:80] + "..."
	}
	return text
}
