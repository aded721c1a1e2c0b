package memberconf

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The keys whose values differ from member to member.
const (
	initialCluster = "initial-cluster"
	advertisePeer  = "initial-advertise-peer-urls"
	advertise      = "advertise-client-urls"
)

// Where peers are listened to, and with which certificate.
const (
	listenPeer   = "listen-peer-urls"
	listenClient = "listen-client-urls"
	peerSecurity = "peer-transport-security"
)

// readMembers finds the wanted members and their URLs.
func (t *Template) readMembers() error {
	text, err := t.text(initialCluster, "")
	if err != nil {
		return err
	}
	if text == "" {
		return fmt.Errorf("%q is missing; list the wanted members like etcd-0=https://etcd-0.etcd-peer:2380", initialCluster)
	}
	listed, err := parseCluster(text)
	if err != nil {
		return fmt.Errorf("%q: %w", initialCluster, err)
	}
	peers, err := t.perMember(advertisePeer, listed)
	if err != nil {
		return err
	}
	clients, err := t.perMember(advertise, listed)
	if err != nil {
		return err
	}
	taken := map[string]string{}
	for _, p := range listed {
		if urls := peers[p.Name]; urls != nil {
			for _, u := range p.PeerURLs {
				if !slices.Contains(urls, u) {
					return fmt.Errorf("%q says that %s is at %s, which is not among its %q (%s); make them agree",
						initialCluster, p.Name, u, advertisePeer, strings.Join(urls, ", "))
				}
			}
			p.PeerURLs = urls
		}
		p.PeerURLs = slices.Compact(slices.Sorted(slices.Values(p.PeerURLs)))
		for _, u := range p.PeerURLs {
			if other, ok := taken[u]; ok {
				return fmt.Errorf("members %s and %s have the same peer URL %s", other, p.Name, u)
			}
			taken[u] = p.Name
		}
		p.ClientURLs = clients[p.Name]
		if len(p.ClientURLs) == 0 {
			return fmt.Errorf("%q has no URL for member %s; add the addresses at which its clients reach it", advertise, p.Name)
		}
		t.wanted = append(t.wanted, p)
	}
	slices.SortFunc(t.wanted, byOrdinal)
	return nil
}

// parseCluster reads NAME=URL,NAME=URL,... A name may occur several times.
func parseCluster(text string) ([]Peer, error) {
	var peers []Peer
	for _, entry := range strings.Split(text, ",") {
		name, u, ok := strings.Cut(strings.TrimSpace(entry), "=")
		name = strings.TrimSpace(name)
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is not a member and its peer URL, as in etcd-0=https://etcd-0.etcd-peer:2380", entry)
		}
		if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return nil, fmt.Errorf("%q is no name of a member", name)
		}
		u, err := checkURL(u)
		if err != nil {
			return nil, fmt.Errorf("member %s: %w", name, err)
		}
		if i := slices.IndexFunc(peers, func(p Peer) bool { return p.Name == name }); i >= 0 {
			peers[i].PeerURLs = append(peers[i].PeerURLs, u)
			continue
		}
		peers = append(peers, Peer{Name: name, PeerURLs: []string{u}})
	}
	return peers, nil
}

// perMember reads a map from members to URLs. Where only one member is wanted, its URLs may stand
// there without a map. Members that are not wanted are passed over: there may be a few while the
// file is about to change. A nil entry was not given.
func (t *Template) perMember(key string, wanted []Peer) (map[string][]string, error) {
	v, ok := t.values[key]
	if !ok || v == nil {
		return nil, nil
	}
	out := map[string][]string{}
	m, ok := v.(map[string]any)
	if !ok {
		urls, err := urlList(v)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", key, err)
		}
		if len(wanted) != 1 {
			return nil, fmt.Errorf("%q does not say whose URLs these are, and there are %d members; write it as a map from members to URLs", key, len(wanted))
		}
		out[wanted[0].Name] = urls
		return out, nil
	}
	for _, name := range sortedKeys(m) {
		urls, err := urlList(m[name])
		if err != nil {
			return nil, fmt.Errorf("%q of member %s: %w", key, name, err)
		}
		out[name] = urls
	}
	return out, nil
}

