// Package members runs clusters as they are deployed: each member is one process of etcd-wrapper and
// one of the backup sidecar, with their configuration files and certificates, an address of its own,
// and somebody who starts them again when they end, as a kubelet does. Tests and demonstrations say
// what happens to them: processes are killed, data are lost, truncated and flipped, volumes become
// read-only, networks are cut.
//
//	member etcd-main-0, 127.83.1.10        member etcd-main-1, 127.83.1.11
//	  etcd-wrapper  :9095                    ...
//	    etcd        :2379 :2380
//	  etcdbrctl server :8080
//
// With a [Network] each member has a network namespace of its own, all of them on one bridge; with
// Options.Volume a file system of its own. Both need root, and vanish with the process that made them.
//
// The package decides nothing about members: it is the machine they run on. All it knows about the
// programs' configuration stands in config.go.
package members
