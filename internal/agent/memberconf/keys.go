package memberconf

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// etcd passes over keys that it does not know: a typing error would be a setting that never came
// into effect. So they are refused here, by these lists.

// known are the keys of etcd 3.6's configuration file.
var known = words(`
	advertise-client-urls auth-token auth-token-ttl auto-compaction-mode auto-compaction-retention
	backend-batch-interval backend-batch-limit backend-bbolt-freelist-type bcrypt-cost
	bootstrap-defrag-threshold-megabytes cipher-suites client-transport-security compact-hash-check-time
	compaction-batch-limit compaction-sleep-interval corrupt-check-time cors data-dir
	distributed-tracing-address distributed-tracing-instance-id distributed-tracing-sampling-rate
	distributed-tracing-service-name downgrade-check-time election-timeout enable-distributed-tracing
	enable-grpc-gateway enable-log-rotation enable-pprof experimental-bootstrap-defrag-threshold-megabytes
	experimental-compact-hash-check-enabled experimental-compact-hash-check-time
	experimental-compaction-batch-limit experimental-compaction-sleep-interval experimental-corrupt-check-time
	experimental-distributed-tracing-address experimental-distributed-tracing-instance-id
	experimental-distributed-tracing-sampling-rate experimental-distributed-tracing-service-name
	experimental-downgrade-check-time experimental-enable-distributed-tracing
	experimental-enable-lease-checkpoint experimental-enable-lease-checkpoint-persist
	experimental-initial-corrupt-check experimental-memory-mlock experimental-peer-skip-client-san-verification
	experimental-snapshot-catch-up-entries experimental-stop-grpc-service-on-defrag
	experimental-txn-mode-write-with-shared-buffer experimental-warning-apply-duration
	experimental-warning-unary-request-duration experimental-watch-progress-notify-interval feature-gates
	force-new-cluster grpc-keepalive-interval grpc-keepalive-min-time grpc-keepalive-timeout
	heartbeat-interval host-whitelist initial-advertise-peer-urls initial-cluster initial-cluster-state
	initial-cluster-token initial-election-tick-advance listen-client-http-urls listen-client-urls
	listen-metrics-urls listen-peer-urls log-format log-level log-outputs log-rotation-config-json logger
	max-concurrent-streams max-learners max-request-bytes max-snapshots max-txn-ops max-wals memory-mlock
	metrics name peer-transport-security pre-vote quota-backend-bytes self-signed-cert-validity
	snapshot-catchup-entries snapshot-count socket-options strict-reconfig-check tls-max-version
	tls-min-version unsafe-no-fsync v2-deprecation warning-apply-duration warning-unary-request-duration
	watch-progress-notify-interval`)

// past are keys of etcd 3.5 and before that mean nothing to 3.6. They are left out.
var past = words(`
	enable-v2 experimental-enable-v2v3 next-cluster-version-compatible proxy proxy-dial-timeout
	proxy-failure-wait proxy-read-timeout proxy-refresh-interval proxy-write-timeout`)

// knownIn are the keys below some of the keys.
var knownIn = map[string][]string{
	"client-transport-security": transport,
	"peer-transport-security":   transport,
	"socket-options":            words(`reuse-address reuse-port`),
}

var transport = words(`
	allowed-cn allowed-hostname auto-tls cert-file client-cert-auth client-cert-file client-key-file
	key-file skip-client-san-verification trusted-ca-file`)

// etcd ends at once when a value is not of its kind. These are the keys whose values are not text.
var (
	switches = words(`
		enable-distributed-tracing enable-grpc-gateway enable-log-rotation enable-pprof
		experimental-compact-hash-check-enabled experimental-enable-distributed-tracing
		experimental-enable-lease-checkpoint experimental-enable-lease-checkpoint-persist
		experimental-initial-corrupt-check experimental-memory-mlock
		experimental-peer-skip-client-san-verification experimental-stop-grpc-service-on-defrag
		experimental-txn-mode-write-with-shared-buffer force-new-cluster initial-election-tick-advance
		memory-mlock pre-vote strict-reconfig-check unsafe-no-fsync`)
	numbers = words(`
		auth-token-ttl backend-batch-limit bcrypt-cost bootstrap-defrag-threshold-megabytes
		compaction-batch-limit distributed-tracing-sampling-rate election-timeout
		experimental-bootstrap-defrag-threshold-megabytes experimental-compaction-batch-limit
		experimental-distributed-tracing-sampling-rate experimental-snapshot-catch-up-entries
		heartbeat-interval max-concurrent-streams max-learners max-request-bytes max-snapshots max-txn-ops
		max-wals quota-backend-bytes self-signed-cert-validity snapshot-catchup-entries snapshot-count`)
	times = words(`
		backend-batch-interval compact-hash-check-time compaction-sleep-interval corrupt-check-time
		downgrade-check-time experimental-compact-hash-check-time experimental-compaction-sleep-interval
		experimental-corrupt-check-time experimental-downgrade-check-time experimental-warning-apply-duration
		experimental-warning-unary-request-duration experimental-watch-progress-notify-interval
		grpc-keepalive-interval grpc-keepalive-min-time grpc-keepalive-timeout warning-apply-duration
		warning-unary-request-duration watch-progress-notify-interval`)
)

