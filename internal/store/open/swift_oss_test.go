package open_test

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/open"
)

// service answers in the place of Keystone with Swift, and of OSS: just enough to be opened.
type service struct {
	*httptest.Server
	ca string

	mu    sync.Mutex
	asked []string // who: the user or the access key, in the order of the requests
	last  *http.Request
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	s.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	return s
}

func (s *service) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = r
	switch {
	case r.URL.Path == "/v3/auth/tokens":
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		who := "nobody"
		for _, name := range []string{"me", "rotated", "app-id"} {
			if strings.Contains(string(b), `"`+name+`"`) {
				who = name
			}
		}
		s.asked = append(s.asked, who)
		w.Header().Set("X-Subject-Token", who)
		w.WriteHeader(http.StatusCreated)
		endpoint := func(region string) map[string]string {
			return map[string]string{"interface": "public", "region": region, "url": s.URL + "/v1/" + region}
		}
		json.NewEncoder(w).Encode(map[string]any{"token": map[string]any{"expires_at": "2099-01-01T00:00:00Z",
			"catalog": []any{map[string]any{"type": "object-store", "endpoints": []any{endpoint("north"), endpoint("south")}}}}})
	case strings.Contains(r.URL.Path, "/v1"):
		if r.Method == http.MethodGet {
			io.WriteString(w, "[]")
		}
	case r.URL.Query().Has("versioning"):
		_, id, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		id, _, _ = strings.Cut(id, "/")
		s.asked = append(s.asked, id)
		io.WriteString(w, "<VersioningConfiguration/>")
	case r.URL.Query().Has("worm"):
		_, id, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		id, _, _ = strings.Cut(id, "/")
		s.asked = append(s.asked, id)
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, "<Error><Code>NoSuchWORMConfiguration</Code></Error>")
	default:
		io.WriteString(w, "<ListVersionsResult/>")
	}
}

// who was the last to ask, and where.
func (s *service) who() (name, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) == 0 {
		return "", ""
	}
	return s.asked[len(s.asked)-1], s.last.URL.Path
}

func (s *service) swift(changes ...string) map[string]string {
	return changed(map[string]string{"authURL": s.URL + "/v3", "domainName": "d", "tenantName": "p", "username": "me", "password": secret + "\n", "trustedCaCert": s.ca}, changes)
}

func (s *service) oss(changes ...string) map[string]string {
	return changed(map[string]string{"storageEndpoint": s.URL, "region": "eu-central-1", "accessKeyID": "AKID", "accessKeySecret": secret + "\n", "trustedCaCert": s.ca}, changes)
}

// changed sets fields by name and value; an empty value removes one.
func changed(files map[string]string, changes []string) map[string]string {
	for i := 0; i < len(changes); i += 2 {
		if files[changes[i]] = changes[i+1]; changes[i+1] == "" {
			delete(files, changes[i])
		}
	}
	return files
}

func inJSON(t *testing.T, files map[string]string) string {
	t.Helper()
	all := map[string]any{}
	for k, v := range files {
		all[k] = v
	}
	return filepath.Join(directory(t, map[string]string{"c.json": asJSON(t, all)}), "c.json")
}

