package open_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"maps"
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

// google answers like a bucket and like the services that issue tokens, and remembers who asked.
type google struct {
	*httptest.Server
	ca string

	mu   sync.Mutex
	last string // the token of the last request to the bucket
	path string // of it
}

func newGoogle(t *testing.T) *google {
	t.Helper()
	g := &google{}
	g.Server = httptest.NewUnstartedServer(g)
	g.Config.ErrorLog = log.New(io.Discard, "", 0)
	g.StartTLS()
	t.Cleanup(g.Close)
	g.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.Certificate().Raw}))
	return g
}

func (g *google) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/token": // of a service account: named after it
		_, claims, _ := strings.Cut(r.FormValue("assertion"), ".")
		claims, _, _ = strings.Cut(claims, ".")
		text, _ := base64.RawURLEncoding.DecodeString(claims)
		var who struct{ Iss string }
		_ = json.Unmarshal(text, &who)
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": who.Iss, "token_type": "Bearer", "expires_in": 3600})
	case "/sts": // of a federated identity: named after its own token
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "for-" + r.FormValue("subject_token"), "issued_token_type": "urn:ietf:params:oauth:token-type:access_token", "token_type": "Bearer", "expires_in": 3600})
	default:
		g.mu.Lock()
		g.last, g.path = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), r.URL.Path
		g.mu.Unlock()
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "storage#bucket", "name": "c", "items": []any{}})
	}
}

// asked is with which token, and where, the bucket was asked last.
func (g *google) asked() (token, path string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last, g.path
}

var keyPEM = sync.OnceValue(func() string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
})

func (g *google) account(t *testing.T, email string) string {
	return asJSON(t, map[string]any{
		"type": "service_account", "project_id": "p", "client_email": email, "private_key_id": "1", "private_key": keyPEM(),
		"token_uri": g.URL + "/token", "unknown_field": secret,
	})
}

func (g *google) federation(t *testing.T, tokenFile string) string {
	return asJSON(t, map[string]any{
		"type": "external_account", "audience": "a", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
		"token_url": g.URL + "/sts", "credential_source": map[string]any{"file": tokenFile},
	})
}

// openGoogle opens the bucket c with these variables.
func openGoogle(t *testing.T, prefix, endpoint string, vars map[string]string) (store.Store, error) {
	t.Helper()
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "") // nothing of the machine's
	return open.Open(t.Context(), open.Config{
		Provider: "GCS", Container: "c", EndpointOverride: endpoint,
		Environment: open.FromEnvironment(func(name string) string { return vars[name] }, prefix),
	})
}

func TestGoogleCredentialsAreTakenInAllForms(t *testing.T) {
	g := newGoogle(t)
	elsewhere := filepath.Join(directory(t, map[string]string{"jwt": "elsewhere"}), "jwt")
	both := func(files map[string]string) map[string]string {
		all := map[string]string{"trustedCaCert": g.ca, "storageAPIEndpoint": g.URL + "\n"}
		maps.Copy(all, files)
		return all
	}
	cases := map[string]struct {
		files  map[string]string
		path   string // below the directory
		prefix string
		want   string
	}{
		"a service account's file":               {files: both(map[string]string{"serviceaccount.json": g.account(t, "sa@p")}), path: "serviceaccount.json", want: "sa@p"},
		"a directory with it":                    {files: both(map[string]string{"serviceaccount.json": g.account(t, "sa@p")}), want: "sa@p"},
		"the source of a copy":                   {files: both(map[string]string{"serviceaccount.json": g.account(t, "source@p")}), prefix: open.SourcePrefix, want: "source@p"},
		"the second store":                       {files: both(map[string]string{"serviceaccount.json": g.account(t, "second@p")}), prefix: open.SecondaryPrefix, want: "second@p"},
		"a federated identity":                   {files: both(map[string]string{"credentialsConfig": g.federation(t, elsewhere), "projectID": "p"}), path: "credentialsConfig", want: "for-elsewhere"},
		"a federated identity by a directory":    {files: both(map[string]string{"credentialsConfig": g.federation(t, elsewhere), "projectID": "p", "token": "beside"}), want: "for-elsewhere"},
		"a token beside the configuration":       {files: both(map[string]string{"credentialsConfig": g.federation(t, "/nonexistent/token"), "token": "beside"}), want: "for-beside"},
		"a token, and a path that expects a key": {files: both(map[string]string{"credentialsConfig": g.federation(t, "/nonexistent/token"), "token": "beside"}), path: "serviceaccount.json", want: "for-beside"},
		"nobody at all":                          {files: both(map[string]string{"anonymous": "true"}), want: ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(directory(t, c.files), c.path)
			if _, err := openGoogle(t, c.prefix, "", map[string]string{c.prefix + "GOOGLE_APPLICATION_CREDENTIALS": path}); err != nil {
				t.Fatal(err)
			}
			if token, where := g.asked(); token != c.want || where != "/storage/v1/b/c" {
				t.Errorf("%s was asked with the token %q, want %q", where, token, c.want)
			}
		})
	}
}

