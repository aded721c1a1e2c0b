package desired

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// sidecarConfig is the configuration file of the sidecar, in its own keys. What is not said has the
// sidecar's default.
func sidecarConfig(in Input) map[string]any {
	e, b := in.Etcd, in.Etcd.Spec.Backup
	conf := map[string]any{
		"useEtcdWrapper":       true,
		"serverConfig":         serverConfig(e),
		"etcdConnectionConfig": connectionConfig(e),
		"etcdWrapperConfig":    wrapperConfig(e),
		"restorationConfig":    restorationConfig(in),
		"healthConfig": map[string]any{
			"memberLeaseRenewalEnabled": true,
			"heartbeatDuration":         duration(e.Spec.Etcd.HeartbeatDuration, "10s"),
		},
	}
	if s := e.Spec.Etcd.DefragmentationSchedule; s != nil {
		conf["defragmentationConfig"] = map[string]any{"schedule": *s}
	}
	if l := b.LeaderElection; l != nil {
		conf["leaderElectionConfig"] = map[string]any{
			"reelectionPeriod":      duration(l.ReelectionPeriod, "1s"),
			"etcdConnectionTimeout": duration(l.EtcdConnectionTimeout, "5s"),
		}
	}
	if b := e.Spec.Etcd.BootstrapWithExistingCluster; b != nil {
		conf[existingCluster] = existing(b)
	}
	if e.BackupsEnabled() {
		conf["owner"] = in.Owner
		conf["snapstoreConfig"] = storeConfig(e, b.Store)
		conf["snapshotterConfig"] = snapshotterConfig(in)
		conf["compressionConfig"] = compressionConfig(b.Compression)
	}
	return conf
}

// atLeastRevision is the key, in the configuration of restores, of what the backups must have. The sidecars follow it while they run.
const atLeastRevision = "atLeastRevision"

func restorationConfig(in Input) map[string]any {
	conf := map[string]any{"tempSnapshotsDir": dataVolume + "/restoration.temp"}
	if in.AtLeast > 0 {
		conf[atLeastRevision] = in.AtLeast
	}
	if in.LastKnown > 0 {
		conf["lastKnownRevision"] = in.LastKnown
	}
	if in.OthersLeave {
		conf["othersLeave"] = true
	}
	return conf
}

// existingCluster is the key of the cluster outside. The sidecars follow it while they run.
const existingCluster = "existingCluster"

func existing(b *druidv1alpha1.BootstrapWithExistingCluster) map[string]any {
	members := []map[string]any{}
	for _, m := range b.Members {
		members = append(members, map[string]any{"name": m.Name, "peerUrls": m.PeerURLs})
	}
	return map[string]any{"members": members, "endpoints": b.ClientEndpoints}
}

// wrapperConfig is how the wrapper is reached. It has the certificate of etcd's clients, whose authority may be another than that of
// the sidecars.
func wrapperConfig(e *druidv1alpha1.Etcd) map[string]any {
	wrapper := map[string]any{"port": wrapperPort(e)}
	if t := e.Spec.Etcd.ClientUrlTLS; t != nil && e.Spec.Backup.TLS != nil {
		wrapper["ca"] = clientCA + "/" + value(t.TLSCASecretRef.DataKey, caKey)
	}
	return wrapper
}

func serverConfig(e *druidv1alpha1.Etcd) map[string]any {
	b := e.Spec.Backup
	server := map[string]any{
		"port":       sidecarPort(e),
		"token-file": tokenDir + "/" + TokenKey,
	}
	if value(b.EnableProfiling, false) {
		server["enableProfiling"] = true
	}
	if t := b.TLS; t != nil {
		ca := sidecarCA + "/" + value(t.TLSCASecretRef.DataKey, caKey)
		server["server-cert"], server["server-key"] = sidecarServerTLS+"/tls.crt", sidecarServerTLS+"/tls.key"
		server["ca"], server["client-ca"] = ca, ca
		if t.ClientSecret() != "" {
			server["client-cert"], server["client-key"] = sidecarClientTLS+"/tls.crt", sidecarClientTLS+"/tls.key"
		}
	}
	return server
}

