package crdtest

// tls are the references of one port, with a client's or without.
const (
	tls       = `{tlsCASecretRef: {name: ca}, serverTLSSecretRef: {name: server}}`
	tlsClient = `{tlsCASecretRef: {name: ca}, serverTLSSecretRef: {name: server}, clientTLSSecretRef: {name: client}}`
)

const joining = `{members: [{name: default, peerUrls: ["http://old:2380"]}], clientEndpoints: ["http://old:2379"]}`

// Cases are what the definitions refuse, each with its field and its remedy, and beside them what
// is nearly that and taken.
func Cases() []Case {
	var all []Case
	all = append(all, ofReplicas()...)
	all = append(all, ofNames()...)
	all = append(all, ofWhatStays()...)
	all = append(all, ofAddresses()...)
	all = append(all, ofBackups()...)
	all = append(all, ofValues()...)
	all = append(all, ofTasks()...)
	return append(all, ofOperatorTasks()...)
}

func ofReplicas() []Case {
	return []Case{
		{Name: "an even number of members is refused", Change: Set{"spec.replicas": 2}, Field: "spec.replicas", Says: "take one more or one fewer"},
		{Name: "a change to an even number of members is refused", Update: true, Change: Set{"spec.replicas": 4}, Field: "spec.replicas", Says: "take one more or one fewer"},
		{Name: "a negative number of members is refused", Change: Set{"spec.replicas": -1}, Field: "spec.replicas", Says: "greater than or equal to 0"},
		{Name: "a number of members that nobody can mean is refused", Change: Set{"spec.replicas": 101}, Field: "spec.replicas", Says: "less than or equal to 99"},
		{Name: "a missing number of members is refused", Change: Set{"spec.replicas": nil}, Field: "spec.replicas", Says: "Required value"},
		{Name: "no member is taken", Change: Set{"spec.replicas": 0}},
		{Name: "five members are taken", Change: Set{"spec.replicas": 5}},
		{Name: "scaling in from five to three is taken", Update: true, Before: Set{"spec.replicas": 5}, Change: Set{"spec.replicas": 3}},
		{Name: "scaling in from three to one is taken", Update: true, Change: Set{"spec.replicas": 1}},
		{Name: "scaling to none is taken", Update: true, Change: Set{"spec.replicas": 0}},
		{Name: "waking up is taken", Update: true, Before: Set{"spec.replicas": 0}, Change: Set{"spec.replicas": 3}},
	}
}

