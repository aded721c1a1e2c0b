package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// passOn has the sidecar beside the etcd that leads answer, as the original has it.
func (s *sidecar) passOn(w http.ResponseWriter, r *http.Request) {
	host, err := s.leader(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	to := &url.URL{Scheme: "http", Host: net.JoinHostPort(host, s.port)}
	proxy := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) }}
	if s.secure {
		// It has no authority for that if etcd has no TLS: --insecure-skip-tls-verify is true then.
		to.Scheme, proxy.Transport = "https", &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}
	}
	proxy.ServeHTTP(w, r)
}

// leader is the host at which the etcd that leads serves clients.
func (s *sidecar) leader(r *http.Request) (string, error) {
	st, err := s.etcd.Status(r.Context(), s.endpoint)
	if err != nil {
		return "", err
	}
	all, err := s.etcd.MemberList(r.Context())
	if err != nil {
		return "", err
	}
	for _, m := range all.Members {
		if m.ID == st.Leader && m.ID != st.Header.MemberId && len(m.ClientURLs) > 0 {
			u, err := url.Parse(m.ClientURLs[0])
			if err != nil {
				return "", err
			}
			return u.Hostname(), nil
		}
	}
	return "", fmt.Errorf("no other member is known to lead: %x", st.Leader)
}
