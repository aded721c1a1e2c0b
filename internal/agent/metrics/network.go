package metrics

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// netstat is where Linux counts the bytes of the network namespace, which in a pod is the pod's.
const netstat = "/proc/self/net/netstat"

// network shows the bytes that were sent and received. Where they cannot be read it shows none.
type network struct {
	path           string
	sent, received *prometheus.Desc
}

func newNetwork() *network {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "network", name), help, nil, nil)
	}
	return &network{path: netstat,
		sent:     desc("transmitted_bytes", "Bytes sent over the network."),
		received: desc("received_bytes", "Bytes received over the network."),
	}
}

// Describe implements prometheus.Collector.
func (n *network) Describe(to chan<- *prometheus.Desc) { to <- n.sent; to <- n.received }

// Collect implements prometheus.Collector.
func (n *network) Collect(to chan<- prometheus.Metric) {
	b, err := os.ReadFile(n.path)
	if err != nil {
		return
	}
	received, sent, err := parseNetstat(b)
	if err != nil {
		return
	}
	to <- prometheus.MustNewConstMetric(n.sent, prometheus.CounterValue, float64(sent))
	to <- prometheus.MustNewConstMetric(n.received, prometheus.CounterValue, float64(received))
}

// parseNetstat reads the octets of IP out of a file made of pairs of lines, the first with the
// names and the second with the values:
//
//	IpExt: InNoRoutes InOctets OutOctets
//	IpExt: 0 4711 815
func parseNetstat(b []byte) (received, sent uint64, err error) {
	lines := strings.Split(string(bytes.TrimRight(b, "\n")), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		names, values := strings.Fields(lines[i]), strings.Fields(lines[i+1])
		if len(names) == 0 || names[0] != "IpExt:" {
			continue
		}
		if len(names) != len(values) || values[0] != names[0] {
			return 0, 0, fmt.Errorf("IpExt has %d names and %d values", len(names), len(values))
		}
		in, out := slices.Index(names, "InOctets"), slices.Index(names, "OutOctets")
		if in < 0 || out < 0 {
			break
		}
		received, err = strconv.ParseUint(values[in], 10, 64)
		if err == nil {
			sent, err = strconv.ParseUint(values[out], 10, 64)
		}
		if err != nil {
			return 0, 0, fmt.Errorf("octets of IpExt: %w", err)
		}
		return received, sent, nil
	}
	return 0, 0, fmt.Errorf("the octets of IpExt are not told")
}
