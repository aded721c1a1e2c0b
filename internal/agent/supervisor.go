package agent

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"druid.internal/druid/internal/agent/config"
)

// supervisor is the wrapper beside the own etcd.
type supervisor struct {
	base   string
	client *http.Client
}

// restartTimeout bounds the call, not the restart.
const restartTimeout = 10 * time.Second

func newSupervisor(c config.Config, client *http.Client) (supervisor, error) {
	u, err := url.Parse(c.Etcd.Endpoints[0])
	if err != nil {
		return supervisor{}, err
	}
	host := c.Wrapper.Address
	if host == "" {
		host = u.Hostname()
	}
	// The wrapper's certificate is that of etcd's clients.
	return supervisor{u.Scheme + "://" + net.JoinHostPort(host, strconv.Itoa(c.Wrapper.Port)), client}, nil
}

// restart has etcd stopped and started anew, by way of an initialization.
func (s supervisor) restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, restartTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+"/restart", nil)
	if err != nil {
		return err
	}
	resp, err := s.client.Do(r)
	if err != nil {
		return fmt.Errorf("ask etcd-wrapper to restart etcd: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 512)) // what it said is a courtesy
		return fmt.Errorf("ask etcd-wrapper to restart etcd: %s: %s", resp.Status, said)
	}
	return nil
}