func TestEachFormOfCredentialsOpensSwiftAndOSS(t *testing.T) {
	srv := newService(t)
	application := srv.swift("username", "", "password", "", "applicationCredentialID", "app-id", "applicationCredentialName", "n", "applicationCredentialSecret", secret)
	cases := map[string]struct {
		provider, prefix string
		vars             map[string]string
		want, who, path  string
	}{
		"Swift, a directory":              {"Swift", "", map[string]string{"OPENSTACK_APPLICATION_CREDENTIALS": directory(t, srv.swift())}, "Swift", "me", "/v1/north/bucket"},
		"Swift, a JSON file":              {"openstack", "", map[string]string{"OPENSTACK_APPLICATION_CREDENTIALS_JSON": inJSON(t, srv.swift())}, "Swift", "me", "/v1/north/bucket"},
		"Swift, a directory with JSON":    {"swift", "", map[string]string{"OPENSTACK_APPLICATION_CREDENTIALS": filepath.Dir(inJSON(t, srv.swift()))}, "Swift", "me", "/v1/north/bucket"},
		"Swift, an application":           {"swift", "", map[string]string{"OPENSTACK_APPLICATION_CREDENTIALS": directory(t, application)}, "Swift", "app-id", "/v1/north/bucket"},
		"Swift, the source of a copy":     {"swift", open.SourcePrefix, map[string]string{"SOURCE_OPENSTACK_APPLICATION_CREDENTIALS": directory(t, srv.swift())}, "Swift", "me", "/v1/north/bucket"},
		"Swift, the second store":         {"swift", open.SecondaryPrefix, map[string]string{"SECONDARY_OPENSTACK_APPLICATION_CREDENTIALS": directory(t, srv.swift())}, "Swift", "me", "/v1/north/bucket"},
		"Swift, the region of a field":    {"swift", "", map[string]string{"OPENSTACK_APPLICATION_CREDENTIALS": directory(t, srv.swift("region", "south"))}, "Swift", "me", "/v1/south/bucket"},
		"Swift, the environment's region": {"swift", "", map[string]string{"OPENSTACK_APPLICATION_CREDENTIALS": directory(t, srv.swift("region", "north")), "OS_REGION_NAME": "south"}, "Swift", "me", "/v1/south/bucket"},
		"Swift, a source's own region":    {"swift", open.SourcePrefix, map[string]string{"SOURCE_OPENSTACK_APPLICATION_CREDENTIALS": directory(t, srv.swift()), "OS_REGION_NAME": "north", "SOURCE_OS_REGION_NAME": "south"}, "Swift", "me", "/v1/south/bucket"},
		"Swift, a source's field first":   {"swift", open.SourcePrefix, map[string]string{"SOURCE_OPENSTACK_APPLICATION_CREDENTIALS": directory(t, srv.swift("region", "south")), "OS_REGION_NAME": "north"}, "Swift", "me", "/v1/south/bucket"},
		"OSS, a directory":                {"OSS", "", map[string]string{"ALICLOUD_APPLICATION_CREDENTIALS": directory(t, srv.oss())}, "OSS", "AKID", "/bucket/"},
		"OSS, a JSON file":                {"alicloud", "", map[string]string{"ALICLOUD_APPLICATION_CREDENTIALS_JSON": inJSON(t, srv.oss())}, "OSS", "AKID", "/bucket/"},
		"OSS, a directory with JSON":      {"oss", "", map[string]string{"ALICLOUD_APPLICATION_CREDENTIALS": filepath.Dir(inJSON(t, srv.oss()))}, "OSS", "AKID", "/bucket/"},
		"OSS, the source of a copy":       {"oss", open.SourcePrefix, map[string]string{"SOURCE_ALICLOUD_APPLICATION_CREDENTIALS": directory(t, srv.oss())}, "OSS", "AKID", "/bucket/"},
		"OSS, the second store":           {"oss", open.SecondaryPrefix, map[string]string{"SECONDARY_ALICLOUD_APPLICATION_CREDENTIALS_JSON": inJSON(t, srv.oss())}, "OSS", "AKID", "/bucket/"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.vars[c.prefix+"STORAGE_CONTAINER"] = "bucket"
			s, err := open.Open(t.Context(), open.Config{Provider: c.provider, Environment: environment(c.prefix, c.vars)})
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Capabilities(); got.Provider != c.want {
				t.Errorf("capabilities = %+v", got)
			}
			if who, path := srv.who(); who != c.who || path != c.path {
				t.Errorf("%q asked for %s, want %q and %s", who, path, c.who, c.path)
			}
		})
	}
}

