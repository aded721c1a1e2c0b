package crdtest

// roles is a store with roles, whose members have the Secret w.
func roles(provider, roles string) string {
	return `{container: bucket, prefix: a, provider: ` + provider + `, secretRef: {name: w}, roles: ` + roles + `}`
}

func ofBackups() []Case {
	return []Case{
		{Name: "deltas as rare as the collection are refused", Change: Set{"spec.backup.deltaSnapshotPeriod": "1h", "spec.backup.garbageCollectionPeriod": "60m"}, Field: "spec.backup.deltaSnapshotPeriod", Says: "must be shorter than garbageCollectionPeriod"},
		{Name: "deltas rarer than the collection's default are refused", Change: Set{"spec.backup.deltaSnapshotPeriod": "13h"}, Field: "spec.backup.deltaSnapshotPeriod", Says: "must be shorter than garbageCollectionPeriod"},
		{Name: "any deltas without a collection are taken", Change: Set{"spec.backup.deltaSnapshotPeriod": "24h", "spec.backup.garbageCollectionPeriod": "0s"}},
		{Name: "no deltas are taken", Change: Set{"spec.backup.deltaSnapshotPeriod": "0s"}},
		{Name: "a store without a provider is refused", Change: Set{"spec.backup.store": `{container: bucket, prefix: a}`}, Field: "spec.backup.store.provider", Says: "for no backups leave store out"},
		{Name: "an unknown provider is refused", Change: Set{"spec.backup.store": `{container: bucket, prefix: a, provider: floppy}`}, Field: "spec.backup.store.provider", Says: `"aws", "S3"`},
		{Name: "a store without a bucket is refused", Change: Set{"spec.backup.store": `{prefix: a, provider: aws}`}, Field: "spec.backup.store.container", Says: "name the bucket or container"},
		{Name: "a local store without a directory is taken", Change: Set{"spec.backup.store": `{prefix: a, provider: local}`}},
		{Name: "a store without a prefix is refused", Change: Set{"spec.backup.store": `{container: bucket, provider: aws}`}, Field: "spec.backup.store.prefix", Says: "Required value"},
		{Name: "an empty prefix is taken", Change: Set{"spec.backup.store": `{container: bucket, prefix: "", provider: aws}`}},
		{Name: "a prefix as upstream may have it is taken", Change: Set{"spec.backup.store": `{container: bucket, prefix: "/a//b/./c/", provider: aws}`}},
		{Name: "a prefix that leads upwards is refused", Change: Set{"spec.backup.store": `{container: bucket, prefix: "a/../b", provider: aws}`}, Field: "spec.backup.store.prefix", Says: "write the path without it"},
		{Name: "a copy from a prefix that leads upwards is refused", Plural: "etcdcopybackupstasks", Change: Set{"spec.sourceStore.prefix": ".."}, Field: "spec.sourceStore.prefix", Says: "write the path without it"},
		{Name: "a bucket with a slash is refused", Change: Set{"spec.backup.store": `{container: buc/ket, prefix: a, provider: aws}`}, Field: "spec.backup.store.container", Says: "must hold letters, digits, dots"},
		{Name: "a bucket of two letters is refused", Change: Set{"spec.backup.store": `{container: ab, prefix: a, provider: aws}`}, Field: "spec.backup.store.container", Says: "at least 3"},
		{Name: "an endpoint that is no URL is refused", Change: Set{"spec.backup.store": `{container: bucket, prefix: a, provider: aws, endpointOverride: "minio:9000"}`}, Field: "spec.backup.store.endpointOverride", Says: "must be a URL that begins with http:// or https://"},
		{Name: "an endpoint of another scheme is refused", Change: Set{"spec.backup.store": `{container: bucket, prefix: a, provider: aws, endpointOverride: "ftp://minio"}`}, Field: "spec.backup.store.endpointOverride", Says: "must be a URL that begins with http:// or https://"},
		{Name: "locks of the bucket are taken", Change: Set{"spec.backup.store": `{container: bucket, prefix: a, provider: aws, immutability: {retentionType: bucket}}`}},
		{Name: "locks of the bucket are the default", Change: Set{"spec.backup.store": `{container: bucket, prefix: a, provider: gcp, immutability: {}}`}},
		{Name: "locks of each object are taken", Change: Set{"spec.backup.store": `{container: bucket, prefix: a, provider: aws, immutability: {retentionType: object, retentionPeriod: 96h, mode: governance}}`}},
		{Name: "volumes of a hibernated cluster that go are taken with backups", Change: Set{"spec.hibernation": `{volumes: Delete}`, "spec.backup.store": `{container: bucket, prefix: a, provider: aws}`}},
		{Name: "volumes of a hibernated cluster that go are refused without backups", Change: Set{"spec.hibernation": `{volumes: Delete}`}, Field: "spec.hibernation.volumes", Says: "configure backup.store"},
		{Name: "removing the backups of a cluster whose volumes go is refused", Update: true, Before: Set{"spec.hibernation": `{volumes: Delete}`, "spec.backup.store": `{container: bucket, prefix: a, provider: aws}`}, Change: Set{"spec.backup.store": nil}, Field: "spec.hibernation.volumes", Says: "write Keep"},
		{Name: "volumes of a hibernated cluster that stay are taken", Change: Set{"spec.hibernation": `{volumes: Keep, allowUnprotected: true}`}},
		{Name: "another fate of the volumes of a hibernated cluster is refused", Change: Set{"spec.hibernation": `{volumes: Shrink}`}, Field: "spec.hibernation.volumes", Says: `"Keep", "Delete"`},
		{Name: "an unknown type of retention is refused", Change: Set{"spec.backup.store": `{container: bucket, prefix: a, provider: aws, immutability: {retentionType: chain}}`}, Field: "spec.backup.store.immutability.retentionType", Says: `"bucket", "object"`},
		{Name: "a mode that no store has is refused", Change: Set{"spec.backup.store": `{container: bucket, prefix: a, provider: aws, immutability: {retentionType: object, retentionPeriod: 96h, mode: forever}}`}, Field: "spec.backup.store.immutability.mode", Says: `"governance", "compliance"`},
		{Name: "locks of each object without a period are refused", Change: Set{"spec.backup.store": `{container: bucket, prefix: a, provider: aws, immutability: {retentionType: object}}`}, Field: "spec.backup.store.immutability.retentionPeriod", Says: `say for how long each backup is locked`},
		{Name: "a period that only the bucket has is refused", Change: Set{"spec.backup.store": `{container: bucket, prefix: a, provider: aws, immutability: {retentionPeriod: 96h}}`}, Field: "spec.backup.store.immutability.retentionPeriod", Says: `etcdbrctl bucket ensure --retention-period`},
		{Name: "a mode that only the bucket has is refused", Change: Set{"spec.backup.store": `{container: bucket, prefix: a, provider: aws, immutability: {retentionType: bucket, mode: compliance}}`}, Field: "spec.backup.store.immutability.mode", Says: `etcdbrctl bucket ensure --retention-mode`},
		{Name: "locks for eleven years are refused", Change: Set{"spec.backup.store": `{container: bucket, prefix: a, provider: aws, immutability: {retentionType: object, retentionPeriod: 96360h}}`}, Field: "spec.backup.store.immutability.retentionPeriod", Says: `from 1m to 87600h (ten years)`},
		{Name: "locks for a moment are refused", Change: Set{"spec.backup.store": `{container: bucket, prefix: a, provider: aws, immutability: {retentionType: object, retentionPeriod: 1s}}`}, Field: "spec.backup.store.immutability.retentionPeriod", Says: `from 1m to 87600h (ten years)`},
		{Name: "locks of Swift are refused", Change: Set{"spec.backup.store": `{container: bucket, prefix: a, provider: openstack, immutability: {}}`}, Field: "spec.backup.store.immutability", Says: `OpenStack Swift cannot lock objects`},
		{Name: "locks of a directory are refused", Change: Set{"spec.backup.store": `{container: bucket, prefix: a, provider: local, immutability: {}}`}, Field: "spec.backup.store.immutability", Says: `a directory of a node cannot be locked`},
		{Name: "locks of single objects of OSS are refused", Change: Set{"spec.backup.store": `{container: bucket, prefix: a, provider: alicloud, immutability: {retentionType: object, retentionPeriod: 96h}}`}, Field: "spec.backup.store.immutability.retentionType", Says: `use the type bucket`},
		{Name: "all roles are taken", Change: Set{"spec.backup.store": roles(`aws`, `{collectorSecretRef: {name: c}, extenderSecretRef: {name: e}, excluderSecretRef: {name: x}}`)}},
		{Name: "an excluder alone is taken", Change: Set{"spec.backup.store": roles(`aws`, `{excluderSecretRef: {name: x}}`)}},
		{Name: "a role beside the identity of the pods is taken", Change: Set{"spec.backup.store": `{container: bucket, prefix: a, provider: gcp, roles: {collectorSecretRef: {name: c}}}`}},
		{Name: "roles that name nobody are refused", Change: Set{"spec.backup.store": roles(`aws`, `{}`)}, Field: "spec.backup.store.roles", Says: `name a Secret in collectorSecretRef, extenderSecretRef or excluderSecretRef`},
		{Name: "a collector without a name is refused", Change: Set{"spec.backup.store": roles(`aws`, `{collectorSecretRef: {}}`)}, Field: "spec.backup.store.roles.collectorSecretRef.name", Says: `name the Secret`},
		{Name: "an extender with an empty name is refused", Change: Set{"spec.backup.store": roles(`aws`, `{extenderSecretRef: {name: ""}}`)}, Field: "spec.backup.store.roles.extenderSecretRef.name", Says: `name the Secret`},
		{Name: "a collector with the members' Secret is refused", Change: Set{"spec.backup.store": roles(`aws`, `{collectorSecretRef: {name: w}}`)}, Field: "spec.backup.store.roles.collectorSecretRef", Says: `another identity needs another Secret`},
		{Name: "an extender with the members' Secret is refused", Change: Set{"spec.backup.store": roles(`aws`, `{extenderSecretRef: {name: w}}`)}, Field: "spec.backup.store.roles.extenderSecretRef", Says: `another identity needs another Secret`},
		{Name: "an excluder without a name is refused", Change: Set{"spec.backup.store": roles(`aws`, `{excluderSecretRef: {}}`)}, Field: "spec.backup.store.roles.excluderSecretRef.name", Says: `name the Secret`},
		{Name: "an excluder with the members' Secret is refused", Change: Set{"spec.backup.store": roles(`aws`, `{excluderSecretRef: {name: w}}`)}, Field: "spec.backup.store.roles.excluderSecretRef", Says: `another identity needs another Secret`},
		{Name: "an excluder with the collector's Secret is refused", Change: Set{"spec.backup.store": roles(`aws`, `{collectorSecretRef: {name: c}, excluderSecretRef: {name: c}}`)}, Field: "spec.backup.store.roles.excluderSecretRef", Says: `who excludes must not be who deletes`},
		{Name: "an excluder with the extender's Secret is refused", Change: Set{"spec.backup.store": roles(`aws`, `{extenderSecretRef: {name: e}, excluderSecretRef: {name: e}}`)}, Field: "spec.backup.store.roles.excluderSecretRef", Says: `who excludes must not be who locks`},
		{Name: "an excluder of Swift is refused", Change: Set{"spec.backup.store": roles(`openstack`, `{excluderSecretRef: {name: x}}`)}, Field: "spec.backup.store.roles", Says: `whoever may write to OpenStack Swift may also delete`},
		{Name: "one Secret for both roles is refused", Change: Set{"spec.backup.store": roles(`aws`, `{collectorSecretRef: {name: c}, extenderSecretRef: {name: c}}`)}, Field: "spec.backup.store.roles.extenderSecretRef", Says: `who deletes must not be who locks`},
		{Name: "roles of a directory are refused", Change: Set{"spec.backup.store": roles(`local`, `{collectorSecretRef: {name: c}}`)}, Field: "spec.backup.store.roles", Says: `reached without credentials`},
		{Name: "roles of Swift are refused", Change: Set{"spec.backup.store": roles(`openstack`, `{collectorSecretRef: {name: c}}`)}, Field: "spec.backup.store.roles", Says: `whoever may write to OpenStack Swift may also delete`},
		{Name: "an unknown policy of collection is refused", Change: Set{"spec.backup.garbageCollectionPolicy": "Never"}, Field: "spec.backup.garbageCollectionPolicy", Says: `"Exponential", "LimitBased"`},
		{Name: "keeping no full snapshot is refused", Change: Set{"spec.backup.maxBackupsLimitBasedGC": 0}, Field: "spec.backup.maxBackupsLimitBasedGC", Says: "greater than or equal to 1"},
		{Name: "an unknown compression is refused", Change: Set{"spec.backup.compression": `{policy: bzip2}`}, Field: "spec.backup.compression.policy", Says: `"zstd", "gzip", "lzw", "zlib"`},
		{Name: "an unknown format is refused", Change: Set{"spec.backup.snapshotFormat": "v3"}, Field: "spec.backup.snapshotFormat", Says: `"native", "v2-json"`},
		{Name: "the original's format is taken", Change: Set{"spec.backup.snapshotFormat": "v2-json", "spec.backup.compression": `{policy: gzip}`}},
		{Name: "both names of the resources of compaction are refused", Change: Set{"spec.backup.compactionResources": `{limits: {cpu: 1}}`, "spec.backup.snapshotCompaction": `{resources: {limits: {cpu: 2}}}`}, Field: "spec.backup.compactionResources", Says: "is the old name of snapshotCompaction.resources"},
		{Name: "the old name of the resources of compaction is taken", Change: Set{"spec.backup.compactionResources": `{limits: {cpu: 1}}`, "spec.backup.snapshotCompaction": `{eventsThreshold: 5}`}},
	}
}

