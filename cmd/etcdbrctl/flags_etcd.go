package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"druid.internal/druid/internal/agentapi/auth"
	"druid.internal/druid/internal/etcd/member"
)

// etcdFlags are the original's flags that say how to reach an etcd.
type etcdFlags struct {
	endpoints, serviceEndpoints      []string
	username, password               string
	connectionTimeout, streamTimeout time.Duration
	insecureTransport, insecureSkip  bool
	cert, key, cacert                string
}

func (f *etcdFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVarP(&f.endpoints, "endpoints", "e", []string{"http://127.0.0.1:2379"}, "client URLs of the etcd, tried in order")
	flags.StringSliceVar(&f.serviceEndpoints, "service-endpoints", nil, "client URLs of a service in front of the cluster, tried after the endpoints")
	flags.StringVar(&f.username, "etcd-username", "", "user name")
	flags.StringVar(&f.password, "etcd-password", "", "password")
	flags.DurationVar(&f.connectionTimeout, "etcd-connection-timeout", 30*time.Second, "bound on connecting and on every short question")
	flags.DurationVar(&f.streamTimeout, "etcd-snapshot-timeout", 15*time.Minute, "end a full snapshot of which nothing moves for so long, from etcd or to the store; one that moves may take any time")
	flags.BoolVar(&f.insecureTransport, "insecure-transport", true, "allow plain text to endpoints with http:// or without a scheme")
	flags.BoolVar(&f.insecureSkip, "insecure-skip-tls-verify", false, "accept any server certificate")
	flags.StringVar(&f.cert, "cert", "", "client certificate, a PEM file")
	flags.StringVar(&f.key, "key", "", "its key, a PEM file")
	flags.StringVar(&f.cacert, "cacert", "", "authorities that may sign the server's certificate, a PEM file")
}

func (f *etcdFlags) config() (member.Config, error) {
	c := member.Config{
		Endpoints: append(append([]string{}, f.endpoints...), f.serviceEndpoints...),
		CertFile:  f.cert, KeyFile: f.key, CAFile: f.cacert,
		InsecureTransport: f.insecureTransport, InsecureSkipVerify: f.insecureSkip,
		Username: f.username, Password: f.password, DialTimeout: f.connectionTimeout,
	}
	if err := c.Validate(); err != nil {
		return member.Config{}, &usageError{err}
	}
	for _, file := range []struct{ flag, path string }{{"--cert", f.cert}, {"--key", f.key}, {"--cacert", f.cacert}} {
		if err := auth.Named(file.flag, file.path); err != nil {
			return member.Config{}, &usageError{err}
		}
	}
	if f.streamTimeout <= 0 {
		return member.Config{}, &usageError{fmt.Errorf("--etcd-snapshot-timeout must be above 0")}
	}
	return c, nil
}