func TestTheEndpointOverrideReplacesTheCatalogAndTheStorageEndpoint(t *testing.T) {
	srv := newService(t)
	cases := map[string]struct {
		provider, override, path string
		vars                     map[string]string
	}{
		"Swift":                          {"swift", srv.URL + "/v1/elsewhere", "/v1/elsewhere/bucket", map[string]string{"OPENSTACK_APPLICATION_CREDENTIALS": directory(t, srv.swift())}},
		"OSS":                            {"oss", srv.URL, "/bucket/", map[string]string{"ALICLOUD_APPLICATION_CREDENTIALS": directory(t, srv.oss("storageEndpoint", "https://127.0.0.1:1"))}},
		"OSS, without a storageEndpoint": {"oss", srv.URL, "/bucket/", map[string]string{"ALICLOUD_APPLICATION_CREDENTIALS": directory(t, srv.oss("storageEndpoint", ""))}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := open.Open(t.Context(), open.Config{Provider: c.provider, Container: "bucket", EndpointOverride: c.override, Environment: environment("", c.vars)}); err != nil {
				t.Fatal(err)
			}
			if _, path := srv.who(); path != c.path {
				t.Errorf("asked for %s, want %s", path, c.path)
			}
		})
	}
}

func TestEachMistakeAboutSwiftAndOSSIsOneLineThatNamesIt(t *testing.T) {
	srv := newService(t)
	swift := func(changes ...string) map[string]string {
		return map[string]string{"OPENSTACK_APPLICATION_CREDENTIALS": directory(t, srv.swift(changes...)), "STORAGE_CONTAINER": "bucket"}
	}
	oss := func(changes ...string) map[string]string {
		return map[string]string{"ALICLOUD_APPLICATION_CREDENTIALS": directory(t, srv.oss(changes...)), "STORAGE_CONTAINER": "bucket"}
	}
	cases := map[string]struct {
		provider string
		vars     map[string]string
		want     string
	}{
		"Swift without credentials":         {"Swift", map[string]string{"STORAGE_CONTAINER": "bucket"}, "OPENSTACK_APPLICATION_CREDENTIALS"},
		"Swift without a container":         {"Swift", map[string]string{"OPENSTACK_APPLICATION_CREDENTIALS": directory(t, srv.swift())}, "--store-container"},
		"Swift without authURL":             {"Swift", swift("authURL", ""), "lack authURL"},
		"Swift without several fields":      {"Swift", swift("domainName", "", "tenantName", ""), "lack domainName, tenantName"},
		"Swift without a password":          {"Swift", swift("password", ""), "lack password"},
		"Swift with two identities":         {"Swift", swift("applicationCredentialID", "x"), "leave one"},
		"an application without its secret": {"Swift", swift("username", "", "password", "", "applicationCredentialID", "x"), "lack applicationCredentialSecret"},
		"an application by its name alone":  {"Swift", swift("username", "", "password", "", "applicationCredentialName", "x", "applicationCredentialSecret", secret), "lack username"},
		"v1 without a password":             {"Swift", swift("authURL", srv.URL+"/auth/1.0", "domainName", "", "tenantName", "", "password", ""), "lack password"},
		"Swift with a boolean that is none": {"Swift", swift("insecureSkipVerify", secret), "insecureSkipVerify must be"},
		"Swift with a condition of no use":  {"Swift", swift("conditionalPut", "perhaps"), "conditionalPut must be"},
		"Swift with an authURL that is no":  {"Swift", swift("authURL", "ftp://x"), "authURL"},
		"Swift with a region that is not":   {"Swift", swift("region", "west"), "region west"},
		"Swift at a place nobody serves":    {"Swift", swift("authURL", "https://127.0.0.1:1/v3"), "127.0.0.1:1"},
		"Swift behind an unknown authority": {"Swift", swift("trustedCaCert", ""), "trustedCaCert"},
		"Swift with malformed JSON":         {"Swift", map[string]string{"OPENSTACK_APPLICATION_CREDENTIALS_JSON": filepath.Join(directory(t, map[string]string{"x": `{"password":"` + secret + `"`}), "x")}, "not valid JSON"},
		"OSS without credentials":           {"OSS", map[string]string{"STORAGE_CONTAINER": "bucket"}, "ALICLOUD_APPLICATION_CREDENTIALS"},
		"OSS without a container":           {"OSS", map[string]string{"ALICLOUD_APPLICATION_CREDENTIALS": directory(t, srv.oss())}, "--store-container"},
		"OSS with no name of a bucket":      {"OSS", map[string]string{"ALICLOUD_APPLICATION_CREDENTIALS": directory(t, srv.oss()), "STORAGE_CONTAINER": "Under_Score"}, "63 lower-case"},
		"OSS without an endpoint":           {"OSS", oss("storageEndpoint", ""), "lack storageEndpoint"},
		"OSS without a key":                 {"OSS", oss("accessKeyID", "", "accessKeySecret", ""), "lack accessKeyID, accessKeySecret"},
		"OSS with an endpoint that is no":   {"OSS", oss("storageEndpoint", "ftp://x"), "endpoint"},
		"OSS with a path in the endpoint":   {"OSS", oss("storageEndpoint", srv.URL+"/x"), "endpoint"},
		"OSS at a place nobody serves":      {"OSS", oss("storageEndpoint", "https://127.0.0.1:1"), "https://127.0.0.1:1"},
		"OSS behind an unknown authority":   {"OSS", oss("trustedCaCert", ""), "trustedCaCert"},
		"OSS with no certificate":           {"OSS", oss("trustedCaCert", "x"), "trustedCaCert"},
		"OSS with a boolean that is none":   {"OSS", oss("insecureSkipVerify", secret), "insecureSkipVerify must be"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := open.Open(t.Context(), open.Config{Provider: c.provider, Environment: environment("", c.vars)})
			if err == nil {
				t.Fatal("it was accepted")
			}
			if msg := err.Error(); !strings.Contains(msg, c.want) || strings.Contains(msg, secret) || strings.Contains(msg, "\n") {
				t.Errorf("%q, want one line with %q and no secret", msg, c.want)
			}
		})
	}
}

