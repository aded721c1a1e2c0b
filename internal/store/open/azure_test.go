package open_test

import (
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

// azureServer answers like an empty container of Azure and remembers who asked. It also gives
// tokens, as the authority of a workload identity does.
type azureServer struct {
	*httptest.Server
	ca string

	mu   sync.Mutex
	last *http.Request
}

func newAzureServer(t *testing.T) *azureServer {
	t.Helper()
	s := &azureServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/openid-configuration"):
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"issuer":"`+s.URL+`/t/v2.0","authorization_endpoint":"`+s.URL+`/t/authorize","token_endpoint":"`+s.URL+`/t/token"}`)
			return
		case strings.HasSuffix(r.URL.Path, "/token"):
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"token_type":"Bearer","expires_in":3600,"access_token":"ambient"}`)
			return
		}
		s.mu.Lock()
		s.last = r
		s.mu.Unlock()
		if r.URL.Query().Get("comp") == "list" {
			io.WriteString(w, `<EnumerationResults><Blobs></Blobs><NextMarker/></EnumerationResults>`)
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	s.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	return s
}

// proof is what the last request was signed with.
func (s *azureServer) proof() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return ""
	}
	return s.last.Header.Get("Authorization") + " " + s.last.URL.RawQuery
}

func (s *azureServer) list(t *testing.T, c open.Config) string {
	t.Helper()
	st, err := open.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.List(t.Context(), "", func(store.Object) error { return nil }); err != nil {
		t.Fatal(err)
	}
	return s.proof()
}

const accountKey = "aHVudGVyMi1kby1ub3QtcHJpbnQ="

func TestABSTakesItsCredentialsInEveryFormOfTheOriginalAndItsOwn(t *testing.T) {
	srv := newAzureServer(t)
	key := map[string]string{"storageAccount": "mine1", "storageKey": accountKey, "trustedCaCert": srv.ca}
	token := map[string]string{"storageAccount": "mine1", "sasToken": "?sv=2026-04-06&sig=signed", "trustedCaCert": srv.ca}
	none := map[string]string{"storageAccount": "mine1", "trustedCaCert": srv.ca}
	fields := func(m map[string]string) map[string]any {
		all := map[string]any{}
		for k, v := range m {
			all[k] = v
		}
		return all
	}
	file := func(m map[string]string) string {
		return filepath.Join(directory(t, map[string]string{"c.json": asJSON(t, fields(m))}), "c.json")
	}
	// What a pod with a workload identity has, and what the SDK reads.
	for name, value := range map[string]string{
		"AZURE_AUTHORITY_HOST": srv.URL, "AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c",
		"AZURE_FEDERATED_TOKEN_FILE": filepath.Join(directory(t, map[string]string{"token": "assertion"}), "token"),
	} {
		t.Setenv(name, value)
	}
	cases := map[string]struct {
		prefix string
		env    map[string]string
		want   string
	}{
		"a directory":                  {"", map[string]string{"AZURE_APPLICATION_CREDENTIALS": directory(t, key)}, "SharedKey mine1:"},
		"a JSON file":                  {"", map[string]string{"AZURE_APPLICATION_CREDENTIALS_JSON": file(key)}, "SharedKey mine1:"},
		"a JSON file in a directory":   {"", map[string]string{"AZURE_APPLICATION_CREDENTIALS": filepath.Dir(file(key))}, "SharedKey mine1:"},
		"the source of a copy":         {open.SourcePrefix, map[string]string{"SOURCE_AZURE_APPLICATION_CREDENTIALS": directory(t, key)}, "SharedKey mine1:"},
		"the second store":             {open.SecondaryPrefix, map[string]string{"SECONDARY_AZURE_APPLICATION_CREDENTIALS_JSON": file(key)}, "SharedKey mine1:"},
		"a SAS":                        {"", map[string]string{"AZURE_APPLICATION_CREDENTIALS": directory(t, token)}, "sig=signed"},
		"neither, hence whoever it is": {"", map[string]string{"AZURE_APPLICATION_CREDENTIALS": directory(t, none), "AZURE_AUTHORITY_HOST": srv.URL}, "Bearer ambient"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, provider := range []string{"ABS", "abs", "azure"} {
				if got := srv.list(t, open.Config{Provider: provider, Container: "backups", EndpointOverride: srv.URL, Environment: environment(c.prefix, c.env)}); !strings.Contains(got, c.want) {
					t.Errorf("%s: the proof is %q, want %q", provider, got, c.want)
				}
			}
		})
	}
}

