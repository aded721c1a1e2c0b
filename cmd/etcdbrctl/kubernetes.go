package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"druid.internal/druid/internal/agent/config"
	"druid.internal/druid/internal/agent/kube"
	"druid.internal/druid/internal/agent/metrics"
	"druid.internal/druid/internal/agent/status"
	"druid.internal/druid/internal/agentapi/auth"
)

// What every pod with a ServiceAccount is given.
const (
	serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"
	hostVariable      = "KUBERNETES_SERVICE_HOST"
	portVariable      = "KUBERNETES_SERVICE_PORT"
)

type report = func(context.Context, *status.Board, *metrics.Catalogue) error

// kubernetes is what tells Kubernetes of the member; nil, with a line in the log, if that was asked
// for and there is no way: the member itself works as well without it.
func (a *app) kubernetes(h config.Health, member, dir string) report {
	if !h.MemberLeaseRenewalEnabled {
		return nil
	}
	o := kube.Options{Member: member, Heartbeat: h.HeartbeatDuration.D(), Log: a.log}
	var err error
	if o.Server, o.Namespace, o.Client, err = a.apiServer(dir); err != nil {
		a.log.Warn("Kubernetes is not told of this member, although healthConfig.memberLeaseRenewalEnabled (--enable-member-lease-renewal) asks for it", "reason", err)
		return nil
	}
	return func(ctx context.Context, b *status.Board, m *metrics.Catalogue) error {
		o.State, o.Metrics = b.Get, m
		return kube.Run(ctx, o)
	}
}

// apiServer is where the API server of this pod's cluster is, the pod's namespace, and a client that
// shows the pod's token, which is read anew each time.
func (a *app) apiServer(dir string) (server, namespace string, client *http.Client, err error) {
	host, port := a.sys.getenv(hostVariable), a.sys.getenv(portVariable)
	if host == "" || port == "" {
		return "", "", nil, errors.New("this is no pod: " + hostVariable + " and " + portVariable + " are not set")
	}
	namespace = a.sys.getenv(namespaceVariable)
	if namespace == "" {
		b, err := os.ReadFile(filepath.Join(dir, "namespace"))
		if err != nil {
			return "", "", nil, errors.New("the pod's namespace is not known: set " + namespaceVariable)
		}
		namespace = strings.TrimSpace(string(b))
	}
	client, err = auth.NewClient(auth.Credentials{CAFile: filepath.Join(dir, "ca.crt"), TokenFile: filepath.Join(dir, "token")}, a.log)
	if err != nil {
		return "", "", nil, err
	}
	return "https://" + net.JoinHostPort(host, port), namespace, client, nil
}