// urlList reads one URL, several with commas, or a list.
func urlList(v any) ([]string, error) {
	var texts []string
	switch v := v.(type) {
	case string:
		texts = strings.Split(v, ",")
	case []any:
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, fmt.Errorf("%v is not a URL", e)
			}
			texts = append(texts, s)
		}
	default:
		return nil, errors.New("not a list of URLs")
	}
	if len(texts) == 0 {
		return nil, errors.New("the list of URLs is empty")
	}
	var urls []string
	for _, s := range texts {
		u, err := checkURL(s)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(urls, u) {
			urls = append(urls, u)
		}
	}
	return urls, nil
}

// checkURL accepts what etcd accepts, but for user names: a scheme, a host and a port.
func checkURL(s string) (string, error) {
	s = strings.TrimSpace(s)
	bad := func(why string) (string, error) {
		return "", fmt.Errorf("URL %s; write it like https://etcd-0.etcd-peer:2380", why)
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || strings.Contains(s, ","):
		return bad("cannot be understood")
	case u.User != nil:
		return bad("holds a user name or password")
	case u.Scheme == "unix" || u.Scheme == "unixs":
		if u.Host == "" && u.Path == "" {
			return bad(fmt.Sprintf("%q names no socket", s))
		}
		return s, nil
	case u.Scheme != "http" && u.Scheme != "https":
		return bad(fmt.Sprintf("%q does not begin with http:// or https://", s))
	case u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.Opaque != "":
		return bad(fmt.Sprintf("%q is more than a host and a port", s))
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil || host == "" || port == "" {
		return bad(fmt.Sprintf("%q does not name a host and a port", s))
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return bad(fmt.Sprintf("%q has no usable port", s))
	}
	return u.Scheme + "://" + u.Host, nil
}

// serving are the keys that say how clients are served, but for the URLs that are told to them.
var serving = []string{listenClient, "listen-client-http-urls", "client-transport-security"}

// listening are the keys of addresses to listen on, with etcd's default port; "" has no default.
var listening = map[string]string{
	listenPeer: "2380", listenClient: "2379", "listen-client-http-urls": "", "listen-metrics-urls": "",
}

func (t *Template) checkListen() error {
	for _, key := range sortedKeys(listening) {
		if _, err := t.listen(key); err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
	}
	return nil
}

// ListenAt is where a member listens to be found at urls in place of the wanted ones: by the configuration, at the schemes and ports of those
// whose host is that of a wanted URL at which it listens itself. Others are somebody's who forwards. nil: it cannot, as for https without a
// certificate.
func (t *Template) ListenAt(member string, urls []string) (listen []string) {
	own, _ := t.Peer(member)
	configured, err := t.listen(listenPeer)
	m, _ := t.values[peerSecurity].(map[string]any)
	secure := m["cert-file"] != nil && m["cert-file"] != ""
	if err != nil {
		return nil // was checked when the file was read
	}
	port := func(s string) string {
		u, err := url.Parse(s)
		if err != nil {
			return ""
		}
		return u.Port()
	}
	for _, s := range urls {
		u, err := url.Parse(s)
		itself := err == nil && slices.ContainsFunc(own.PeerURLs, func(w string) bool {
			return Hostname(w) == u.Hostname() && slices.ContainsFunc(configured, func(c string) bool { return port(c) == port(w) })
		})
		if !itself || u.Scheme == "https" && !secure {
			continue
		}
		for _, c := range configured {
			if on, err := url.Parse(c); err == nil {
				listen = append(listen, u.Scheme+"://"+net.JoinHostPort(on.Hostname(), u.Port()))
			}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(listen)))
}

// Hostname is the host of a URL, without its port.
func Hostname(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return s
	}
	return u.Hostname()
}

// listen is where to listen; nil: nowhere.
func (t *Template) listen(key string) ([]string, error) {
	v, ok := t.values[key]
	if !ok || v == nil || v == "" {
		if port := listening[key]; port != "" {
			return []string{defaultListen + port}, nil
		}
		return nil, nil
	}
	return urlList(v)
}