func ofNames() []Case {
	const fifty = "a2345678901234567890123456789012345678901234567890"
	return []Case{
		{Name: "a name of 52 characters is taken", Change: Set{"metadata.name": fifty + "12"}},
		{Name: "a name of 53 characters is refused", Change: Set{"metadata.name": fifty + "123"}, Field: "metadata.name", Says: "at most 52 characters"},
		{Name: "a name that begins with a digit is refused", Change: Set{"metadata.name": "1etcd"}, Field: "metadata.name", Says: "must begin with a letter"},
		{Name: "a name with a dot is refused", Change: Set{"metadata.name": "etcd.main"}, Field: "metadata.name", Says: "must begin with a letter"},
		{Name: "a prefix with capitals is refused", Change: Set{"spec.memberNamePrefix": "Blue"}, Field: "spec.memberNamePrefix", Says: "lower-case letters"},
		{Name: "a prefix of 64 characters is refused", Change: Set{"spec.memberNamePrefix": fifty + "12345678901234"}, Field: "spec.memberNamePrefix", Says: "63"},
		{Name: "a volume claim template of 63 characters is taken", Change: Set{"spec.volumeClaimTemplate": fifty + "1234567890123"}},
		{Name: "a volume claim template of 64 characters is refused", Change: Set{"spec.volumeClaimTemplate": fifty + "12345678901234"}, Field: "spec.volumeClaimTemplate", Says: "at most 63 characters"},
		{Name: "a volume claim template with capitals is refused", Change: Set{"spec.volumeClaimTemplate": "Data"}, Field: "spec.volumeClaimTemplate", Says: "must hold lower-case letters, digits and hyphens alone"},
		{Name: "a volume claim template with a dot is refused", Change: Set{"spec.volumeClaimTemplate": "data.x"}, Field: "spec.volumeClaimTemplate", Says: "must hold lower-case letters, digits and hyphens alone"},
		{Name: "a volume claim template that begins with a digit is taken", Change: Set{"spec.volumeClaimTemplate": "0-data"}},
		{Name: "an empty volume claim template is taken for none", Change: Set{"spec.volumeClaimTemplate": ""}},
		{Name: "a volume claim template that another volume is named is refused", Change: Set{"spec.volumeClaimTemplate": "sidecar-token"}, Field: "spec.volumeClaimTemplate", Says: "another volume of the name"},
		{Name: "a name that another volume has is refused", Change: Set{"metadata.name": "etcd-ca"}, Field: "spec.volumeClaimTemplate", Says: "or else of the name of the Etcd"},
		{Name: "a name that another volume has is taken with a template", Change: Set{"metadata.name": "etcd-ca", "spec.volumeClaimTemplate": "data"}},
		{Name: "a selector that is an expression is refused", Change: Set{"spec.selector": `{matchExpressions: [{key: a, operator: Exists}]}`}, Field: "spec.selector", Says: "write the labels that the pods shall carry into spec.labels"},
		{Name: "missing labels are refused", Change: Set{"spec.labels": nil}, Field: "spec.labels", Says: "Required value"},
		{Name: "a task with a name of 56 characters is taken", Plural: "etcdcopybackupstasks", Change: Set{"metadata.name": fifty + "123456"}},
		{Name: "a task with a name of 57 characters is refused", Plural: "etcdcopybackupstasks", Change: Set{"metadata.name": fifty + "1234567"}, Field: "metadata.name", Says: "at most 56 characters"},
	}
}

func ofWhatStays() []Case {
	joins := Set{
		"spec.etcd.bootstrapWithExistingCluster": joining,
		"status.conditions":                      `[{type: BootstrappedWithExistingCluster, status: "False", reason: BootstrapInProgress, message: "", lastTransitionTime: "2024-05-01T12:00:00Z", lastUpdateTime: "2024-05-01T12:00:00Z"}]`,
	}
	joined := Set{
		"spec.etcd.bootstrapWithExistingCluster": joining,
		"status.conditions":                      `[{type: BootstrappedWithExistingCluster, status: "True", reason: BootstrapCompleted, message: "", lastTransitionTime: "2024-05-01T12:00:00Z", lastUpdateTime: "2024-05-01T12:00:00Z"}]`,
	}
	const elsewhere = `{members: [{name: default, peerUrls: ["http://other:2380"]}], clientEndpoints: ["http://other:2379"]}`
	return []Case{
		{Name: "another StorageClass is refused", Update: true, Before: Set{"spec.storageClass": "fast"}, Change: Set{"spec.storageClass": "slow"}, Field: "spec.storageClass", Says: "make a new Etcd"},
		{Name: "a StorageClass that is set later is refused", Update: true, Change: Set{"spec.storageClass": "slow"}, Field: "spec.storageClass", Says: "make a new Etcd"},
		{Name: "a StorageClass that is removed is refused", Update: true, Before: Set{"spec.storageClass": "fast"}, Change: Set{"spec.storageClass": nil}, Field: "spec.storageClass", Says: "make a new Etcd"},
		{Name: "another volume claim template is refused", Update: true, Before: Set{"spec.volumeClaimTemplate": "a"}, Change: Set{"spec.volumeClaimTemplate": "b"}, Field: "spec.volumeClaimTemplate", Says: "make a new Etcd"},
		{Name: "a volume claim template that is set later is refused", Update: true, Change: Set{"spec.volumeClaimTemplate": "b"}, Field: "spec.volumeClaimTemplate", Says: "make a new Etcd"},
		{Name: "another prefix of members is refused", Update: true, Before: Set{"spec.memberNamePrefix": "a"}, Change: Set{"spec.memberNamePrefix": "b"}, Field: "spec.memberNamePrefix", Says: "make a new Etcd"},
		{Name: "a prefix of members that is removed is refused", Update: true, Before: Set{"spec.memberNamePrefix": "a"}, Change: Set{"spec.memberNamePrefix": nil}, Field: "spec.memberNamePrefix", Says: "make a new Etcd"},
		{Name: "smaller volumes are refused", Update: true, Before: Set{"spec.storageCapacity": "20Gi"}, Change: Set{"spec.storageCapacity": "10240Mi"}, Field: "spec.storageCapacity", Says: "volumes cannot shrink"},
		{Name: "volumes smaller than the default that was taken are refused", Update: true, Change: Set{"spec.storageCapacity": "10Gi"}, Field: "spec.storageCapacity", Says: "volumes cannot shrink"},
		{Name: "larger volumes are taken", Update: true, Before: Set{"spec.storageCapacity": "20Gi"}, Change: Set{"spec.storageCapacity": "20481Mi"}},
		{Name: "joining another cluster later is refused", Update: true, Change: Set{"spec.etcd.bootstrapWithExistingCluster": joining}, Field: "spec.etcd.bootstrapWithExistingCluster", Says: "make a new Etcd with it"},
		{Name: "another cluster while members join is refused", Update: true, Before: joins, Change: Set{"spec.etcd.bootstrapWithExistingCluster": elsewhere}, Field: "spec.etcd.bootstrapWithExistingCluster", Says: "wait until the condition BootstrappedWithExistingCluster is True"},
		{Name: "giving up the other cluster while members join is refused", Update: true, Before: joins, Change: Set{"spec.etcd.bootstrapWithExistingCluster": nil}, Field: "spec.etcd.bootstrapWithExistingCluster", Says: "wait until the condition BootstrappedWithExistingCluster is True"},
		{Name: "changing something else while members join is taken", Update: true, Before: joins, Change: Set{"spec.etcd.quota": "4Gi"}},
		{Name: "forgetting the other cluster after members joined is taken", Update: true, Before: joined, Change: Set{"spec.etcd.bootstrapWithExistingCluster": nil}},
	}
}

