package stores

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// cephConfName is the file of a cluster's configuration in its directory.
const cephConfName = "ceph.conf"

// cephBytes is how much a cluster holds by default.
const cephBytes = 4 << 30

// cephConf is what differs between two clusters.
type cephConf struct {
	dir     string
	host    string // of everything
	monitor string // ADDRESS:PORT
	gateway string // ADDRESS:PORT
	bytes   int64  // that fit; 0: the default
}

func (c cephConf) cert() string { return "rgw.crt" }
func (c cephConf) key() string  { return "rgw.key" }

// id names the cluster and its only store. Clusters do not meet, so they may have the same.
func (cephConf) id() string { return "7f1c0c1e-5d2b-4c62-9b1a-64727569640a" }

// monitors is the address of the only one, of the newer protocol alone.
func (c cephConf) monitors() string { return "[v2:" + c.monitor + "]" }

// write makes the file. One copy of everything on one store is what a test needs and what
// Ceph has to be told several times; logs go to standard error, few lines.
func (c cephConf) write() error {
	in := func(name string) string { return filepath.Join(c.dir, name) }
	lines := []string{
		"[global]",
		"fsid = " + c.id(),
		"mon_initial_members = a",
		"mon_host = " + c.monitors(),
		"public_addr = " + c.host,
		"cluster_addr = " + c.host,
		"ms_bind_msgr1 = false",

		// The gateway refuses to do without authentication. All share one file of keys.
		"auth_cluster_required = cephx",
		"auth_service_required = cephx",
		"auth_client_required = cephx",
		"keyring = " + in("keyring"),
		"auth_allow_insecure_global_id_reclaim = false",

		"osd_pool_default_size = 1",
		"osd_pool_default_min_size = 1",
		"osd_pool_default_pg_num = 1",
		"osd_pool_default_pgp_num = 1",
		"osd_pool_default_pg_autoscale_mode = off",
		"osd_crush_chooseleaf_type = 0",
		"mon_allow_pool_size_one = true",
		// A monitor ends, without a word, when less than a twentieth of the file system is free,
		// which on a large one is more than all of this needs. Nothing here is kept.
		"mon_data_avail_warn = 0",
		"mon_data_avail_crit = 0",
		"osd_objectstore = memstore",
		fmt.Sprintf("memstore_device_bytes = %d", cmp.Or(c.bytes, cephBytes)),

		"run_dir = " + c.dir,
		"pid_file =",
		"admin_socket =",
		"log_file =",
		"log_to_stderr = true",
		"err_to_stderr = true",
		"mon_cluster_log_file =",
		"mon_cluster_log_to_stderr = false",
		"debug_rgw = 0",
		"setuser_match_path =",

		"mon_data = " + in("mon"),
		"osd_data = " + in("osd"),
		"rgw_data = " + in("rgw"),

		fmt.Sprintf("rgw_frontends = beast ssl_endpoint=%s ssl_certificate=%s ssl_private_key=%s", c.gateway, in(c.cert()), in(c.key())),
		"rgw_thread_pool_size = 16",
		"rgw_swift_account_in_url = false",
		// Deleted objects leave the memory soon.
		"rgw_gc_obj_min_wait = 5",
		"rgw_gc_processor_period = 5",
	}
	for _, dir := range []string{"mon", "osd", "rgw"} {
		if err := os.MkdirAll(in(dir), 0o700); err != nil {
			return err
		}
	}
	return os.WriteFile(in(cephConfName), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}