func TestAnEndpointWithoutTLSNeedsNoGoogleIdentity(t *testing.T) {
	g := &google{}
	plain := httptest.NewServer(g)
	defer plain.Close()
	for name, vars := range map[string]map[string]string{
		"no credentials":                       nil,
		"credentials that are not mounted":     {"GOOGLE_APPLICATION_CREDENTIALS": "/nonexistent/file"},
		"credentials of another store":         {"GOOGLE_APPLICATION_CREDENTIALS": "/nonexistent/file", "STORAGE_EMULATOR_HOST": "127.0.0.1:1"},
		"an emulator that the SDK looks for":   {},
		"a directory with the emulator's name": {"GOOGLE_APPLICATION_CREDENTIALS": directory(t, map[string]string{"storageAPIEndpoint": plain.URL})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("STORAGE_EMULATOR_HOST", "127.0.0.1:1") // must lead nowhere
			endpoint := plain.URL + "/storage/v1/"
			if name == "a directory with the emulator's name" {
				endpoint = ""
			}
			if _, err := openGoogle(t, "", endpoint, vars); err != nil {
				t.Fatal(err)
			}
			if token, where := g.asked(); token != "" || where != "/storage/v1/b/c" {
				t.Errorf("%s was asked with the token %q", where, token)
			}
		})
	}
}

func TestAReplacedGoogleKeyIsReadAgain(t *testing.T) {
	g := newGoogle(t)
	dir := directory(t, map[string]string{"serviceaccount.json": g.account(t, "old@p"), "trustedCaCert": g.ca, "storageAPIEndpoint": g.URL})
	s, err := openGoogle(t, "", "", map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": dir})
	if err != nil {
		t.Fatal(err)
	}
	ask := func() string {
		t.Helper()
		if err := s.List(t.Context(), "", func(store.Object) error { return nil }); err != nil {
			t.Fatal(err)
		}
		token, _ := g.asked()
		return token
	}
	replace := func(content string) {
		t.Helper()
		next := filepath.Join(dir, ".next")
		if err := os.WriteFile(next, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(dir, "serviceaccount.json")); err != nil {
			t.Fatal(err)
		}
	}
	if got := ask(); got != "old@p" {
		t.Errorf("it asks as %q", got)
	}
	replace(g.account(t, "new@p"))
	if got := ask(); got != "new@p" {
		t.Errorf("after the replacement it asks as %q", got)
	}
	replace(`{"type":`)
	if got := ask(); got != "new@p" {
		t.Errorf("with half a file it asks as %q, want the last that was whole", got)
	}
}

func TestEachMistakeWithGoogleIsOneLine(t *testing.T) {
	g := newGoogle(t)
	whole := map[string]string{"serviceaccount.json": g.account(t, "sa@p"), "trustedCaCert": g.ca, "storageAPIEndpoint": g.URL}
	with := func(changes ...string) map[string]string {
		files := maps.Clone(whole)
		for i := 0; i < len(changes); i += 2 {
			files[changes[i]] = changes[i+1]
		}
		return map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": directory(t, files)}
	}
	edited := func(edit func(map[string]any)) map[string]string {
		var fields map[string]any
		if err := json.Unmarshal([]byte(whole["serviceaccount.json"]), &fields); err != nil {
			t.Fatal(err)
		}
		edit(fields)
		return with("serviceaccount.json", asJSON(t, fields))
	}
	without := func(name string) map[string]string {
		return edited(func(f map[string]any) { delete(f, name) })
	}
	cases := map[string]struct {
		prefix string
		vars   map[string]string
		want   string
	}{
		"a path that is not":           {"", map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": "/nonexistent/serviceaccount.json"}, "does not exist"},
		"a directory without any":      {"", map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": t.TempDir()}, "neither serviceaccount.json nor credentialsConfig"},
		"both kinds":                   {"", with("credentialsConfig", "{}"), "leave one"},
		"malformed JSON":               {"", with("serviceaccount.json", `{"private_key":"`+secret+`",}`), "not valid JSON: something is wrong at byte"},
		"JSON that is a list":          {"", with("serviceaccount.json", `["`+secret+`"]`), "not an object"},
		"no type":                      {"", without("type"), "lacks the field type"},
		"a person's credentials":       {"", edited(func(f map[string]any) { f["type"] = "authorized_user" }), "authorized_user"},
		"a missing field":              {"", without("client_email"), "lacks client_email"},
		"several missing fields":       {"", with("serviceaccount.json", `{"type":"service_account"}`), "lacks client_email, private_key"},
		"a field of the wrong type":    {"", edited(func(f map[string]any) { f["client_email"] = 5 }), "client_email that is not a string"},
		"a key that is none":           {"", edited(func(f map[string]any) { f["private_key"] = secret }), "private_key"},
		"a token service in the clear": {"", edited(func(f map[string]any) { f["token_uri"] = "http://" + secret }), "token_uri that is not an https URL"},
		"a program for a token": {"", with("serviceaccount.json", `{"type":"external_account","audience":"a","subject_token_type":"t","token_url":"https://x","credential_source":{"executable":{"command":"`+secret+`"}}}`),
			"executable"},
		"a token that is not":     {"", map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": directory(t, map[string]string{"credentialsConfig": g.federation(t, "/nonexistent/jwt")})}, "/nonexistent/jwt"},
		"anonymous of no sense":   {"", with("anonymous", "perhaps"), "must hold true or false"},
		"an authority not given":  {"", with("trustedCaCert", ""), "trustedCaCert"},
		"an authority that is no": {"", with("trustedCaCert", "nothing"), "trustedCaCert"},
		"an endpoint of no use":   {"", with("storageAPIEndpoint", "ftp://x"), "ftp://x"},
		"a password in it":        {"", with("storageAPIEndpoint", "https://u:"+secret+"@x"), "must not contain a user or password"},
		"the target's identity":   {"SOURCE_", with(), "SOURCE_GOOGLE_APPLICATION_CREDENTIALS is not set, and GOOGLE_APPLICATION_CREDENTIALS is another store's"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := openGoogle(t, c.prefix, "", c.vars)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), secret) {
				t.Errorf("%v, want one line with %q and no secret", err, c.want)
			}
		})
	}
}