func TestAReplacedKeyOfAzureIsNoticed(t *testing.T) {
	srv := newAzureServer(t)
	opened := func(field, value string) (store.Store, func(string)) {
		t.Helper()
		dir := directory(t, map[string]string{"storageAccount": "mine1", field: value, "trustedCaCert": srv.ca})
		s, err := open.Open(t.Context(), open.Config{Provider: "ABS", Container: "backups", EndpointOverride: srv.URL, Environment: environment("", map[string]string{"AZURE_APPLICATION_CREDENTIALS": dir})})
		if err != nil {
			t.Fatal(err)
		}
		return s, func(value string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(dir, field), []byte(value), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	ask := func(s store.Store) error {
		return s.List(t.Context(), "", func(store.Object) error { return nil })
	}

	s, replace := opened("sasToken", "sv=1&sig=first")
	for _, step := range []struct{ write, want string }{{"sv=1&sig=first", "first"}, {"sv=1&sig=second", "second"}, {"", "second"}, {"?sv=1&sig=third", "third"}} {
		replace(step.write)
		if err := ask(s); err != nil || !strings.Contains(srv.proof(), "sig="+step.want) {
			t.Errorf("after %q was written requests are signed by %q, %v", step.write, srv.proof(), err)
		}
	}

	// Of a key one sees only whether it was read: what is none cannot be used for signing.
	s, replace = opened("storageKey", accountKey)
	replace("hunter2 is no base64")
	if err := ask(s); !errors.Is(err, store.ErrCredentials) || !strings.Contains(err.Error(), "storageKey") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("with a new key that is none: %v, want %v", err, store.ErrCredentials)
	}
	replace(accountKey)
	if err := ask(s); err != nil {
		t.Errorf("with the key again: %v", err)
	}
}

func TestMistakesInAzuresCredentialsAreOneLineThatNamesTheField(t *testing.T) {
	dir := func(m map[string]string) map[string]string {
		return map[string]string{"AZURE_APPLICATION_CREDENTIALS": directory(t, m)}
	}
	cases := map[string]struct {
		env      map[string]string
		endpoint string
		want     string
	}{
		"nothing at all":             {nil, "", "AZURE_APPLICATION_CREDENTIALS"},
		"no account":                 {dir(map[string]string{"storageKey": accountKey}), "", "lack storageAccount"},
		"a key and a SAS":            {dir(map[string]string{"storageAccount": "mine1", "storageKey": accountKey, "sasToken": "sig=x"}), "", "sasToken"},
		"a key that is none":         {dir(map[string]string{"storageAccount": "mine1", "storageKey": "hunter2-!"}), "", "storageKey"},
		"a domain that is a URL":     {dir(map[string]string{"storageAccount": "mine1", "storageKey": accountKey, "domain": "http://azurite:10000"}), "", "domain"},
		"an empty key":               {dir(map[string]string{"storageAccount": "mine1", "storageKey": "\n"}), "", "storageKey is there but empty"},
		"an empty SAS":               {dir(map[string]string{"storageAccount": "mine1", "sasToken": ""}), "", "sasToken is there but empty"},
		"half a management API":      {dir(map[string]string{"storageAccount": "mine1", "storageKey": accountKey, "subscriptionID": "s"}), "", "lack resourceGroup"},
		"a boolean that is none":     {dir(map[string]string{"storageAccount": "mine1", "storageKey": accountKey, "insecureSkipVerify": "perhaps"}), "", "insecureSkipVerify"},
		"a CA that is none":          {dir(map[string]string{"storageAccount": "mine1", "storageKey": accountKey, "trustedCaCert": "x"}), "", "trustedCaCert"},
		"malformed JSON":             {map[string]string{"AZURE_APPLICATION_CREDENTIALS_JSON": filepath.Join(directory(t, map[string]string{"c": "{"}), "c")}, "", "not valid JSON"},
		"a directory that is not":    {map[string]string{"AZURE_APPLICATION_CREDENTIALS": "/nowhere/at/all"}, "", "/nowhere/at/all"},
		"a SAS in the endpoint":      {dir(map[string]string{"storageAccount": "mine1", "storageKey": accountKey}), "https://mine1.blob.core.windows.net?sig=hunter2", "sasToken"},
		"an account in the endpoint": {nil, "https://127.0.0.1:1/mine1", "AZURE_APPLICATION_CREDENTIALS"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := open.Open(t.Context(), open.Config{Provider: "ABS", Container: "backups", EndpointOverride: c.endpoint, Environment: environment("", c.env)})
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), accountKey) {
				t.Errorf("%v, want one line with %q and no secret", err, c.want)
			}
		})
	}
}
