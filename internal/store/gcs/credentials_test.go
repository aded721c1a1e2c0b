package gcs

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"
	"sync"
	"testing"
)

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

func account(changes map[string]any) []byte {
	fields := map[string]any{"type": "service_account", "client_email": "sa@p", "private_key": keyPEM(), "project_id": "p"}
	for name, v := range changes {
		fields[name] = v
	}
	b, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return b
}

func federation(source any) []byte {
	b, err := json.Marshal(map[string]any{"type": "external_account", "audience": "a", "subject_token_type": "t", "token_url": "https://sts.example/token", "credential_source": source})
	if err != nil {
		panic(err)
	}
	return b
}

func TestOnlyKnownFieldsReachTheSDK(t *testing.T) {
	c, err := ParseCredentials(account(map[string]any{"universe_domain": "example.cloud", "executable": "rm", "quota_project_id": "q"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"executable", "quota_project_id"} {
		if strings.Contains(string(c.json), gone) {
			t.Errorf("%s is handed on", gone)
		}
	}
	if c.Kind != ServiceAccount || c.Universe != "example.cloud" || c.TokenFile != "" || !strings.Contains(string(c.json), "sa@p") {
		t.Errorf("parsed as %s of %q with token file %q", c.Kind, c.Universe, c.TokenFile)
	}
}

func TestATokenFileCanBeElsewhere(t *testing.T) {
	c, err := ParseCredentials(federation(map[string]any{"file": "/a/token", "format": map[string]any{"type": "text"}}))
	if err != nil || c.TokenFile != "/a/token" {
		t.Fatalf("the token file is %q, %v", c.TokenFile, err)
	}
	moved, err := c.WithTokenFile("/b/token")
	if err != nil || moved.TokenFile != "/b/token" || !strings.Contains(string(moved.json), "/b/token") || strings.Contains(string(moved.json), "/a/token") {
		t.Errorf("moved to %q: %s, %v", moved.TokenFile, moved.json, err)
	}
	if !strings.Contains(string(moved.json), `"format"`) || strings.Contains(string(c.json), "/b/token") {
		t.Error("more changed than the file's name")
	}
	of, err := ParseCredentials(account(nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := of.WithTokenFile("/b"); err == nil {
		t.Error("a service account got a token file")
	}
}

func TestWhatACredentialsFileMustNotSay(t *testing.T) {
	cases := map[string]struct {
		file []byte
		want string
	}{
		"nothing":                  {nil, "is not valid JSON"},
		"a list":                   {[]byte(`[1]`), "not an object"},
		"no type":                  {[]byte(`{}`), "lacks the field type"},
		"a type that is no string": {[]byte(`{"type":1}`), "type that is not a string"},
		"another type":             {[]byte(`{"type":"impersonated_service_account"}`), "impersonated_service_account"},
		"no key":                   {account(map[string]any{"private_key": ""}), "lacks private_key"},
		"a key that is none":       {account(map[string]any{"private_key": "x"}), "PEM"},
		"a key that is damaged":    {account(map[string]any{"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")}))}), "damaged"},
		"tokens in the clear":      {account(map[string]any{"token_uri": "http://x/"}), "token_uri"},
		"a user in the URL":        {account(map[string]any{"token_uri": "https://u:p@x/"}), "token_uri"},
		"a universe that is a URL": {account(map[string]any{"universe_domain": "x/y"}), "universe_domain"},
		"a program":                {federation(map[string]any{"executable": map[string]any{"command": "x"}}), "executable"},
		"a certificate":            {federation(map[string]any{"certificate": map[string]any{}}), "certificate"},
		"a source of nothing":      {federation(map[string]any{}), "neither a file nor a url"},
		"a source that is text":    {federation("x"), "credential_source that is not an object"},
		"a file that is a number":  {federation(map[string]any{"file": 1}), "file that is not a string"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseCredentials(c.file); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want one line with %q", err, c.want)
			}
		})
	}
}

// Whatever is in the file, parsing ends without panic, tells one line and hands on known
// fields only; what was accepted once is accepted again.
func FuzzParseCredentials(f *testing.F) {
	f.Add([]byte(`{"type":"service_account","client_email":"a","private_key":"b"}`))
	f.Add(federation(map[string]any{"file": "/a", "url": "https://x"}))
	f.Add([]byte(`{"type":"external_account","audience":null}`))
	f.Add(account(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseCredentials(b)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%q is more than a line", err)
			}
			return
		}
		var fields map[string]any
		if err := json.Unmarshal(c.json, &fields); err != nil {
			t.Fatal(err)
		}
		for name := range fields {
			known := false
			for _, allowed := range allowed[c.Kind] {
				known = known || name == allowed
			}
			if !known {
				t.Errorf("the field %q is handed on", name)
			}
		}
		if again, err := ParseCredentials(c.json); err != nil || again.Kind != c.Kind || again.TokenFile != c.TokenFile || again.Universe != c.Universe {
			t.Errorf("parsed again it is %+v, %v", again, err)
		}
	})
}
