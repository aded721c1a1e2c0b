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

const secret = "hunter2-do-not-print"

// server answers like an S3 bucket without versions and remembers who asked.
type server struct {
	*httptest.Server
	ca string

	mu   sync.Mutex
	last *http.Request
	of   map[string]*http.Request // the last of each method
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.last = r
		if s.of == nil {
			s.of = map[string]*http.Request{}
		}
		s.of[r.Method] = r
		s.mu.Unlock()
		switch {
		case r.URL.Query().Has("versioning"):
			io.WriteString(w, "<VersioningConfiguration/>")
		case r.URL.Query().Has("versions"):
			io.WriteString(w, "<ListVersionsResult/>")
		default:
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, "<Error><Code>ObjectLockConfigurationNotFoundError</Code></Error>")
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	s.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	return s
}

// request is the last one of a method.
func (s *server) request(method string) *http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.of[method]; r != nil {
		return r
	}
	return &http.Request{}
}

// signer is the access key of the last request.
func (s *server) signer() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return ""
	}
	_, rest, _ := strings.Cut(s.last.Header.Get("Authorization"), "Credential=")
	id, _, _ := strings.Cut(rest, "/")
	return id
}

func directory(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func asJSON(t *testing.T, fields map[string]any) string {
	t.Helper()
	b, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func environment(prefix string, vars map[string]string) open.Environment {
	return open.FromEnvironment(func(name string) string { return vars[name] }, prefix)
}

func TestEachFormOfCredentialsOpensTheStore(t *testing.T) {
	srv := newServer(t)
	hostOnly := strings.TrimPrefix(srv.URL, "https://")
	fields := map[string]string{
		"accessKeyID": "AKID\n", "secretAccessKey": secret + "\n", "region": "eu-central-1", "bucketName": "ignored",
		"endpoint": srv.URL, "trustedCaCert": srv.ca, "..data": "", "requestChecksumCalculation": "WHEN_REQUIRED",
	}
	inJSON := map[string]any{
		"accessKeyID": "AKID", "secretAccessKey": secret, "region": "eu-central-1", "endpoint": srv.URL,
		"insecureSkipVerify": true, "s3ForcePathStyle": "true", "unknown": nil,
	}
	dir := directory(t, fields)
	file := filepath.Join(directory(t, map[string]string{"c.json": asJSON(t, inJSON)}), "c.json")
	cases := map[string]struct {
		provider, prefix string
		vars             map[string]string
		want             string
	}{
		"S3, a directory":            {"S3", "", map[string]string{"AWS_APPLICATION_CREDENTIALS": dir}, "S3"},
		"S3, a JSON file":            {"aws", "", map[string]string{"AWS_APPLICATION_CREDENTIALS_JSON": file}, "S3"},
		"S3, a directory with JSON":  {"stackit", "", map[string]string{"AWS_APPLICATION_CREDENTIALS": filepath.Dir(file)}, "S3"},
		"S3, the source of a copy":   {"s3", open.SourcePrefix, map[string]string{"SOURCE_AWS_APPLICATION_CREDENTIALS": dir}, "S3"},
		"S3, the second store":       {"s3", open.SecondaryPrefix, map[string]string{"SECONDARY_AWS_APPLICATION_CREDENTIALS_JSON": file}, "S3"},
		"OCS, a directory":           {"openshift", "", map[string]string{"OPENSHIFT_APPLICATION_CREDENTIALS": dir}, "OCS"},
		"ECS, the environment":       {"dell", "", map[string]string{"ECS_ENDPOINT": hostOnly, "ECS_ACCESS_KEY_ID": "AKID", "ECS_SECRET_ACCESS_KEY": secret, "ECS_INSECURE_SKIP_VERIFY": "true"}, "ECS"},
		"ECS as the source, shared":  {"ECS", open.SourcePrefix, map[string]string{"ECS_ENDPOINT": srv.URL, "ECS_ACCESS_KEY_ID": "AKID", "ECS_SECRET_ACCESS_KEY": secret, "ECS_TRUSTED_CA_CERT": srv.ca}, "ECS"},
		"ECS as the source, its own": {"ECS", open.SourcePrefix, map[string]string{"SOURCE_ECS_ENDPOINT": srv.URL, "SOURCE_ECS_ACCESS_KEY_ID": "AKID", "SOURCE_ECS_SECRET_ACCESS_KEY": secret, "SOURCE_ECS_INSECURE_SKIP_VERIFY": "TRUE"}, "ECS"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.vars[c.prefix+"STORAGE_CONTAINER"] = "from-the-environment"
			s, err := open.Open(t.Context(), open.Config{Provider: c.provider, Environment: environment(c.prefix, c.vars)})
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Capabilities(); got.Provider != c.want || !strings.Contains(got.Location, "from-the-environment") {
				t.Errorf("capabilities = %+v", got)
			}
			if srv.signer() != "AKID" {
				t.Errorf("the server was asked by %q", srv.signer())
			}
		})
	}
}

// Each provider of the S3 protocol takes each setting, in every form that its credentials have.
func TestEverySettingOfS3CountsForEveryProvider(t *testing.T) {
	srv := newServer(t)
	settings := map[string]string{
		"accessKeyID": "AKID", "secretAccessKey": secret, "sessionToken": "TOKEN", "region": "eu-central-1", "endpoint": srv.URL, "trustedCaCert": srv.ca,
		"sseCustomerKey": "0123456789abcdef0123456789abcdef", "sseCustomerAlgorithm": "AES256",
		"requestChecksumCalculation": "when_required", "responseChecksumValidation": "when_required", "conditionalPut": "false",
	}
	inJSON := map[string]any{}
	for k, v := range settings {
		inJSON[k] = v
	}
	dir := directory(t, settings)
	file := filepath.Join(directory(t, map[string]string{"c": asJSON(t, inJSON)}), "c")
	forms := map[string]map[string]string{
		"S3": {"AWS_APPLICATION_CREDENTIALS": dir}, "aws": {"AWS_APPLICATION_CREDENTIALS_JSON": file}, "stackit": {"AWS_APPLICATION_CREDENTIALS": dir},
		"OCS": {"OPENSHIFT_APPLICATION_CREDENTIALS": dir}, "openshift": {"OPENSHIFT_APPLICATION_CREDENTIALS_JSON": file},
		"ECS": {"ECS_APPLICATION_CREDENTIALS": dir}, "ecs": {"ECS_APPLICATION_CREDENTIALS_JSON": file},
		"dell": {
			"ECS_ACCESS_KEY_ID": "AKID", "ECS_SECRET_ACCESS_KEY": secret, "ECS_SESSION_TOKEN": "TOKEN", "ECS_REGION": "eu-central-1", "ECS_ENDPOINT": srv.URL, "ECS_TRUSTED_CA_CERT": srv.ca,
			"ECS_SSE_CUSTOMER_KEY": settings["sseCustomerKey"], "ECS_SSE_CUSTOMER_ALGORITHM": "AES256",
			"ECS_REQUEST_CHECKSUM_CALCULATION": "when_required", "ECS_RESPONSE_CHECKSUM_VALIDATION": "when_required", "ECS_CONDITIONAL_PUT": "false",
		},
	}
	for provider, vars := range forms {
		t.Run(provider, func(t *testing.T) {
			s, err := open.Open(t.Context(), open.Config{Provider: provider, Container: "c", Environment: environment("", vars)})
			if err != nil {
				t.Fatal(err)
			}
			_, _ = s.Put(t.Context(), "key", strings.NewReader("body"), store.PutOptions{}) // the server keeps nothing
			h := srv.request("PUT").Header
			want := map[string]bool{"Content-Md5": true, "X-Amz-Server-Side-Encryption-Customer-Key": true, "X-Amz-Security-Token": true, "X-Amz-Checksum-Crc32": false, "If-None-Match": false}
			for name, sent := range want {
				if got := h.Get(name) != ""; got != sent {
					t.Errorf("%s is sent: %t, want %t", name, got, sent)
				}
			}
		})
	}
}

// The configuration goes before the credentials, and these before the environment.
func TestEncryptionIsRequestedByTheFirstThatSetsIt(t *testing.T) {
	srv := newServer(t)
	credentials := func(more ...string) map[string]string {
		f := map[string]string{"accessKeyID": "AKID", "secretAccessKey": secret, "region": "r", "endpoint": srv.URL, "trustedCaCert": srv.ca}
		for i := 0; i < len(more); i += 2 {
			f[more[i]] = more[i+1]
		}
		return f
	}
	cases := map[string]struct {
		config open.Encryption
		fields map[string]string
		vars   map[string]string
		want   string
	}{
		"nobody":          {open.Encryption{}, credentials(), nil, " "},
		"the flags":       {open.Encryption{Algorithm: "AES256"}, credentials("serverSideEncryption", "aws:kms", "kmsKeyID", "k"), nil, "AES256 "},
		"the credentials": {open.Encryption{}, credentials("serverSideEncryption", "aws:kms", "kmsKeyID", "k"), map[string]string{"STORAGE_SERVER_SIDE_ENCRYPTION": "AES256"}, "aws:kms k"},
		"the environment": {open.Encryption{}, credentials(), map[string]string{"STORAGE_SERVER_SIDE_ENCRYPTION": "aws:kms", "STORAGE_KMS_KEY_ID": "e"}, "aws:kms e"},
	}
	for name, c := range cases {
		vars := map[string]string{"AWS_APPLICATION_CREDENTIALS": directory(t, c.fields)}
		for k, v := range c.vars {
			vars[k] = v
		}
		s, err := open.Open(t.Context(), open.Config{Provider: "S3", Container: "c", Encryption: c.config, Environment: environment("", vars)})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = s.Put(t.Context(), "key", strings.NewReader("body"), store.PutOptions{}) // the server keeps nothing
		h := srv.request("PUT").Header
		if got := h.Get("X-Amz-Server-Side-Encryption") + " " + h.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"); got != c.want {
			t.Errorf("%s: %q is requested, want %q", name, got, c.want)
		}
	}
	for _, provider := range []string{"Local", "GCS", "ABS", "Swift", "OSS"} {
		_, err := open.Open(t.Context(), open.Config{Provider: provider, Container: t.TempDir(), Encryption: open.Encryption{Algorithm: "AES256"}})
		if err == nil || !strings.Contains(err.Error(), "serverSideEncryption") {
			t.Errorf("%s: %v, want an error that names the setting", provider, err)
		}
	}
}

