package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"druid.internal/druid/test/cluster/image"
	"druid.internal/druid/test/stores"
)

// pauseImage is what the first container of every pod is made of.
const pauseImage = "registry.local/pause:" + stores.PauseVersion

// canHaveNodes is nil if this machine can, and says what is missing before anything is begun.
func canHaveNodes(nodes int) error {
	if nodes < 0 || nodes > maxNodes {
		return fmt.Errorf("%d nodes: from 0 to %d are possible", nodes, maxNodes)
	}
	if nodes == 0 {
		return nil
	}
	if os.Geteuid() != 0 {
		return errNeedsRoot
	}
	for _, pin := range []string{"node-tools", "pause"} {
		if _, err := stores.Binary(pin); err != nil {
			return err
		}
	}
	return nil
}

// startWithNodes has the machines come up while the control plane does.
func (c *Cluster) startWithNodes(ctx context.Context) error {
	for _, hidden := range []string{"/run", "/var/lib"} {
		if strings.HasPrefix(c.Dir+"/", hidden+"/") {
			return fmt.Errorf("the directory %s is below %s, of which every node has its own; choose another", c.Dir, hidden)
		}
	}
	if err := errors.Join(Sweep(), sweepCgroups(ctx)); err != nil {
		return fmt.Errorf("remove what former clusters left: %w", err)
	}
	images, err := c.firstImages()
	if err != nil {
		return err
	}
	if c.control, err = newRoom(ctx, "control"); err != nil {
		return err
	}
	if c.network, err = newNetwork(ctx, c.control, c.opts.Nodes); err != nil {
		return err
	}
	c.Host = c.network.us().String()
	if err := os.WriteFile(c.file("network"), []byte(c.network.link+"\n"), 0o644); err != nil {
		return err
	}
	for i := 1; i <= c.opts.Nodes; i++ {
		c.Nodes = append(c.Nodes, c.newNode(i))
	}

	machines, up := errgroup.WithContext(ctx)
	machines.Go(func() error { return c.startControlPlane(up) })
	for _, n := range c.Nodes {
		machines.Go(func() error { return n.powerOn(up, images...) })
	}
	if err := machines.Wait(); err != nil {
		return err
	}
	c.progress("%d machines run containers", len(c.Nodes))
	return c.joinNodes(ctx)
}

// joinNodes starts what pods need, and waits for the nodes.
func (c *Cluster) joinNodes(ctx context.Context) error {
	_, err := c.add(Scheduler, "kube-scheduler", "--kubeconfig="+c.file("scheduler.kubeconfig"), "--secure-port=0", "--leader-elect=false", "--profiling=false")
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.file("Corefile"), []byte(c.corefile()), 0o644); err != nil {
		return err
	}
	dns, err := c.add(DNS, "coredns", "-conf", c.file("Corefile"))
	if err != nil {
		return err
	}
	// Services are reached from here through the control plane's room.
	proxy, err := c.add(ControlProxy, "kube-proxy", c.proxyArgs(c.Nodes[0].Name)...)
	if err != nil {
		return err
	}
	for _, n := range c.Nodes {
		if err := n.join(); err != nil {
			return err
		}
	}
	if c.volumes, err = c.startVolumes(ctx); err != nil {
		return err
	}
	for _, n := range c.Nodes {
		if err := n.awaitJoined(ctx); err != nil {
			return err
		}
	}
	c.progress("%d nodes are ready", len(c.Nodes))
	if err := dns.proc.Await(ctx, c.namesAreKnown); err != nil {
		return err
	}
	if err := proxy.proc.Await(ctx, proxyWorks(c.network.control().String())); err != nil {
		return err
	}
	c.progress("names and Services lead to pods")
	return nil
}

// namesAreKnown is nil if the cluster's DNS knows a Service that always is.
func (c *Cluster) namesAreKnown(ctx context.Context) error {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(c.network.control().String(), "53"))
	}}
	addrs, err := resolver.LookupHost(ctx, "kubernetes.default.svc.cluster.local.")
	if want := []string{c.network.firstService().String()}; err == nil && !slices.Equal(addrs, want) {
		err = fmt.Errorf("the API server's addresses are %v, want %v", addrs, want)
	}
	return err
}

// proxyWorks is nil if the kube-proxy at an address has done what the API server told it.
func proxyWorks(address string) func(context.Context) error {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(address, proxyHealth)+"/healthz", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("the kube-proxy at %s says %s", address, response.Status)
		}
		return nil
	}
}

// firstImages are the tarballs that nodes begin with.
func (c *Cluster) firstImages() ([]string, error) {
	pause, err := stores.Binary("pause")
	if err != nil {
		return nil, err
	}
	tar := c.file("pause.tar")
	spec := image.Spec{Name: pauseImage, Entrypoint: []string{"/pause"}, Files: []image.File{{Path: "/pause", Source: pause, Mode: 0o755}}}
	if err := image.Write(tar, spec); err != nil {
		return nil, err
	}
	images := append([]string{tar}, c.opts.Images...)
	for i := range images {
		if images[i], err = filepath.Abs(images[i]); err != nil {
			return nil, err
		}
	}
	return slices.Compact(images), nil
}
