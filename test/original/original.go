// Package original has what the original writes for an Etcd, for tests that lay it out and have it taken over.
//
// It is written after the formats, and has no code of the original.
package original

import (
	_ "embed"
	"strings"
)

// Objects are those of the Etcd main of three members with backups in the namespace shop, as documents of YAML between lines of three
// dashes. CLIENTPORT and SIDECARPORT stand for the ports.
//
//go:embed original.yaml
var Objects string

// WithTLS has Objects be as they are with TLS between members and of clients, but for the [Certificates].
var WithTLS = strings.NewReplacer("http://", "https://", `tls-enabled: "false"`, `tls-enabled: "true"`,
	"    next-cluster-version-compatible: true", `    client-transport-security: {cert-file: /var/etcd/ssl/server/tls.crt, key-file: /var/etcd/ssl/server/tls.key, client-cert-auth: true, trusted-ca-file: /var/etcd/ssl/ca/ca.crt, auto-tls: false}
    peer-transport-security: {cert-file: /var/etcd/ssl/peer/server/tls.crt, key-file: /var/etcd/ssl/peer/server/tls.key, client-cert-auth: true, trusted-ca-file: /var/etcd/ssl/peer/ca/ca.crt, auto-tls: false}
    next-cluster-version-compatible: true`,
	"        - --insecure-transport=true", `        - --cacert=/var/etcd/ssl/ca/ca.crt
        - --cert=/var/etcd/ssl/client/tls.crt
        - --key=/var/etcd/ssl/client/tls.key
        - --insecure-transport=false`, "--insecure-skip-tls-verify=true", "--insecure-skip-tls-verify=false")

// A Certificate is a volume of the original's pods for TLS.
type Certificate struct {
	Volume, Path  string
	Secret        string // as tests name it
	Etcd, Sidecar bool   // the containers that mount it
}

// Certificates are for TLS between members and of clients, SidecarCertificates for that of sidecars.
var (
	Certificates = []Certificate{
		{"etcd-ca", "/var/etcd/ssl/ca", "ca", true, true},
		{"etcd-server-tls", "/var/etcd/ssl/server", "server", true, false},
		{"etcd-client-tls", "/var/etcd/ssl/client", "client", true, true},
		{"etcd-peer-ca", "/var/etcd/ssl/peer/ca", "peer-ca", true, false},
		{"etcd-peer-server-tls", "/var/etcd/ssl/peer/server", "peer-server", true, false},
	}
	SidecarCertificates = []Certificate{
		{"backup-restore-ca", "/var/etcdbr/ssl/ca", "sidecar-ca", true, false},
		{"backup-restore-server-tls", "/var/etcdbr/ssl/server", "sidecar-server", false, true},
	}
)
