package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// leases are those that the sidecar writes to, with the rights of its pod. It never makes one.
type leases struct {
	http                *http.Client
	base                string
	member, full, delta string // names
}

// account is where a pod finds who it is.
const account = "/var/run/secrets/kubernetes.io/serviceaccount"

func openLeases(flag map[string]string) (*leases, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(read(account, "ca.crt"))) {
		return nil, errors.New("the pod has no service account")
	}
	api := net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	return &leases{
		http:   &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}},
		base:   "https://" + api + "/apis/coordination.k8s.io/v1/namespaces/" + os.Getenv("POD_NAMESPACE") + "/leases/",
		member: os.Getenv("POD_NAME"), full: flag["full-snapshot-lease-name"], delta: flag["delta-snapshot-lease-name"],
	}, nil
}

// renew says who or what holds a Lease, and since when.
func (l *leases) renew(ctx context.Context, name, holder string, at time.Time) error {
	change, err := json.Marshal(map[string]any{"spec": map[string]any{"holderIdentity": holder, "renewTime": at.UTC().Format("2006-01-02T15:04:05.000000Z")}})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPatch, l.base+name, bytes.NewReader(change))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/merge-patch+json")
	r.Header.Set("User-Agent", "original-sidecar") // by which tests find it in the audit log
	r.Header.Set("Authorization", "Bearer "+read(account, "token"))
	answer, err := l.http.Do(r)
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("renew the Lease %s: %s", name, answer.Status)
	}
	return nil
}