func TestTheEndpointOverrideGoesBeforeTheCredentials(t *testing.T) {
	srv := newServer(t)
	dir := directory(t, map[string]string{"accessKeyID": "AKID", "secretAccessKey": secret, "region": "r", "endpoint": "https://127.0.0.1:1", "trustedCaCert": srv.ca})
	s, err := open.Open(t.Context(), open.Config{Provider: "S3", Container: "c", EndpointOverride: srv.URL, Environment: environment("", map[string]string{"AWS_APPLICATION_CREDENTIALS": dir})})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Capabilities().Location; !strings.Contains(got, srv.URL) {
		t.Errorf("location = %s, want %s", got, srv.URL)
	}
}

func TestEachMistakeIsOneLineThatNamesItAndShowsNoSecret(t *testing.T) {
	srv := newServer(t)
	whole := map[string]string{"accessKeyID": "AKID", "secretAccessKey": secret, "region": "r", "endpoint": srv.URL, "trustedCaCert": srv.ca}
	with := func(changes ...string) map[string]string {
		files := map[string]string{}
		for k, v := range whole {
			files[k] = v
		}
		for i := 0; i < len(changes); i += 2 {
			files[changes[i]] = changes[i+1]
		}
		return files
	}
	fromDir := func(files map[string]string) map[string]string {
		return map[string]string{"AWS_APPLICATION_CREDENTIALS": directory(t, files), "STORAGE_CONTAINER": "c"}
	}
	fromJSON := func(text string) map[string]string {
		return map[string]string{"AWS_APPLICATION_CREDENTIALS_JSON": filepath.Join(directory(t, map[string]string{"x": text}), "x"), "STORAGE_CONTAINER": "c"}
	}
	cases := map[string]struct {
		provider string
		vars     map[string]string
		want     string
	}{
		"no provider":                  {"", nil, "--storage-provider"},
		"an unknown provider":          {"floppy", nil, "S3, ECS, OCS, Local"},
		"no container":                 {"S3", map[string]string{"AWS_APPLICATION_CREDENTIALS": directory(t, whole)}, "--store-container"},
		"a missing field":              {"S3", fromDir(with("secretAccessKey", "")), "lack secretAccessKey"},
		"several missing fields":       {"S3", fromDir(map[string]string{"region": "r"}), "lack accessKeyID, secretAccessKey"},
		"no region":                    {"S3", fromDir(with("region", " ")), "lack region"},
		"a directory that is not":      {"S3", map[string]string{"AWS_APPLICATION_CREDENTIALS": "/nonexistent/dir"}, "does not exist"},
		"a file that is not":           {"S3", map[string]string{"AWS_APPLICATION_CREDENTIALS_JSON": "/nonexistent/file"}, "does not exist"},
		"two JSON files":               {"S3", fromDir(map[string]string{"a.json": "{}", "b.json": "{}"}), "leave one"},
		"malformed JSON":               {"S3", fromJSON(`{"secretAccessKey":"` + secret + `",}`), "not valid JSON"},
		"JSON that is a list":          {"S3", fromJSON(`["` + secret + `"]`), "not an object"},
		"a field that is a number":     {"S3", fromJSON(`{"secretAccessKey":"` + secret + `","region":5}`), `"region"`},
		"a role and a key":             {"S3", fromDir(with("roleARN", "arn:x", "token", "t")), "leave one"},
		"a role without a token":       {"S3", fromDir(map[string]string{"roleARN": "arn:x", "region": "r"}), "lack token"},
		"an inline token in JSON":      {"S3", fromJSON(`{"roleARN":"a","region":"r","token":"` + secret + `"}`), "absolute path"},
		"a boolean that is none":       {"S3", fromDir(with("insecureSkipVerify", secret)), "insecureSkipVerify must be true or false"},
		"a checksum setting of no use": {"S3", fromDir(with("requestChecksumCalculation", "never")), "when_supported or when_required"},
		"conditionalPut of no sense":   {"S3", fromDir(with("conditionalPut", "perhaps")), "conditionalPut must be"},
		"an algorithm without a key":   {"S3", fromDir(with("sseCustomerAlgorithm", "AES256")), "without sseCustomerKey"},
		"a customer key of no length":  {"S3", fromDir(with("sseCustomerKey", secret)), "32 bytes"},
		"a certificate that is none":   {"S3", fromDir(with("trustedCaCert", "nothing")), "trustedCaCert"},
		"a CA that is not trusted":     {"S3", fromDir(with("trustedCaCert", "")), "trustedCaCert"},
		"an endpoint nobody serves":    {"S3", fromDir(with("endpoint", "http://127.0.0.1:1")), "http://127.0.0.1:1"},
		"OCS without credentials":      {"OCS", map[string]string{"STORAGE_CONTAINER": "c"}, "OPENSHIFT_APPLICATION_CREDENTIALS"},
		"OCS without an endpoint":      {"OCS", map[string]string{"OPENSHIFT_APPLICATION_CREDENTIALS": directory(t, with("endpoint", "")), "STORAGE_CONTAINER": "c"}, "lack endpoint"},
		"ECS without anything":         {"ECS", nil, "ECS_ENDPOINT, ECS_ACCESS_KEY_ID, ECS_SECRET_ACCESS_KEY"},
		"ECS without its secret":       {"ECS", map[string]string{"ECS_ENDPOINT": "e", "ECS_ACCESS_KEY_ID": secret}, "lacks ECS_SECRET_ACCESS_KEY"},
		"Local without a home":         {"Local", map[string]string{"STORAGE_CONTAINER": "relative"}, "HOME"},
		"Local out of the home":        {"Local", map[string]string{"STORAGE_CONTAINER": "../x", "HOME": "/home/x"}, "absolute directory"},
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

func TestLocalContainersAreAbsoluteOrBelowTheHome(t *testing.T) {
	home := t.TempDir()
	abs := filepath.Join(t.TempDir(), "abs")
	for container, want := range map[string]string{"": filepath.Join(home, "default.bkp"), "mine": filepath.Join(home, "mine"), abs: abs} {
		s, err := open.Open(t.Context(), open.Config{Provider: "local", Container: container, Environment: environment("", map[string]string{"HOME": home})})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Capabilities().Location; got != want {
			t.Errorf("container %q is at %s, want %s", container, got, want)
		}
	}
}

// A Secret in Kubernetes is a directory of links to ..data, a link that is switched.
func TestAReplacedAccessKeyIsUsedFromTheNextRequestOn(t *testing.T) {
	srv := newServer(t)
	forms := map[string]func(t *testing.T, id string) map[string]string{
		"a directory": func(t *testing.T, id string) map[string]string {
			return map[string]string{"accessKeyID": id, "secretAccessKey": secret, "region": "r", "endpoint": srv.URL, "trustedCaCert": srv.ca}
		},
		"a JSON file in a directory": func(t *testing.T, id string) map[string]string {
			return map[string]string{"c.json": asJSON(t, map[string]any{"accessKeyID": id, "secretAccessKey": secret, "region": "r", "endpoint": srv.URL, "trustedCaCert": srv.ca})}
		},
	}
	for name, files := range forms {
		t.Run(name, func(t *testing.T) {
			mount := t.TempDir()
			point := func(files map[string]string) {
				t.Helper()
				tmp := filepath.Join(mount, "..tmp")
				if err := os.Symlink(directory(t, files), tmp); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(tmp, filepath.Join(mount, "..data")); err != nil {
					t.Fatal(err)
				}
			}
			point(files(t, "AKID1"))
			for f := range files(t, "") {
				if err := os.Symlink(filepath.Join("..data", f), filepath.Join(mount, f)); err != nil {
					t.Fatal(err)
				}
			}
			s, err := open.Open(t.Context(), open.Config{Provider: "S3", Container: "c", Environment: environment("", map[string]string{"AWS_APPLICATION_CREDENTIALS": mount})})
			if err != nil {
				t.Fatal(err)
			}
			ask := func(want string) {
				t.Helper()
				if err := s.List(t.Context(), "", func(store.Object) error { return nil }); err != nil {
					t.Fatal(err)
				}
				if got := srv.signer(); got != want {
					t.Errorf("the server was asked by %s, want %s", got, want)
				}
			}
			ask("AKID1")
			point(files(t, "AKID2"))
			ask("AKID2")
			point(map[string]string{}) // in the middle of a change
			ask("AKID2")
			point(files(t, "AKID3"))
			ask("AKID3")
		})
	}
}

func TestATokenThatIsNotThereIsACredentialsError(t *testing.T) {
	for name, token := range map[string]string{"a file of its own": filepath.Join(t.TempDir(), "missing"), "the field itself": ""} {
		files := map[string]string{"roleARN": "arn:aws:iam::1:role/x", "token": "inline", "region": "eu-central-1"}
		dir := directory(t, files)
		if token != "" {
			dir = directory(t, map[string]string{"roleARN": "arn:aws:iam::1:role/x", "token": token, "region": "eu-central-1"})
		} else if err := os.WriteFile(filepath.Join(dir, "token"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := open.Open(t.Context(), open.Config{Provider: "S3", Container: "c", Environment: environment("", map[string]string{"AWS_APPLICATION_CREDENTIALS": dir})})
		if err == nil || strings.Contains(err.Error(), "\n") || token != "" && !errors.Is(err, store.ErrCredentials) {
			t.Errorf("%s: %v, want one line about the credentials", name, err)
		}
	}
}

func TestTheAuthoritiesOfTheAmbientIdentityAreTrusted(t *testing.T) {
	s := newServer(t)
	bundle := filepath.Join(directory(t, map[string]string{"ca.crt": s.ca}), "ca.crt")
	for name, value := range map[string]string{ // as the SDK reads them
		"AWS_CA_BUNDLE": bundle, "AWS_ACCESS_KEY_ID": "AMBIENT", "AWS_SECRET_ACCESS_KEY": secret, "AWS_REGION": "eu-central-1",
	} {
		t.Setenv(name, value)
	}
	config := open.Config{Provider: "S3", Container: "c", EndpointOverride: s.URL, Environment: open.FromEnvironment(os.Getenv, "")}
	if _, err := open.Open(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if got := s.signer(); got != "AMBIENT" {
		t.Errorf("signed by %q, want the ambient identity", got)
	}
	config.Environment.CABundle = bundle + ".missing"
	if _, err := open.Open(t.Context(), config); err == nil || !strings.Contains(err.Error(), "AWS_CA_BUNDLE") {
		t.Errorf("without the file: %v, want an error that names the variable", err)
	}
}
