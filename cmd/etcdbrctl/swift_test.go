package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ncw/swift/v2/swifttest"
)

// swiftServer is swifttest with a container that was filled as the original fills one: each
// snapshot in segments beside it, and an empty manifest that names itself as their prefix.
type swiftServer struct {
	t     *testing.T
	inner *swifttest.SwiftServer
	token string
	env   map[string]string
}

const swiftContainer = "backups"

func newSwiftServer(t *testing.T) *swiftServer {
	t.Helper()
	inner, err := swifttest.NewSwiftServer("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(inner.Close)
	s := &swiftServer{t: t, inner: inner}
	answer, _ := s.ask(http.MethodGet, inner.AuthURL, http.Header{"X-Auth-User": {"swifttest"}, "X-Auth-Key": {"swifttest"}}, nil)
	s.token = answer.Get("X-Auth-Token")
	s.put("", nil, nil)
	dir := t.TempDir()
	for name, value := range map[string]string{"authURL": inner.AuthURL, "username": "swifttest", "password": "swifttest"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.env = map[string]string{"OPENSTACK_APPLICATION_CREDENTIALS": dir}
	return s
}

func (s *swiftServer) ask(method, url string, header http.Header, body []byte) (http.Header, []byte) {
	s.t.Helper()
	req, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if s.token != "" {
		req.Header.Set("X-Auth-Token", s.token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		s.t.Fatalf("%s %s: %s %v", method, url, resp.Status, err)
	}
	return resp.Header, b
}

func (s *swiftServer) put(name string, body []byte, header http.Header) {
	s.t.Helper()
	url := s.inner.URL + "/AUTH_swifttest/" + swiftContainer
	if name != "" {
		url += "/" + name
	}
	s.ask(http.MethodPut, url, header, body)
}

// names are all objects, segments too.
func (s *swiftServer) names() []string {
	s.t.Helper()
	_, b := s.ask(http.MethodGet, s.inner.URL+"/AUTH_swifttest/"+swiftContainer, nil, nil)
	return strings.Fields(string(b))
}

// fill uploads a fixture as the original does.
func (s *swiftServer) fill(fixture string, segment int) (keys []string) {
	s.t.Helper()
	root := filepath.Join("..", "..", "testdata", fixture, "ns--uid")
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		below, err := filepath.Rel(filepath.Dir(root), path)
		if err != nil {
			return err
		}
		key := filepath.ToSlash(below)
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for n, piece := range slices.Collect(slices.Chunk(content, segment)) {
			s.put(fmt.Sprintf("%s/%010d", key, n+1), piece, nil)
		}
		s.put(key, nil, http.Header{"X-Object-Manifest": {swiftContainer + "/" + key}})
		keys = append(keys, key)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return keys
}

// run runs the program with the server's credentials.
func (s *swiftServer) run(args ...string) (code int, stdout, stderr string) {
	var out, errOut bytes.Buffer
	args = append(args, "--storage-provider=openstack", "--store-container="+swiftContainer, "--store-prefix=ns--uid/etcd-main")
	code = run(context.Background(), args, system{out: &out, err: &errOut, getenv: func(name string) string { return s.env[name] }})
	return code, out.String(), errOut.String()
}

func TestABucketOfTheOriginalInSwiftIsListedRestoredAndCollected(t *testing.T) {
	const fixture = "upstream-bucket-gzip"
	s := newSwiftServer(t)
	keys := s.fill(fixture, 4096)
	if len(s.names()) < 3*len(keys) {
		t.Fatalf("the fixture is too small to be in segments: %q", s.names())
	}

	code, stdout, stderr := s.run("list", "-o", "json")
	if code != exitOK {
		t.Fatalf("list: exit code %d:\n%s", code, stderr)
	}
	for _, key := range keys {
		info, err := os.Stat(filepath.Join("..", "..", "testdata", fixture, filepath.FromSlash(key)))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(stdout, `"key": "`+key); n != 1 {
			t.Errorf("%s is listed %d times", key, n)
		}
		if !strings.Contains(stdout, fmt.Sprintf(`"size": %d,`, info.Size())) {
			t.Errorf("the size of %s, %d, is not listed in\n%s", key, info.Size(), stdout)
		}
	}

	dir := filepath.Join(t.TempDir(), "data")
	code, stdout, stderr = s.run("restore", "--data-dir="+dir, "--name=default", "--initial-cluster=default=http://127.0.0.1:2380",
		"--initial-advertise-peer-urls=http://127.0.0.1:2380", "-o", "json")
	if code != exitOK {
		t.Fatalf("restore: exit code %d:\n%s", code, stderr)
	}
	var result restoreView
	if err := json.Unmarshal([]byte(stdout), &result); err != nil {
		t.Fatal(err)
	}
	want := readExpected(t, filepath.Join("..", "..", "testdata", fixture))
	sortKeys(want.KVs)
	if diff := cmp.Diff(want.KVs, liveKeys(t, dir)); diff != "" || int64(result.Revision) != want.Revision {
		t.Errorf("revision %d, want %d; key space (-want +got):\n%s", result.Revision, want.Revision, diff)
	}

	// An older full, which a policy lets go, and the rest of an upload that never ended.
	const old, torn = "ns--uid/etcd-main/v2/Full-00000000-00000100-1700000000", "ns--uid/etcd-main/v2/Full-00000000-00000090-1690000000"
	s.put(old+"/0000000001", []byte("one"), nil)
	s.put(old+"/0000000002", []byte("two"), nil)
	s.put(old, nil, http.Header{"X-Object-Manifest": {swiftContainer + "/" + old}})
	s.put(torn+"/0000000001", []byte("one"), nil)
	code, stdout, stderr = s.run("collect", "--garbage-collection-policy=LimitBased", "--max-backups=1", "--yes")
	if !strings.Contains(stderr, "locks that were not told yet are looked at right before each deletion") {
		t.Errorf("beside the plan is not told what it does not know: %s", stderr)
	}
	if code != exitOK {
		t.Fatalf("collect: exit code %d:\n%s", code, stderr)
	}
	left := strings.Join(s.names(), "\n")
	if strings.Contains(left, old) {
		t.Errorf("of %s remains:\n%s\nafter\n%s", old, left, stdout)
	}
	if !strings.Contains(left, torn+"/0000000001") {
		t.Errorf("an upload that began a moment ago was collected:\n%s", stdout)
	}
	for _, key := range keys {
		if !strings.Contains(left, key+"\n") || !strings.Contains(left, key+"/0000000001") {
			t.Errorf("%s was collected", key)
		}
	}
}
