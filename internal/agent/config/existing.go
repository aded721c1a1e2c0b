package config

import (
	"errors"
	"fmt"
	"net/url"
)

// Some says whether there is such a cluster.
func (c ExistingCluster) Some() bool { return len(c.Members) > 0 }

// Check reports the first thing that cannot be.
func (c ExistingCluster) Check() error {
	const key = "existingCluster"
	switch {
	case len(c.Members) == 0 && len(c.Endpoints) == 0:
		return nil
	case len(c.Members) == 0:
		return errors.New(key + ".members is empty: name the members of the cluster, or leave " + key + " out")
	case len(c.Endpoints) == 0:
		return errors.New(key + ".endpoints is empty: name client URLs of the cluster, which is asked through them")
	}
	for _, e := range c.Endpoints {
		if !isURL(e) {
			return fmt.Errorf("%s.endpoints: %q is not a URL like https://etcd.example.org:2379", key, e)
		}
	}
	seen := map[string]bool{}
	for _, m := range c.Members {
		switch {
		case m.Name == "":
			return errors.New(key + ".members: a member has no name; give each the name that its cluster lists")
		case seen[m.Name]:
			return fmt.Errorf("%s.members: two members have the name %q", key, m.Name)
		case len(m.PeerURLs) == 0:
			return fmt.Errorf("%s.members: %s has no peerUrls; give those that its cluster lists", key, m.Name)
		}
		seen[m.Name] = true
		for _, u := range m.PeerURLs {
			if !isURL(u) {
				return fmt.Errorf("%s.members: peer URL %q of %s is not a URL like https://etcd-0.example.org:2380", key, u, m.Name)
			}
		}
	}
	return nil
}

func isURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}