func ofValues() []Case {
	cases := []Case{
		{Name: "a database of no size is refused", Change: Set{"spec.etcd.quota": "0"}, Field: "spec.etcd.quota", Says: "must be a quantity greater than 0"},
		{Name: "a quota that is no quantity is refused", Change: Set{"spec.etcd.quota": "8 GB"}, Field: "spec.etcd.quota", Says: "8 GB"},
		{Name: "a huge quantity, which programs reckon with for ever, is refused", Change: Set{"spec.etcd.quota": "1e99999999999"}, Field: "spec.etcd.quota", Says: "must be a quantity greater than 0"},
		{Name: "a tiny quantity, which programs read for ever, is refused", Change: Set{"spec.etcd.quota": "1e-99999999"}, Field: "spec.etcd.quota", Says: "must be a quantity greater than 0"},
		{Name: "a tiny quantity, which programs read for ever, is refused as a limit", Change: Set{"spec.etcd.resources": `{limits: {cpu: "1E-99999999"}}`}, Field: "spec.etcd.resources", Says: "write it with a suffix"},
		{Name: "a tiny quantity, which programs read for ever, is refused as a request", Change: Set{"spec.backup.resources": `{limits: {cpu: "1e2"}, requests: {cpu: "0.1E-999"}}`}, Field: "spec.backup.resources", Says: "write it with a suffix"},
		{Name: "a tiny quantity, which programs read for ever, is refused of a Job", Change: Set{"spec.backup.snapshotCompaction": `{resources: {limits: {cpu: "1E-999"}}}`}, Field: "spec.backup.snapshotCompaction.resources", Says: "write it with a suffix"},
		{Name: "a tiny quantity, which programs read for ever, is refused of a Job under the old name", Change: Set{"spec.backup.compactionResources": `{limits: {cpu: "1E-999"}}`}, Field: "spec.backup.compactionResources", Says: "write it with a suffix"},
		{Name: "quantities of every kind are taken", Change: Set{"spec.etcd.quota": 1073741824, "spec.storageCapacity": "1.5e10", "spec.backup.deltaSnapshotMemoryLimit": "0.5Gi", "spec.etcd.resources": `{limits: {cpu: 2, memory: 1E9}, requests: {cpu: 250m, memory: 1.5Gi}}`}},
		{Name: "a limit of memory below nothing is refused", Change: Set{"spec.backup.deltaSnapshotMemoryLimit": "-1"}, Field: "spec.backup.deltaSnapshotMemoryLimit", Says: "must be a quantity greater than 0"},
		{Name: "volumes of no size are refused", Change: Set{"spec.storageCapacity": 0}, Field: "spec.storageCapacity", Says: "at least 256Mi"},
		{Name: "volumes in which etcd would not start are refused", Change: Set{"spec.storageCapacity": "255Mi"}, Field: "spec.storageCapacity", Says: "etcd's empty log takes 128 MB"},
		{Name: "the smallest volumes are taken", Change: Set{"spec.storageCapacity": "256Mi"}},
		{Name: "an unknown level of metrics is refused", Change: Set{"spec.etcd.metrics": "all"}, Field: "spec.etcd.metrics", Says: `"basic", "extensive"`},
		{Name: "an unknown list of free pages is refused", Change: Set{"spec.etcd.backendBboltFreelistType": "tree"}, Field: "spec.etcd.backendBboltFreelistType", Says: `"array", "map"`},
		{Name: "an unknown mode of compaction is refused", Change: Set{"spec.sharedConfig": `{autoCompactionMode: daily}`}, Field: "spec.sharedConfig.autoCompactionMode", Says: `"periodic", "revision"`},
		{Name: "a time to keep revisions that is none is refused", Change: Set{"spec.sharedConfig": `{autoCompactionRetention: half an hour}`}, Field: "spec.sharedConfig.autoCompactionRetention", Says: "must be a duration such as 30m"},
		{Name: "a time where a number of revisions belongs is refused", Change: Set{"spec.sharedConfig": `{autoCompactionMode: revision, autoCompactionRetention: 30m}`}, Field: "spec.sharedConfig.autoCompactionRetention", Says: `a number of revisions such as "1000"`},
		{Name: "the default time with a number of revisions asked for is refused", Change: Set{"spec.sharedConfig": `{autoCompactionMode: revision}`}, Field: "spec.sharedConfig.autoCompactionRetention", Says: `a number of revisions such as "1000"`},
		{Name: "hours without a unit are taken", Change: Set{"spec.sharedConfig": `{autoCompactionRetention: "8"}`}},
		{Name: "a number of transactions below one is refused", Change: Set{"spec.etcd.snapshotCount": 0}, Field: "spec.etcd.snapshotCount", Says: "greater than or equal to 1"},
	}
	for _, path := range []string{
		"spec.etcd.etcdDefragTimeout", "spec.etcd.heartbeatDuration", "spec.backup.garbageCollectionPeriod", "spec.backup.deltaSnapshotPeriod",
		"spec.backup.deltaSnapshotRetentionPeriod", "spec.backup.etcdSnapshotTimeout", "spec.backup.leaderElection.reelectionPeriod", "spec.backup.leaderElection.etcdConnectionTimeout",
	} {
		cases = append(cases,
			Case{Name: "no duration is refused as " + path, Change: Set{path: "4d"}, Field: path, Says: "must be a duration such as 20s, 5m or 1h30m"},
			Case{Name: "a duration that no program can read is refused as " + path, Change: Set{path: "9999999999h"}, Field: path, Says: "duration"},
		)
	}
	for path, bound := range map[string][3]string{ // with which a sidecar does not start, and with which it does
		"spec.etcd.etcdDefragTimeout":                      {"0s", "1ns", "above 0"},
		"spec.etcd.heartbeatDuration":                      {"999ms", "1s", "of at least 1s"},
		"spec.backup.etcdSnapshotTimeout":                  {"0s", "1ns", "above 0"},
		"spec.backup.leaderElection.reelectionPeriod":      {"99ms", "100ms", "of at least 100ms"},
		"spec.backup.leaderElection.etcdConnectionTimeout": {"0s", "1ns", "above 0"},
	} {
		cases = append(cases,
			Case{Name: "a duration that no sidecar takes is refused as " + path, Change: Set{path: bound[0]}, Field: path, Says: bound[2]},
			Case{Name: "the shortest duration is taken as " + path, Change: Set{path: bound[1]}},
		)
	}
	for _, path := range []string{"spec.etcd.defragmentationSchedule", "spec.backup.fullSnapshotSchedule"} {
		cases = append(cases,
			Case{Name: "four fields are refused as " + path, Change: Set{path: "0 0 * *"}, Field: path, Says: "must be a schedule of cron"},
			Case{Name: "an unknown word is refused as " + path, Change: Set{path: "@fortnightly"}, Field: path, Says: "must be a schedule of cron"},
			Case{Name: "a schedule that only cron can judge is taken as " + path, Change: Set{path: "61 0 * * *"}},
			Case{Name: "a word is taken as " + path, Change: Set{path: "@daily"}},
			Case{Name: "a zone of time is taken as " + path, Change: Set{path: "CRON_TZ=Europe/Berlin 0,30 2-4/2 * JAN-mar 1-5"}},
		)
	}
	return cases
}

