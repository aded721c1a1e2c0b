package agent

import (
	"encoding/json"
	"os"
	"strings"

	"sigs.k8s.io/yaml"

	"druid.internal/druid/internal/etcd/datadir"
)

// startedFile remembers beside the data with which peer URLs etcd was started last: a sidecar that
// is started anew beside a running etcd has to know.
type startedFile string

type started struct {
	PeerURLs []string `json:"peerURLs"`
}

// read returns nil where that is not known.
func (f startedFile) read() []string {
	b, err := os.ReadFile(string(f))
	if err != nil {
		return nil
	}
	var s started
	if json.Unmarshal(b, &s) != nil {
		return nil // as if it were not known
	}
	return s.PeerURLs
}

func (f startedFile) write(urls []string) error {
	b, err := json.Marshal(started{urls})
	if err != nil {
		return err
	}
	return datadir.WriteFile(string(f), b)
}

// advertised are the peer URLs in etcd's configuration file.
func advertised(config []byte) ([]string, error) {
	var c struct {
		URLs string `json:"initial-advertise-peer-urls"`
	}
	if err := yaml.Unmarshal(config, &c); err != nil {
		return nil, err
	}
	return strings.Split(c.URLs, ","), nil
}