// checkKind reports a value that etcd cannot read.
func checkKind(key string, v any) error {
	if v == nil {
		return nil
	}
	n, number := v.(json.Number)
	if _, err := n.Int64(); err != nil {
		number = false
	}
	_, is := v.(bool)
	switch {
	case slices.Contains(switches, key) && !is:
		return fmt.Errorf("%q is %v, and must be true or false", key, v)
	case slices.Contains(numbers, key) && !number:
		return fmt.Errorf("%q is %v, and must be a whole number", key, v)
	case slices.Contains(times, key) && !number:
		return fmt.Errorf("%q is %v, and must be a whole number of nanoseconds, such as 60000000000 for a minute", key, v)
	}
	return nil
}

// refused are keys of etcd with which it would do what is decided here.
var refused = map[string]string{
	"wal-dir":            "the write-ahead log is examined, replaced and restored together with the data: it lies below data-dir",
	"discovery":          "the members are those of initial-cluster",
	"discovery-config":   "the members are those of initial-cluster",
	"discovery-proxy":    "the members are those of initial-cluster",
	"discovery-srv":      "the members are those of initial-cluster",
	"discovery-srv-name": "the members are those of initial-cluster",
}

// required are keys that may have one value only, which is etcd's default.
var required = []struct {
	key  string
	want bool
	why  string
}{
	{"force-new-cluster", false, "each start would leave the other members behind"},
	{"strict-reconfig-check", true, "members are removed only while the others are healthy, and etcd checks it last"},
}

// initialCheck is etcd's comparison of its data with those of the others as it starts.
const initialCheck = "InitialCorruptCheck"

// Feature gates that are not the file's to decide, and the keys they had before.
var (
	decidedHere = words(`CompactHashCheck ` + initialCheck)
	beforeGate  = words(`experimental-compact-hash-check-enabled experimental-initial-corrupt-check`)
)

// renamed are keys whose name after "experimental-" is not their new one.
var renamed = map[string]string{"experimental-snapshot-catch-up-entries": "snapshot-catchup-entries"}

// checkKeys reports the first key that etcd does not know, or must not get.
func checkKeys(values map[string]any) error {
	for _, key := range sortedKeys(values) {
		if why, ok := refused[key]; ok && !empty(values[key]) {
			return fmt.Errorf("%q cannot be used: %s", key, why)
		} else if ok {
			continue
		}
		if !slices.Contains(known, key) && !slices.Contains(past, key) {
			return fmt.Errorf("%q is no key of etcd's configuration file%s", key, suggestion(key))
		}
		if err := checkKind(key, values[key]); err != nil {
			return err
		}
		for inner := range submap(values[key], knownIn[key]) {
			if !slices.Contains(knownIn[key], inner) {
				return fmt.Errorf("%q is no key below %q", inner, key)
			}
		}
		if now, ok := strings.CutPrefix(key, "experimental-"); ok {
			if other := renamed[key]; other != "" {
				now = other
			}
			if _, both := values[now]; both {
				return fmt.Errorf("%q and %q mean the same; remove the first", key, now)
			}
		}
	}
	for _, r := range required {
		if v, ok := values[r.key]; ok && v != r.want {
			return fmt.Errorf("%q must be %t, or left out: %s", r.key, r.want, r.why)
		}
	}
	return nil
}

// submap is v if it has keys that are to be checked.
func submap(v any, keys []string) map[string]any {
	if keys == nil {
		return nil
	}
	m, _ := v.(map[string]any)
	return m
}

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// suggestion finds the key that was probably meant.
func suggestion(key string) string {
	bare := func(s string) string { return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s)) }
	for _, k := range known {
		if bare(k) == bare(key) {
			return fmt.Sprintf("; did you mean %q?", k)
		}
	}
	return ""
}

// featureGates are the gates of the file but for those that are not its to decide.
func (t *Template) featureGates() ([]string, error) {
	text, err := t.text("feature-gates", "")
	if err != nil || text == "" {
		return nil, err
	}
	var gates []string
	for _, gate := range strings.Split(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(gate), "=")
		if !ok || name == "" || value != "true" && value != "false" {
			return nil, fmt.Errorf(`"feature-gates": %q is not like CompactHashCheck=true`, gate)
		}
		if !slices.Contains(decidedHere, name) {
			gates = append(gates, name+"="+value)
		}
	}
	return gates, nil
}

// words splits a list.
func words(s string) []string { return strings.Fields(s) }
