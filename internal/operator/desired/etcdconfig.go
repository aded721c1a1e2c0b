package desired

import (
	"fmt"
	"strings"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	goyaml "go.yaml.in/yaml/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// The files of the ConfigMap: of etcd, and of the sidecar.
const (
	EtcdFile    = "etcd.conf.yaml"
	SidecarFile = "backup-restore.conf.yaml"
)

// clusterToken is the same for all clusters, as in the original: the ids of clusters that run were made
// with it.
const clusterToken = "etcd-cluster"

func configMap(in Input) (*corev1.ConfigMap, error) {
	e := in.Etcd
	etcd, err := marshal(etcdConfig(in))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", EtcdFile, err)
	}
	sidecar, err := marshal(sidecarConfig(in))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", SidecarFile, err)
	}
	return &corev1.ConfigMap{
		TypeMeta:   typeMeta("v1", "ConfigMap"),
		ObjectMeta: meta(e, druidv1alpha1.ComponentConfigMap, e.ConfigMapName()),
		Data:       map[string]string{EtcdFile: string(etcd), SidecarFile: string(sidecar)},
	}, nil
}

// marshal writes YAML as yaml.Marshal of sigs.k8s.io does, byte for byte, of texts, numbers, lists and maps. That one
// goes by way of JSON, which takes most of its time.
func marshal(conf map[string]any) ([]byte, error) { return goyaml.Marshal(conf) }

// Followed is what the sidecars read again while they run.
func Followed(c *corev1.ConfigMap) []byte {
	var file map[string]any
	followed := []byte(c.Data[EtcdFile])
	if !strings.Contains(c.Data[SidecarFile], existingCluster) {
		return followed // as of most, without reading YAML at every look
	}
	if yaml.Unmarshal([]byte(c.Data[SidecarFile]), &file) != nil || file[existingCluster] == nil {
		return followed
	}
	return fmt.Appendf(followed, "%s: %v\n", existingCluster, file[existingCluster])
}

// etcdConfig is the file that all members share. Each member's sidecar makes its own of it; two keys
// have a value per member.
func etcdConfig(in Input) map[string]any {
	e, c := in.Etcd, in.Etcd.Spec.Etcd
	members, peers, clients := []string{}, map[string][]string{}, map[string][]string{}
	for i := range int(in.Members) {
		name := e.MemberName(i)
		urls := peerURLs(in, i)
		for _, u := range urls {
			members = append(members, name+"="+u)
		}
		peers[name] = urls
		clients[name] = []string{fmt.Sprintf("%s://%s:%d", scheme(c.ClientUrlTLS != nil), e.PeerHost(i), clientPort(e))}
	}
	conf := map[string]any{
		"name":                        "etcd-config",
		"data-dir":                    dataDir,
		"metrics":                     string(value(c.Metrics, druidv1alpha1.MetricsBasic)),
		"snapshot-count":              value(c.SnapshotCount, 10000),
		"enable-grpc-gateway":         value(c.EnableGRPCGateway, false),
		"initial-cluster-token":       clusterToken,
		"initial-cluster-state":       "new",
		"initial-cluster":             strings.Join(members, ","),
		"listen-peer-urls":            fmt.Sprintf("%s://0.0.0.0:%d", scheme(in.PeerTLS), peerPort(e)),
		"listen-client-urls":          ListenClients(e),
		"initial-advertise-peer-urls": peers,
		"advertise-client-urls":       clients,
		"backend-bbolt-freelist-type": string(value(c.BackendBboltFreelistType, druidv1alpha1.FreelistArray)),
		"auto-compaction-mode":        string(druidv1alpha1.CompactionPeriodic),
		"auto-compaction-retention":   "30m",
		"quota-backend-bytes":         int64(8 << 30),
	}
	if c.Quota != nil {
		conf["quota-backend-bytes"] = c.Quota.Value()
	}
	if s := e.Spec.SharedConfig; s != nil {
		conf["auto-compaction-mode"] = string(value(s.AutoCompactionMode, druidv1alpha1.CompactionPeriodic))
		conf["auto-compaction-retention"] = value(s.AutoCompactionRetention, "30m")
	}
	if t := c.ClientUrlTLS; t != nil {
		conf["client-transport-security"] = map[string]any{
			"cert-file":        clientServerTLS + "/tls.crt",
			"key-file":         clientServerTLS + "/tls.key",
			"client-cert-auth": true,
			"trusted-ca-file":  clientCA + "/" + value(t.TLSCASecretRef.DataKey, caKey),
			"auto-tls":         false,
		}
	}
	if t := c.PeerUrlTLS; t != nil && in.PeerTLS {
		security := map[string]any{
			"cert-file":        peerServerTLS + "/tls.crt",
			"key-file":         peerServerTLS + "/tls.key",
			"client-cert-auth": true,
			"trusted-ca-file":  peerCA + "/" + value(t.TLSCASecretRef.DataKey, caKey),
			"auto-tls":         false,
		}
		if value(t.SkipClientSANVerification, false) {
			security["skip-client-san-verification"] = true
		}
		conf["peer-transport-security"] = security
	}
	return conf
}

// ListenClients is where all members listen for clients.
func ListenClients(e *druidv1alpha1.Etcd) string {
	return fmt.Sprintf("%s://0.0.0.0:%d", scheme(e.Spec.Etcd.ClientUrlTLS != nil), clientPort(e))
}

// peerURLs are what a member is reached by: its name in the headless Service, then what the
// specification adds. While peers still use http, what is added for https is left out.
func peerURLs(in Input, ordinal int) []string {
	e := in.Etcd
	urls := []string{fmt.Sprintf("%s://%s:%d", scheme(in.PeerTLS), e.PeerHost(ordinal), peerPort(e))}
	for _, more := range e.Spec.Etcd.AdditionalAdvertisePeerURLs {
		if more.MemberName != e.MemberName(ordinal) {
			continue
		}
		for _, u := range more.URLs {
			if strings.HasPrefix(u, scheme(in.PeerTLS)+"://") {
				urls = append(urls, u)
			}
		}
	}
	return urls
}

func scheme(tls bool) string {
	if tls {
		return "https"
	}
	return "http"
}
