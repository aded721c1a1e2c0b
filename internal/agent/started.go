package agent

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/yaml"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/datadir"
)

// startedFile remembers beside the data with what etcd was started last: a sidecar that is started
// anew beside a running etcd has to know.
type startedFile string

type started struct {
	PeerURLs []string `json:"peerURLs"`
	// AuthorityFiles hold the authorities that etcd trusts: for its clients, then for its peers.
	// Authorities is the digest of what they held.
	AuthorityFiles []string `json:"authorityFiles,omitempty"`
	Authorities    string   `json:"authorities,omitempty"`
}

// read returns nothing where that is not known.
func (f startedFile) read() started {
	b, err := os.ReadFile(string(f))
	if err != nil {
		return started{}
	}
	var s started
	if json.Unmarshal(b, &s) != nil {
		return started{} // as if it were not known
	}
	return s
}

func (f startedFile) write(s started) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return datadir.WriteFile(string(f), b)
}

// tell puts it on the board.
func (s started) tell(m *agentapi.Member) { m.PeerURLs, m.Authorities = s.PeerURLs, s.Authorities }

// startedWith is with what an etcd is started that reads this configuration file now.
func startedWith(config []byte) (started, error) {
	type security struct {
		CA string `json:"trusted-ca-file"`
	}
	var c struct {
		URLs   string   `json:"initial-advertise-peer-urls"`
		Client security `json:"client-transport-security"`
		Peer   security `json:"peer-transport-security"`
	}
	if err := yaml.Unmarshal(config, &c); err != nil {
		return started{}, err
	}
	s := started{PeerURLs: strings.Split(c.URLs, ",")}
	for _, file := range []string{c.Client.CA, c.Peer.CA} {
		if file != "" {
			s.AuthorityFiles = append(s.AuthorityFiles, file)
		}
	}
	s.Authorities = digest(s.AuthorityFiles)
	return s, nil
}

// digest is over the authorities that the files hold. Empty: there is no file, or one cannot be read,
// or etcd could not work with it. Nobody restarts a running etcd for such a file.
func digest(files []string) string {
	if len(files) == 0 {
		return ""
	}
	h := sha256.New()
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil || !usable(b) {
			return ""
		}
		fmt.Fprintf(h, "%d\n%s", len(b), b)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// usable says whether a bundle holds authorities, and nothing that etcd refuses.
func usable(bundle []byte) bool {
	found := 0
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return false
		}
		found++
	}
	return found > 0
}
