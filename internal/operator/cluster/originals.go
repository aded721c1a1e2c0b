package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/member"
	"druid.internal/druid/internal/operator/desired"
)

// A pod of the original cannot be asked by its sidecar, which tells nothing about its member. Its etcd
// tells the same: who it is, who leads, and who belongs to the cluster.

// maxEtcdAnswer limits a message of an etcd that is asked for its status and its members, in bytes:
// 99 members of a few KiB.
const maxEtcdAnswer = 512 << 10

// etcds says how the etcds of an Etcd are reached, all but their addresses.
func (a httpAsker) etcds(ctx context.Context, e *druidv1alpha1.Etcd) (member.Config, error) {
	cfg := member.Config{InsecureTransport: true, DialTimeout: askTimeout, MaxReceive: maxEtcdAnswer}
	t := e.Spec.Etcd.ClientUrlTLS
	if t == nil {
		return cfg, nil
	}
	pool, err := a.dials().Authorities(ctx, e, t)
	if err != nil {
		return cfg, err
	}
	cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: e.LocalHostName()}
	if t.ClientSecret() == "" {
		return cfg, nil
	}
	cert, err := a.dials().Key(ctx, e, t.ClientSecret(), corev1.TLSCertKey)
	if err != nil {
		return cfg, err
	}
	key, err := a.dials().Key(ctx, e, t.ClientSecret(), corev1.TLSPrivateKeyKey)
	if err != nil {
		return cfg, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return cfg, fmt.Errorf("the Secret %s: %w", t.ClientSecret(), err)
	}
	cfg.TLS.Certificates = []tls.Certificate{pair}
	return cfg, nil
}

// askEtcd asks the etcd at the address of a pod.
func (a httpAsker) askEtcd(ctx context.Context, e *druidv1alpha1.Etcd, address string) (agentapi.Member, error) {
	cfg, err := a.etcds(ctx, e)
	if err != nil {
		return agentapi.Member{}, err
	}
	scheme, port := "http", 2379
	if cfg.TLS != nil {
		scheme = "https"
	}
	if p := e.Spec.Etcd.ClientPort; p != nil {
		port = int(*p)
	}
	endpoint := scheme + "://" + net.JoinHostPort(address, strconv.Itoa(port))
	cfg.Endpoints = []string{endpoint}
	c, err := member.New(cfg)
	if err != nil {
		return agentapi.Member{}, err
	}
	defer c.Close()
	m, err := c.At(endpoint)
	if err != nil {
		return agentapi.Member{}, err
	}
	st, err := m.Status(ctx)
	if err != nil {
		return agentapi.Member{}, err
	}
	all, err := m.Members(ctx)
	if err != nil {
		return agentapi.Member{}, err
	}
	return memberOfEtcd(st, all)
}

// memberOfEtcd is what an etcd says, as a sidecar of ours would tell it.
func memberOfEtcd(st member.Status, all member.Membership) (agentapi.Member, error) {
	self, listed := all.ByID(st.MemberID)
	if !listed {
		return agentapi.Member{}, fmt.Errorf("the etcd that answers is member %016x, which it does not list", st.MemberID)
	}
	m := agentapi.Member{
		Name: self.Name, ID: idText(st.MemberID), ClusterID: idText(st.ClusterID), PeerURLs: self.PeerURLs,
		PeerTLSEnabled: len(self.PeerURLs) > 0 && strings.HasPrefix(self.PeerURLs[0], "https://"),
		Etcd: &agentapi.Etcd{
			Version: st.Version, Learner: st.Learner, Leader: idText(st.Leader),
			Revision: int64(st.Revision), DBSize: st.DBSize, DBSizeInUse: st.DBSizeInUse,
		},
	}
	for _, kind := range st.Alarms() {
		m.Etcd.Alarms = append(m.Etcd.Alarms, string(kind))
	}
	for _, p := range all.Peers {
		m.Etcd.Members = append(m.Etcd.Members, agentapi.Listed{ID: idText(p.ID), Name: p.Name, PeerURLs: p.PeerURLs, Learner: p.Learner})
	}
	return m.Bounded(), nil
}

// idText is an id as sidecars tell it; empty: none.
func idText(id uint64) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", id)
}

// full has the sidecars of the original take a full snapshot; those that do not make the backups pass
// the call on to the one that does. They cannot be asked to prove that it can be restored.
func (a httpAsker) full(ctx context.Context, e *druidv1alpha1.Etcd, pods []*corev1.Pod, what Snapshot, timeout time.Duration) error {
	var authorities *x509.CertPool
	scheme, port := "http", 8080
	if p := e.Spec.Backup.Port; p != nil {
		port = int(*p)
	}
	if b := e.Spec.Backup.TLS; b != nil {
		var err error
		if authorities, err = a.dials().Authorities(ctx, e, b); err != nil {
			return err
		}
		scheme = "https"
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var last error
	for _, p := range pods {
		if !desired.OfOriginal(p.Spec) || p.Status.PodIP == "" || p.DeletionTimestamp != nil {
			continue
		}
		c, err := a.dials().Upstream(scheme+"://"+net.JoinHostPort(p.Status.PodIP, strconv.Itoa(port)), authorities, e.LocalHostName())
		if err != nil {
			return err
		}
		_, err = c.Full(ctx, what.Final)
		c.Close()
		if err == nil {
			return nil
		}
		last = fmt.Errorf("the sidecar of %s, which is the original's: %w", p.Name, err)
	}
	return cmp.Or(last, errors.New("no sidecar answers that makes the backups; the condition BackupReady says more"))
}
