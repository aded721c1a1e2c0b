package auth

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"druid.internal/druid/internal/agentapi/auth/authtest"
)

func TestACallRefusedForAnExchangedTokenIsMadeOnceMore(t *testing.T) {
	path := authtest.Write(t, filepath.Join(t.TempDir(), "token"), []byte(tokenA))
	var shown []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown = append(shown, r.Header.Get("Authorization"))
		if shown[len(shown)-1] == "Bearer "+tokenA {
			// The file changes after it was read for this call, and before the call is judged.
			authtest.Write(t, path, []byte(tokenB))
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	c := newTestClient(t, Credentials{TokenFile: path})
	resp, err := c.Post(server.URL, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || len(shown) != 2 || shown[1] != "Bearer "+tokenB {
		t.Errorf("answered %d after %d calls, want 200 after two", resp.StatusCode, len(shown))
	}
}

func TestACallRefusedForAGoodReasonIsNotRepeated(t *testing.T) {
	path := authtest.Write(t, filepath.Join(t.TempDir(), "token"), []byte(tokenA))
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, "because")
	}))
	defer server.Close()
	resp, err := newTestClient(t, Credentials{TokenFile: path}).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	why, _ := io.ReadAll(resp.Body)
	if calls != 1 || string(why) != "because" {
		t.Errorf("%d calls, answer %q; want one, with its reason", calls, why)
	}
}

func TestCredentialsAreNotShownWhereARedirectLeads(t *testing.T) {
	path := authtest.Write(t, filepath.Join(t.TempDir(), "token"), []byte(tokenA))
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the redirect was followed")
	}))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	resp, err := newTestClient(t, Credentials{TokenFile: path}).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusTemporaryRedirect {
		t.Errorf("answered %d, want the redirect itself", resp.StatusCode)
	}
}

func TestWithoutAUsableTokenNothingIsCalled(t *testing.T) {
	path := authtest.Write(t, filepath.Join(t.TempDir(), "token"), []byte(tokenA))
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("called") }))
	defer server.Close()
	c := newTestClient(t, Credentials{TokenFile: path})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	body := &closed{Reader: strings.NewReader("a body")}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, server.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err == nil {
		resp.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), path) || !body.is.Load() {
		t.Errorf("%v, body closed %t; want that the file is named and the body closed", err, body.is.Load())
	}
}

type closed struct {
	io.Reader
	is atomic.Bool
}

func (c *closed) Close() error {
	c.is.Store(true)
	return nil
}

func newTestClient(t *testing.T, c Credentials) *http.Client {
	t.Helper()
	h, err := NewClient(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.CloseIdleConnections)
	return h
}