func ofTasks() []Case {
	task := func(name string, change Set, field, says string) Case {
		return Case{Name: name, Plural: "etcdcopybackupstasks", Change: change, Field: field, Says: says}
	}
	return []Case{
		task("copying a store onto itself is refused", Set{"spec.targetStore.container": "one"}, "spec.targetStore", "is the same as sourceStore"),
		task("copying to another prefix is taken", Set{"spec.targetStore.container": "one", "spec.targetStore.prefix": "q"}, "", ""),
		task("copying to a bucket of the same name in another account is taken", Set{"spec.targetStore.container": "one", "spec.sourceStore.secretRef": `{name: a}`, "spec.targetStore.secretRef": `{name: b}`}, "", ""),
		task("a source with roles is refused", Set{"spec.sourceStore.roles": `{collectorSecretRef: {name: c}}`}, "spec.sourceStore.roles", "a copy only reads here"),
		task("a target with roles is refused", Set{"spec.targetStore.roles": `{extenderSecretRef: {name: e}}`}, "spec.targetStore.roles", "a copy deletes and extends nothing"),
		task("a task without a source is refused", Set{"spec.sourceStore": nil}, "spec.sourceStore", "Required value"),
		task("a task whose store has no provider is refused", Set{"spec.sourceStore.provider": nil}, "spec.sourceStore.provider", "name the provider"),
		task("copying no backup is refused", Set{"spec.maxBackups": 0}, "spec.maxBackups", "greater than or equal to 1"),
		task("copying backups of no age is refused", Set{"spec.maxBackupAge": 0}, "spec.maxBackupAge", "greater than or equal to 1"),
		task("a number of days that no program can read is refused", Set{"spec.maxBackupAge": 5000000000}, "spec.maxBackupAge", "less than or equal to"),
		task("waiting for no duration is refused", Set{"spec.waitForFinalSnapshot": `{enabled: true, timeout: long}`}, "spec.waitForFinalSnapshot.timeout", "must be 0 or a duration"),
		{Name: "a size of a member that no program can read is refused", Plural: "etcdmembers", Update: true, Change: Set{"status.dbSize": "1e-99999999"}, Field: "status.dbSize", Says: "must be a number of bytes"},
		{Name: "sizes of a member are taken", Plural: "etcdmembers", Update: true, Change: Set{"status.dbSize": "6Gi", "status.dbSizeInUse": 20480, "status.snapshots": `{accumulatedDeltaSize: 12345678901k}`}},
		task("waiting for ever is taken", Set{"spec.waitForFinalSnapshot": `{enabled: true, timeout: "0"}`}, "", ""),
	}
}