func connectionConfig(e *druidv1alpha1.Etcd) map[string]any {
	t := e.Spec.Etcd.ClientUrlTLS
	at := func(host string) []string {
		return []string{fmt.Sprintf("%s://%s:%d", scheme(t != nil), host, clientPort(e))}
	}
	connection := map[string]any{
		"endpoints":        at(e.LocalHostName()),
		"serviceEndpoints": at(e.ClientServiceName()),
		"defragTimeout":    duration(e.Spec.Etcd.EtcdDefragTimeout, "15m0s"),
		"snapshotTimeout":  duration(e.Spec.Backup.EtcdSnapshotTimeout, "15m0s"),
	}
	if authSecret(e) != "" {
		connection["usernameFile"], connection["passwordFile"] = clientUser+"/"+corev1.BasicAuthUsernameKey, clientUser+"/"+corev1.BasicAuthPasswordKey
	}
	if t == nil {
		return connection
	}
	connection["insecureTransport"] = false
	connection["caFile"] = clientCA + "/" + value(t.TLSCASecretRef.DataKey, caKey)
	if t.ClientSecret() != "" {
		connection["certFile"], connection["keyFile"] = clientTLS+"/tls.crt", clientTLS+"/tls.key"
	}
	return connection
}

func storeConfig(e *druidv1alpha1.Etcd, s *druidv1alpha1.StoreSpec) map[string]any {
	conf := map[string]any{
		"provider": Provider(*s.Provider),
		"prefix":   s.Prefix,
		"tempDir":  dataVolume + "/temp",
	}
	conf["container"] = container(s)
	if s.EndpointOverride != nil {
		conf["endpointOverride"] = *s.EndpointOverride
	}
	if period, mode := objectLock(s); period != "" {
		conf["objectLock"] = map[string]any{"period": period, "mode": mode}
	}
	if e := s.ServerSideEncryption; e != nil {
		conf["serverSideEncryption"] = map[string]any{"algorithm": string(e.Algorithm), "kmsKeyID": value(e.KMSKeyID, "")}
	}
	return conf
}

func snapshotterConfig(in Input) map[string]any {
	b := in.Etcd.Spec.Backup
	conf := map[string]any{}
	put := func(key string, v any, given bool) {
		if given {
			conf[key] = v
		}
	}
	put("schedule", value(b.FullSnapshotSchedule, ""), b.FullSnapshotSchedule != nil)
	put("deltaSnapshotPeriod", duration(b.DeltaSnapshotPeriod, ""), b.DeltaSnapshotPeriod != nil)
	put("deltaSnapshotRetentionPeriod", duration(b.DeltaSnapshotRetentionPeriod, ""), b.DeltaSnapshotRetentionPeriod != nil)
	put("garbageCollectionPeriod", duration(b.GarbageCollectionPeriod, ""), b.GarbageCollectionPeriod != nil)
	if _, named := in.Etcd.CollectorSecret(); named {
		conf["garbageCollectionPeriod"] = "0s" // never: the credentials here need no right to delete
	}
	put("garbageCollectionPolicy", string(value(b.GarbageCollectionPolicy, "")), b.GarbageCollectionPolicy != nil)
	put("maxBackups", value(b.MaxBackupsLimitBasedGC, 0), b.MaxBackupsLimitBasedGC != nil)
	put("snapshotFormat", string(value(b.SnapshotFormat, "")), b.SnapshotFormat != nil)
	put("takeOver", true, in.TakeOver)
	put("fullFirst", true, in.FullFirst) // the sidecars follow it while they run
	if q := b.DeltaSnapshotMemoryLimit; q != nil {
		conf["deltaSnapshotMemoryLimit"] = q.Value()
	}
	return conf
}

func compressionConfig(c *druidv1alpha1.CompressionSpec) map[string]any {
	if c == nil {
		c = &druidv1alpha1.CompressionSpec{}
	}
	return map[string]any{
		"enabled": value(c.Enabled, true),
		"policy":  string(value(c.Policy, druidv1alpha1.CompressionZstd)),
	}
}
