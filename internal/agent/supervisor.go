package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"druid.internal/druid/internal/agent/config"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/agentapi/httpclient"
)

// supervisor is the wrapper beside the own etcd.
type supervisor struct {
	base   string
	client *http.Client
}

// supervisorTimeout bounds a call, not what is asked for.
const supervisorTimeout = 10 * time.Second

// maxSupervisorAnswer limits an answer, in bytes.
const maxSupervisorAnswer = 2 << 10

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
	if _, err := s.call(ctx, http.MethodPost, "/restart"); err != nil {
		return fmt.Errorf("ask etcd-wrapper to restart etcd: %w", err)
	}
	return nil
}

// refuse has etcd refuse clients for so long, or admit them with 0.
func (s supervisor) refuse(ctx context.Context, d time.Duration) (agentapi.Refusal, error) {
	return s.clients(ctx, http.MethodPost, "?refuse="+d.String())
}

// refusal is whether etcd refuses clients.
func (s supervisor) refusal(ctx context.Context) (agentapi.Refusal, error) {
	return s.clients(ctx, http.MethodGet, "")
}

// clients is agentapi.ErrRefused if the wrapper cannot refuse clients, whoever asks and whenever.
func (s supervisor) clients(ctx context.Context, method, query string) (agentapi.Refusal, error) {
	content, err := s.call(ctx, method, "/clients"+query)
	var said *supervisorError
	switch {
	case errors.As(err, &said) && said.code == http.StatusNotFound:
		return agentapi.Refusal{}, fmt.Errorf("%w: etcd-wrapper is of a version that cannot refuse etcd's clients", agentapi.ErrRefused)
	case errors.As(err, &said) && (said.code == http.StatusForbidden || said.code == http.StatusUnprocessableEntity):
		return agentapi.Refusal{}, fmt.Errorf("%w: etcd-wrapper says: %s", agentapi.ErrRefused, said.text)
	case err != nil:
		return agentapi.Refusal{}, fmt.Errorf("%w: ask etcd-wrapper about etcd's clients: %w", agentapi.ErrUnavailable, err)
	}
	var r agentapi.Refusal
	if err := json.Unmarshal(content, &r); err != nil {
		return agentapi.Refusal{}, fmt.Errorf("%w: what etcd-wrapper says about etcd's clients: %w", agentapi.ErrUnavailable, err)
	}
	return r, nil
}

// supervisorError is an answer that is no success.
type supervisorError struct {
	code int
	text string
}

func (e *supervisorError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.code, http.StatusText(e.code), e.text)
}

func (s supervisor) call(ctx context.Context, method, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, supervisorTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.base+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	content, err := httpclient.Read(resp.Body, maxSupervisorAnswer)
	if resp.StatusCode/100 != 2 {
		return nil, &supervisorError{resp.StatusCode, httpclient.Excerpt(content)} // what it said is a courtesy
	}
	return content, err
}