func TestReplacedCredentialsOfSwiftAndOSSAreUsedFromTheNextRequestOn(t *testing.T) {
	srv := newService(t)
	cases := map[string]struct {
		provider, variable, first, second string
		files                             func(id string) map[string]string
	}{
		"Swift": {"swift", "OPENSTACK_APPLICATION_CREDENTIALS", "me", "rotated", func(id string) map[string]string { return srv.swift("username", id) }},
		"OSS":   {"oss", "ALICLOUD_APPLICATION_CREDENTIALS", "AKID1", "AKID2", func(id string) map[string]string { return srv.oss("accessKeyID", id) }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			mount := t.TempDir()
			point := func(id string) {
				t.Helper()
				tmp := filepath.Join(mount, "..tmp")
				if err := errors.Join(os.Symlink(directory(t, c.files(id)), tmp), os.Rename(tmp, filepath.Join(mount, "..data"))); err != nil {
					t.Fatal(err)
				}
			}
			point(c.first)
			for f := range c.files(c.first) {
				if err := os.Symlink(filepath.Join("..data", f), filepath.Join(mount, f)); err != nil {
					t.Fatal(err)
				}
			}
			s, err := open.Open(t.Context(), open.Config{Provider: c.provider, Container: "bucket", Environment: environment("", map[string]string{c.variable: mount})})
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{c.first, c.second} {
				point(want)
				if err := s.List(t.Context(), "", func(store.Object) error { return nil }); err != nil {
					t.Fatal(err)
				}
				if who, _ := srv.who(); who != want {
					t.Errorf("%q asked, want %q", who, want)
				}
			}
		})
	}
}
