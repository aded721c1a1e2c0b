package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
)

// network is a bridge in the control plane's room with a port for each node and one for us. The
// cluster has one /16 of its own; everything in it can be reached from here, pods and Services too.
//
//	10.N.0.1           we; stores that pods use listen here
//	10.N.0.2           control plane: API server, DNS
//	10.N.0.10+i        node i, from 1
//	10.N.i.0/24        pods of node i
//	10.N.128.0/20      Services
type network struct {
	id     int // N
	link   string
	bridge *room
}

// The cluster's networks are the upper ones of 10.0.0.0/8, where those of other containers and of offices rarely are.
const firstNetwork, lastNetwork = 192, 254

// maxNodes is given by the addresses: they end with 10+i, and pods' with i.
const maxNodes = 20

// linkPrefix begins the name of the only device that is ours outside of rooms.
const linkPrefix = "druidk"

func (n *network) addr(third, last byte) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(n.id), third, last})
}

func (n *network) us() netip.Addr           { return n.addr(0, 1) }
func (n *network) control() netip.Addr      { return n.addr(0, 2) }
func (n *network) node(i int) netip.Addr    { return n.addr(0, byte(10+i)) }
func (n *network) pods(i int) netip.Prefix  { return netip.PrefixFrom(n.addr(byte(i), 0), 24) }
func (n *network) allPods() netip.Prefix    { return netip.PrefixFrom(n.addr(0, 0), 17) }
func (n *network) services() netip.Prefix   { return netip.PrefixFrom(n.addr(128, 0), 20) }
func (n *network) firstService() netip.Addr { return n.addr(128, 1) }

// newNetwork claims an id and connects the control plane's room to us. The device goes with that
// room, and with the device its addresses and routes.
func newNetwork(ctx context.Context, control *room, nodes int) (*network, error) {
	n := &network{bridge: control}
	if err := n.claim(ctx); err != nil {
		return nil, err
	}
	inside := []string{
		"link add bridge type bridge",
		"addr add " + n.control().String() + "/24 dev bridge",
		"link set bridge up",
		"link set us master bridge",
		"link set us up",
		"route add default via " + n.us().String(),
	}
	outside := []string{
		"addr add " + n.us().String() + "/24 dev " + n.link,
		"link set " + n.link + " up",
		"route add " + n.services().String() + " via " + n.control().String(),
	}
	for i := 1; i <= nodes; i++ {
		inside = append(inside, n.routeToPods(i))
		outside = append(outside, n.routeToPods(i))
	}
	if err := control.ip(ctx, inside...); err != nil {
		return nil, fmt.Errorf("make a network: %w", err)
	}
	if err := (*room)(nil).ip(ctx, outside...); err != nil {
		return nil, fmt.Errorf("make a network: %w", err)
	}
	return n, nil
}

func (n *network) routeToPods(i int) string {
	return fmt.Sprintf("route add %s via %s", n.pods(i), n.node(i))
}

// claim finds an id that nobody uses. That a device of its name can be made is the claim, which the
// kernel decides.
func (n *network) claim(ctx context.Context) error {
	taken, err := networksTaken()
	if err != nil {
		return err
	}
	var last error
	for _, offset := range rand.Perm(lastNetwork - firstNetwork + 1) {
		n.id = firstNetwork + offset
		n.link = fmt.Sprintf("%s%d", linkPrefix, n.id)
		if taken[n.id] {
			continue
		}
		last = (*room)(nil).ip(ctx, "link add "+n.link+" type veth peer name us netns "+n.bridge.pid())
		if last == nil || !strings.Contains(last.Error(), "File exists") {
			return last
		}
	}
	return errors.Join(fmt.Errorf("no network between 10.%d.0.0/16 and 10.%d.0.0/16 is free", firstNetwork, lastNetwork), last)
}

// release gives the id up. The device goes with the room of its peer, but the kernel keeps that for minutes while connections end that
// nobody answers any more.
func (n *network) release() error {
	if _, err := net.InterfaceByName(n.link); err != nil {
		return nil // it went, or was never made
	}
	err := (*room)(nil).ip(context.Background(), "link del "+n.link)
	if err != nil && strings.Contains(err.Error(), "Cannot find device") {
		return nil
	}
	return err
}

// networksTaken are the ids of which this machine has an address.
func networksTaken() (map[int]bool, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	taken := map[int]bool{}
	for _, a := range addrs {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || !prefix.Addr().Is4() || prefix.Addr().As4()[0] != 10 {
			continue
		}
		taken[int(prefix.Addr().As4()[1])] = true
	}
	return taken, nil
}

// plug connects node i of several.
func (n *network) plug(ctx context.Context, r *room, i, nodes int) error {
	port := n.port(i)
	err := n.bridge.ip(ctx,
		"link add "+port+" type veth peer name eth0 netns "+r.pid(),
		"link set "+port+" master bridge",
		"link set "+port+" up",
	)
	if err != nil {
		return fmt.Errorf("connect %s: %w", r.name, err)
	}
	inside := []string{
		"addr add " + n.node(i).String() + "/24 dev eth0",
		"link set eth0 up",
		"route add default via " + n.us().String(),
	}
	for other := 1; other <= nodes; other++ {
		if other != i {
			inside = append(inside, n.routeToPods(other))
		}
	}
	if err := r.ip(ctx, inside...); err != nil {
		return fmt.Errorf("connect %s: %w", r.name, err)
	}
	return nil
}

func (n *network) port(i int) string { return fmt.Sprintf("node%d", i) }

// connect opens or cuts the port of a node.
func (n *network) connect(ctx context.Context, i int, up bool) error {
	state := "down"
	if up {
		state = "up"
	}
	return n.bridge.ip(ctx, "link set "+n.port(i)+" "+state)
}
