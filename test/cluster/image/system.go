package image

import (
	"errors"
	"fmt"
	"os"
)

// bundles are where distributions keep the certificates of authorities that everybody trusts.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Arch
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora
	"/etc/ssl/ca-bundle.pem",                            // SUSE
	"/etc/ssl/cert.pem",                                 // Alpine
}

// System is what programs expect of an operating system: users, /tmp, and the certificate
// authorities of this machine, without which no cloud's store can be trusted.
func System() ([]File, error) {
	files := []File{
		{Path: "/etc/passwd", Content: fmt.Appendf(nil, "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:%d:%d:nonroot:/:/sbin/nologin\n", User, User)},
		{Path: "/etc/group", Content: fmt.Appendf(nil, "root:x:0:\nnonroot:x:%d:\n", User)},
		{Path: "/etc/nsswitch.conf", Content: []byte("hosts: files dns\n")},
		{Path: "/tmp", Dir: true, Mode: 0o1777},
	}
	for _, bundle := range bundles {
		_, err := os.Stat(bundle)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return append(files, File{Path: "/etc/ssl/certs/ca-certificates.crt", Source: bundle, Mode: 0o644}), nil
	}
	return nil, fmt.Errorf("this machine has no certificate authorities (%s); install them, on Debian with: apt-get install ca-certificates", bundles[0])
}
