package adoption

import (
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// What the original's configuration file is called, and where its data are.
const (
	configFile = "etcd.conf.yaml"
	dataVolume = "/var/etcd/data"
	dataDir    = dataVolume + "/new.etcd"
)

// layout is what the configuration file of the original says.
type layout struct {
	DataDir string `json:"data-dir"`
	Peers   string `json:"listen-peer-urls"`
	Clients string `json:"listen-client-urls"`
}

// readLayout is nil if the file is not there, or cannot be read.
func readLayout(c *corev1.ConfigMap) *layout {
	if c == nil || c.Data[configFile] == "" {
		return nil
	}
	var l layout
	if yaml.Unmarshal([]byte(c.Data[configFile]), &l) != nil {
		return nil
	}
	return &l
}

// listens is the scheme and the port of a URL that etcd listens on, the first if there are several.
func listens(urls string) string {
	first, _, _ := strings.Cut(urls, ",")
	u, err := url.Parse(strings.TrimSpace(first))
	if err != nil {
		return urls
	}
	return u.Scheme + " on port " + u.Port()
}
