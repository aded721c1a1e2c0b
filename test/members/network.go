package members

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"sync"
)

// Network is a bridge with one port for us and one for each member. Packets are lost without a word
// where it is cut: whoever is cut off learns by waiting, as in reality.
//
//	we ---.1, .2---+         .1 for clients, .2 for stores: members can be cut off from one alone
//	               | bridge
//	member 0 --.10-+-.11-- member 1
type Network struct {
	prefix netip.Prefix
	bridge *room

	mu    sync.Mutex
	rooms map[netip.Addr]*room
	cuts  map[[2]netip.Addr]bool // from, to
}

// nobody is a hardware address that none of the bridge's ports has.
const nobody = "02:00:00:00:00:01"

// NewNetwork makes a network without members. Close removes it; it ends with this process at the
// latest.
func NewNetwork(ctx context.Context) (*Network, error) {
	n := &Network{rooms: map[netip.Addr]*room{}, cuts: map[[2]netip.Addr]bool{}}
	id := rand.IntN(1 << 14)
	n.prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(128 + id>>8), byte(id), 0}), 24)
	var err error
	if n.bridge, err = newRoom(ctx, "the bridge", true, false); err != nil {
		return nil, err
	}
	// The outer end is ours, and goes when the inner one goes with its namespace.
	ours := fmt.Sprintf("druid%d", id)
	for _, step := range [][]string{
		{"ip", "link", "add", ours, "type", "veth", "peer", "name", "we", "netns", n.pid(n.bridge)},
		{"ip", "addr", "add", n.Us().String() + "/24", "dev", ours},
		{"ip", "addr", "add", n.Stores().String() + "/24", "dev", ours},
		{"ip", "link", "set", ours, "up"},
	} {
		if err := run(ctx, step...); err != nil {
			n.Close()
			return nil, fmt.Errorf("make a network: %w", err)
		}
	}
	for _, step := range [][]string{
		{"ip", "link", "add", "bridge", "type", "bridge"},
		{"ip", "link", "set", "we", "master", "bridge"},
		{"ip", "link", "set", "we", "up"},
		{"ip", "link", "set", "bridge", "up"},
	} {
		if err := n.bridge.run(ctx, step...); err != nil {
			n.Close()
			return nil, fmt.Errorf("make a network: %w", err)
		}
	}
	return n, nil
}

func (n *Network) pid(r *room) string { return strconv.Itoa(r.holder.PID()) }

func (n *Network) at(last byte) netip.Addr {
	a := n.prefix.Addr().As4()
	a[3] = last
	return netip.AddrFrom4(a)
}

// Us is our address, from which clients connect.
func (n *Network) Us() netip.Addr { return n.at(1) }

// Stores is our other address, for servers that members use.
func (n *Network) Stores() netip.Addr { return n.at(2) }

// plug gives a room the address with the last byte.
func (n *Network) plug(ctx context.Context, r *room, last byte) (netip.Addr, error) {
	addr := n.at(last)
	port := fmt.Sprintf("port%d", last)
	for _, step := range []struct {
		where *room
		words []string
	}{
		{n.bridge, []string{"ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", n.pid(r)}},
		{n.bridge, []string{"ip", "link", "set", port, "master", "bridge"}},
		{n.bridge, []string{"ip", "link", "set", port, "up"}},
		{r, []string{"ip", "link", "set", "lo", "up"}},
		{r, []string{"ip", "addr", "add", addr.String() + "/24", "dev", "eth0"}},
		{r, []string{"ip", "link", "set", "eth0", "up"}},
	} {
		if err := step.where.run(ctx, step.words...); err != nil {
			return addr, fmt.Errorf("connect %s: %w", addr, err)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rooms[addr] = r
	return addr, nil
}

// Lose has everything vanish that the member at from sends to an address. It is one direction: cut
// both for a partition. Nothing can be lost that we send.
func (n *Network) Lose(ctx context.Context, from, to netip.Addr) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.rooms[from]
	if r == nil {
		return fmt.Errorf("no member is at %s", from)
	}
	if err := r.run(ctx, "ip", "neigh", "replace", to.String(), "lladdr", nobody, "dev", "eth0", "nud", "permanent"); err != nil {
		return err
	}
	n.cuts[[2]netip.Addr{from, to}] = true
	return nil
}

// Heal has everything arrive again.
func (n *Network) Heal(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for c := range n.cuts {
		if err := n.rooms[c[0]].run(ctx, "ip", "neigh", "del", c[1].String(), "dev", "eth0"); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(n.cuts, c)
	}
	return errors.Join(errs...)
}

// unplug forgets a room that is closed.
func (n *Network) unplug(addr netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.rooms, addr)
	for c := range n.cuts {
		if c[0] == addr {
			delete(n.cuts, c)
		}
	}
}

// Close removes the network.
func (n *Network) Close() { n.bridge.close() }
