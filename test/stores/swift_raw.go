package stores

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Swift is a session with a server that speaks Swift, logged in by version 1 of its
// authentication.
type Swift struct {
	client     *http.Client
	token, url string
}

// LogIn begins a session. key is the user's.
func LogIn(ctx context.Context, ca *CA, authURL, user, key string) (*Swift, error) {
	s := &Swift{client: &http.Client{Transport: &http.Transport{TLSClientConfig: ca.ClientTLS(), DisableKeepAlives: true}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, authURL, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Auth-User", user)
	req.Header.Set("X-Auth-Key", key)
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	s.token, s.url = resp.Header.Get("X-Auth-Token"), resp.Header.Get("X-Storage-Url")
	if s.token == "" || s.url == "" {
		return nil, fmt.Errorf("Swift gives no token: %s", resp.Status)
	}
	return s, nil
}

// Ask sends a request about an object, or about the container if object is empty. Any status
// but 2xx is an error.
func (s *Swift) Ask(ctx context.Context, method, container, object, query string, header map[string]string, body []byte) (http.Header, []byte, error) {
	target := s.url + "/" + container
	if object != "" {
		target += "/" + strings.ReplaceAll(url.PathEscape(object), "%2F", "/")
	}
	req, err := http.NewRequestWithContext(ctx, method, target+query, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	req.Header.Set("X-Auth-Token", s.token)
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s/%s: %s %s", method, container, object, resp.Status, answer)
	}
	return resp.Header, answer, err
}

// Raw is a container in the hands of the session's user.
func (s *Swift) Raw(container string) Raw { return swiftRaw{s, container} }

type swiftRaw struct {
	s         *Swift
	container string
}

func (r swiftRaw) Overwrite(ctx context.Context, key string, body []byte) error {
	_, _, err := r.s.Ask(ctx, http.MethodPut, r.container, key, "", nil, body)
	return err
}

func (r swiftRaw) Hide(ctx context.Context, key string) error {
	_, _, err := r.s.Ask(ctx, http.MethodDelete, r.container, key, "", nil, nil)
	return err
}

func (r swiftRaw) Delete(ctx context.Context, v RawVersion) error { return r.Hide(ctx, v.Key) }

func (r swiftRaw) Read(ctx context.Context, v RawVersion) ([]byte, error) {
	_, b, err := r.s.Ask(ctx, http.MethodGet, r.container, v.Key, "", nil, nil)
	return b, err
}

// Versions lists segments of large objects as well.
func (r swiftRaw) Versions(ctx context.Context) ([]RawVersion, error) {
	var all []RawVersion
	for marker := ""; ; {
		_, b, err := r.s.Ask(ctx, http.MethodGet, r.container, "", "?format=json&marker="+url.QueryEscape(marker), nil, nil)
		if err != nil {
			return nil, err
		}
		var page []struct {
			Name  string
			Bytes int64
		}
		if err := json.Unmarshal(b, &page); err != nil {
			return nil, fmt.Errorf("%w in %s", err, b)
		}
		if len(page) == 0 {
			return all, nil
		}
		for _, o := range page {
			all = append(all, RawVersion{Key: o.Name, Size: o.Bytes, Current: true})
			marker = o.Name
		}
	}
}