func ofAddresses() []Case {
	return []Case{
		{Name: "additional URLs of somebody else's member are refused", Change: Set{"spec.etcd.additionalAdvertisePeerURLs": `[{memberName: other-0, urls: ["http://a:2380"]}]`}, Field: "spec.etcd.additionalAdvertisePeerURLs", Says: "must be the name of a member"},
		{Name: "additional URLs of a name that only begins like a member are refused", Change: Set{"spec.etcd.additionalAdvertisePeerURLs": `[{memberName: etcd-main-0-1, urls: ["http://a:2380"]}]`}, Field: "spec.etcd.additionalAdvertisePeerURLs", Says: "must be the name of a member"},
		{Name: "additional URLs of an index with a leading zero are refused", Change: Set{"spec.etcd.additionalAdvertisePeerURLs": `[{memberName: etcd-main-01, urls: ["http://a:2380"]}]`}, Field: "spec.etcd.additionalAdvertisePeerURLs", Says: "must be the name of a member"},
		{Name: "additional URLs without the prefix of members are refused", Change: Set{"spec.memberNamePrefix": "blue", "spec.etcd.additionalAdvertisePeerURLs": `[{memberName: etcd-main-0, urls: ["http://a:2380"]}]`}, Field: "spec.etcd.additionalAdvertisePeerURLs", Says: "must be the name of a member"},
		{Name: "additional URLs of a name that is shorter than the prefix are refused", Change: Set{"spec.memberNamePrefix": "blue", "spec.etcd.additionalAdvertisePeerURLs": `[{memberName: b-0, urls: ["http://a:2380"]}]`}, Field: "spec.etcd.additionalAdvertisePeerURLs", Says: "must be the name of a member"},
		{Name: "additional URLs of the prefix and an index alone are refused", Change: Set{"spec.memberNamePrefix": "blue", "spec.etcd.additionalAdvertisePeerURLs": `[{memberName: blue-0, urls: ["http://a:2380"]}]`}, Field: "spec.etcd.additionalAdvertisePeerURLs", Says: "must be the name of a member"},
		{Name: "additional URLs of a member beyond the cluster are refused", Change: Set{"spec.etcd.additionalAdvertisePeerURLs": `[{memberName: etcd-main-3, urls: ["http://a:2380"]}]`}, Field: "spec.etcd.additionalAdvertisePeerURLs", Says: "must be lower than replicas"},
		{Name: "scaling in below a member with additional URLs is refused", Update: true, Before: Set{"spec.etcd.additionalAdvertisePeerURLs": `[{memberName: etcd-main-2, urls: ["http://a:2380"]}]`}, Change: Set{"spec.replicas": 1}, Field: "spec.etcd.additionalAdvertisePeerURLs", Says: "remove the entries of members"},
		{Name: "scaling to none with additional URLs is taken", Update: true, Before: Set{"spec.etcd.additionalAdvertisePeerURLs": `[{memberName: etcd-main-2, urls: ["http://a:2380"]}]`}, Change: Set{"spec.replicas": 0}},
		{Name: "two entries of one member are refused", Change: Set{"spec.etcd.additionalAdvertisePeerURLs": `[{memberName: etcd-main-0, urls: ["http://a:2380"]}, {memberName: etcd-main-0, urls: ["http://b:2380"]}]`}, Field: "spec.etcd.additionalAdvertisePeerURLs[1]", Says: "Duplicate value"},
		{Name: "six additional URLs of one member are refused", Change: Set{"spec.etcd.additionalAdvertisePeerURLs": `[{memberName: etcd-main-0, urls: ["http://a", "http://b", "http://c", "http://d", "http://e", "http://f"]}]`}, Field: "spec.etcd.additionalAdvertisePeerURLs[0].urls", Says: "at most 5"},
		{Name: "an additional URL that is none is refused", Change: Set{"spec.etcd.additionalAdvertisePeerURLs": `[{memberName: etcd-main-0, urls: ["etcd.example.org:2380"]}]`}, Field: "spec.etcd.additionalAdvertisePeerURLs[0].urls[0]", Says: "must be a URL that begins with http:// or https://"},
		{Name: "an additional https URL without TLS between members is refused", Change: Set{"spec.etcd.additionalAdvertisePeerURLs": `[{memberName: etcd-main-0, urls: ["https://a:2380"]}]`}, Field: "spec.etcd.additionalAdvertisePeerURLs", Says: "change the URLs or peerUrlTls"},
		{Name: "an additional http URL with TLS between members is refused", Change: Set{"spec.etcd.peerUrlTls": tls, "spec.etcd.additionalAdvertisePeerURLs": `[{memberName: etcd-main-0, urls: ["http://a:2380"]}]`}, Field: "spec.etcd.additionalAdvertisePeerURLs", Says: "change the URLs or peerUrlTls"},
		{Name: "an additional https URL with TLS between members is taken", Change: Set{"spec.etcd.peerUrlTls": tls, "spec.etcd.additionalAdvertisePeerURLs": `[{memberName: etcd-main-0, urls: ["https://a:2380"]}]`}},
		{Name: "joining a cluster with a member of our name is refused", Change: Set{"spec.etcd.bootstrapWithExistingCluster": `{members: [{name: etcd-main-7, peerUrls: ["http://old:2380"]}], clientEndpoints: ["http://old:2379"]}`}, Field: "spec.etcd.bootstrapWithExistingCluster.members", Says: "set memberNamePrefix"},
		{Name: "joining a cluster with a member of our prefixed name is refused", Change: Set{"spec.memberNamePrefix": "blue", "spec.etcd.bootstrapWithExistingCluster": `{members: [{name: blue-etcd-main-0, peerUrls: ["http://old:2380"]}], clientEndpoints: ["http://old:2379"]}`}, Field: "spec.etcd.bootstrapWithExistingCluster.members", Says: "set memberNamePrefix"},
		{Name: "joining a cluster with a member whose name is nearly ours is taken", Change: Set{"spec.memberNamePrefix": "blue", "spec.etcd.bootstrapWithExistingCluster": `{members: [{name: etcd-main-0, peerUrls: ["http://old:2380"]}, {name: b-1, peerUrls: ["http://old:2381"]}], clientEndpoints: ["http://old:2379"]}`}},
		{Name: "joining a cluster with two members of one name is refused", Change: Set{"spec.etcd.bootstrapWithExistingCluster": `{members: [{name: a, peerUrls: ["http://old:2380"]}, {name: a, peerUrls: ["http://old:2381"]}], clientEndpoints: ["http://old:2379"]}`}, Field: "spec.etcd.bootstrapWithExistingCluster.members[1]", Says: "Duplicate value"},
		{Name: "joining a cluster without members is refused", Change: Set{"spec.etcd.bootstrapWithExistingCluster": `{members: [], clientEndpoints: ["http://old:2379"]}`}, Field: "spec.etcd.bootstrapWithExistingCluster.members", Says: "at least 1"},
		{Name: "joining a cluster over https without TLS between members is refused", Change: Set{"spec.etcd.bootstrapWithExistingCluster": `{members: [{name: a, peerUrls: ["https://old:2380"]}], clientEndpoints: ["http://old:2379"]}`}, Field: "spec.etcd.bootstrapWithExistingCluster.members", Says: "change the URLs or peerUrlTls"},
		{Name: "joining a cluster over http with TLS for clients is refused", Change: Set{"spec.etcd.clientUrlTls": tlsClient, "spec.etcd.bootstrapWithExistingCluster": joining}, Field: "spec.etcd.bootstrapWithExistingCluster.clientEndpoints", Says: "change the URLs or clientUrlTls"},
		{Name: "an endpoint of a cluster to join that is no URL is refused", Change: Set{"spec.etcd.bootstrapWithExistingCluster": `{members: [{name: a, peerUrls: ["http://old:2380"]}], clientEndpoints: ["old:2379"]}`}, Field: "spec.etcd.bootstrapWithExistingCluster.clientEndpoints[0]", Says: "must be a URL that begins with http:// or https://"},
		{Name: "TLS for clients without a client certificate is refused", Change: Set{"spec.etcd.clientUrlTls": tls}, Field: "spec.etcd.clientUrlTls.clientTLSSecretRef", Says: "name a Secret with tls.crt and tls.key"},
		{Name: "TLS for clients with an empty reference is refused", Change: Set{"spec.etcd.clientUrlTls": `{tlsCASecretRef: {name: ca}, serverTLSSecretRef: {name: server}, clientTLSSecretRef: {}}`}, Field: "spec.etcd.clientUrlTls.clientTLSSecretRef", Says: "name a Secret with tls.crt and tls.key"},
		{Name: "TLS without a name of the CA is refused", Change: Set{"spec.etcd.peerUrlTls": `{tlsCASecretRef: {}, serverTLSSecretRef: {name: server}}`}, Field: "spec.etcd.peerUrlTls.tlsCASecretRef.name", Says: "name the Secret that holds the certificates of the CA"},
		{Name: "TLS without a name of the server's certificate is refused", Change: Set{"spec.backup.tls": `{tlsCASecretRef: {name: ca}, serverTLSSecretRef: {name: ""}}`}, Field: "spec.backup.tls.serverTLSSecretRef.name", Says: "name the Secret that holds the server's tls.crt and tls.key"},
		{Name: "one port for two is refused", Change: Set{"spec.backup.port": 2379}, Field: "spec", Says: "give each another number"},
		{Name: "two ports that changed places are taken", Change: Set{"spec.etcd.clientPort": 2380, "spec.etcd.serverPort": 2379}},
		{Name: "a port above 65535 is refused", Change: Set{"spec.etcd.clientPort": 65536}, Field: "spec.etcd.clientPort", Says: "less than or equal to 65535"},
		{Name: "a wrong spreading of clients is refused", Change: Set{"spec.etcd.clientService": `{trafficDistribution: Near}`}, Field: "spec.etcd.clientService.trafficDistribution", Says: `"PreferSameZone", "PreferSameNode", "PreferClose"`},
	}
}
