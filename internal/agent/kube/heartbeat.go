package kube

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
)

// heartbeat renews the Lease of the member. Its age is how the operator knows that the member works,
// so it is not renewed while etcd does not answer or sees no leader.
type heartbeat struct {
	Options
	api  *api
	line line

	renewed time.Time // last
	holder  string    // as it was written last
	silent  bool      // as it was logged
}

// leasePatch changes nothing of a Lease but this.
type leasePatch struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		HolderIdentity string           `json:"holderIdentity"`
		RenewTime      metav1.MicroTime `json:"renewTime"`
	} `json:"spec"`
}

// step renews the Lease if that is due: after the period, or when the member's role changed.
func (h *heartbeat) step(ctx context.Context) {
	m := h.State()
	holder := holderOf(m)
	h.tell(holder == "")
	now := h.Now()
	if holder == "" || !h.line.open() || holder == h.holder && now.Sub(h.renewed) < h.Heartbeat {
		return
	}
	var p leasePatch
	p.Metadata.Annotations = map[string]string{druidv1alpha1.AnnotationPeerTLSEnabled: strconv.FormatBool(securePeers(m))}
	p.Spec.HolderIdentity, p.Spec.RenewTime = holder, metav1.NewMicroTime(now)
	err := h.api.patch(ctx, h.api.lease, mergePatch, p, nil)
	h.line.note(ctx, err)
	if err == nil {
		h.renewed, h.holder = now, holder
	}
}

// tell logs when the renewal stops and starts.
func (h *heartbeat) tell(silent bool) {
	if silent == h.silent {
		return
	}
	h.silent = silent
	if silent {
		h.Log.Info("the member's Lease is not renewed: its etcd does not answer, or sees no leader")
		return
	}
	h.Log.Info("the member's Lease is renewed")
}

// holderOf is the holder's identity, as in "4c37667312a3912b:cdf818194e3a8c32:Leader"; empty: it is
// not known whether the member works. A learner is a Member, as it is for the original: it lives,
// and whether it votes stands in its EtcdMember.
func holderOf(m agentapi.Member) string {
	if m.Etcd == nil || m.Etcd.Leader == "" || m.ID == "" || m.ClusterID == "" {
		return ""
	}
	role := druidv1alpha1.EtcdRoleMember
	if m.Etcd.Leader == m.ID {
		role = druidv1alpha1.EtcdRoleLeader
	}
	return m.ID + ":" + m.ClusterID + ":" + string(role)
}

// securePeers says whether the etcd was started with TLS to others, or will be, if it was never
// started.
func securePeers(m agentapi.Member) bool {
	if len(m.PeerURLs) == 0 {
		return m.PeerTLSEnabled
	}
	return !slices.ContainsFunc(m.PeerURLs, func(u string) bool { return !strings.HasPrefix(u, "https://") })
}
