package gcs

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Kind is the kind of credentials in a file, by Google's names.
type Kind string

// The kinds that are taken from files. Others belong to people or lend the rights of further
// identities, and count only where the SDK finds them itself.
const (
	ServiceAccount  Kind = "service_account"
	ExternalAccount Kind = "external_account"
)

// Credentials are what a key file of a service account, or a configuration of workload
// identity federation, holds. Make them by ParseCredentials.
type Credentials struct {
	Kind Kind
	// Universe is the domain of the cloud the credentials are for; empty: googleapis.com.
	Universe string
	// TokenFile is where a federated identity's own token is read from; empty: not from a file.
	TokenFile string

	json []byte // what is handed to the SDK: nothing but known fields
}

// allowed are the fields that are handed to the SDK. A file may come from somebody who should
// not decide what this program reads, runs or calls, so unknown fields stay out.
var allowed = map[Kind][]string{
	ServiceAccount: {
		"type", "project_id", "private_key_id", "private_key", "client_email", "client_id",
		"auth_uri", "token_uri", "auth_provider_x509_cert_url", "client_x509_cert_url", "universe_domain",
	},
	ExternalAccount: {
		"type", "audience", "subject_token_type", "token_url", "token_info_url", "service_account_impersonation_url",
		"service_account_impersonation", "credential_source", "universe_domain", "quota_project_id", "workforce_pool_user_project",
	},
}

// required are the fields without which nothing works.
var required = map[Kind][]string{
	ServiceAccount:  {"client_email", "private_key"},
	ExternalAccount: {"audience", "subject_token_type", "token_url", "credential_source"},
}

// urls are the fields whose values are called. Credentials must not travel in the clear.
var urls = []string{"auth_uri", "token_uri", "token_url", "token_info_url", "service_account_impersonation_url"}

// ParseCredentials reads a JSON file. Its errors are one phrase that shows nothing of the
// content but names of fields.
func ParseCredentials(b []byte) (Credentials, error) {
	var raw map[string]any
	if err := json.Unmarshal(b, &raw); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return Credentials{}, fmt.Errorf("is not valid JSON: something is wrong at byte %d", syntax.Offset)
		}
		return Credentials{}, errors.New("is JSON but not an object of fields")
	}
	word, err := text(raw, "type")
	if err != nil {
		return Credentials{}, err
	}
	kind := Kind(word)
	switch {
	case word == "":
		return Credentials{}, fmt.Errorf("lacks the field type, which should be %s or %s", ServiceAccount, ExternalAccount)
	case allowed[kind] == nil:
		return Credentials{}, fmt.Errorf("is of type %.40q, only %s and %s are taken from a file", word, ServiceAccount, ExternalAccount)
	}
	c := Credentials{Kind: kind}
	known := map[string]any{}
	for _, name := range allowed[kind] {
		if v, ok := raw[name]; ok && v != nil {
			known[name] = v
		}
	}
	if err := c.check(known); err != nil {
		return Credentials{}, err
	}
	if c.json, err = json.Marshal(known); err != nil {
		return Credentials{}, errors.New("holds what is not JSON")
	}
	return c, nil
}

// check validates the known fields and picks out what this package needs itself.
func (c *Credentials) check(known map[string]any) error {
	var missing []string
	for _, name := range required[c.Kind] {
		if v, ok := known[name]; !ok || v == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("is of type %s and lacks %s", c.Kind, strings.Join(missing, ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if name == "credential_source" || name == "service_account_impersonation" {
			continue
		}
		if _, err := text(known, name); err != nil {
			return err
		}
	}
	for _, name := range urls {
		if v, _ := text(known, name); v != "" && !secure(v) {
			return fmt.Errorf("has a field %s that is not an https URL", name)
		}
	}
	c.Universe, _ = text(known, "universe_domain")
	if strings.ContainsAny(c.Universe, "/:@?# ") {
		return errors.New("has a field universe_domain that is not the name of a domain")
	}
	if c.Kind == ServiceAccount {
		key, _ := text(known, "private_key")
		return checkKeyPEM(key)
	}
	return c.checkSource(known["credential_source"])
}

// checkSource looks where a federated identity has its own token from. A program to run, or a
// client certificate configured elsewhere, is not taken from a file.
func (c *Credentials) checkSource(v any) error {
	source, ok := v.(map[string]any)
	if !ok {
		return errors.New("has a field credential_source that is not an object")
	}
	for _, name := range []string{"executable", "certificate"} {
		if source[name] != nil {
			return fmt.Errorf("has a credential_source with %s, which is not supported: use a file or a url", name)
		}
	}
	var err error
	if c.TokenFile, err = text(source, "file"); err != nil {
		return err
	}
	address, err := text(source, "url")
	if err != nil {
		return err
	}
	environment, err := text(source, "environment_id")
	if err != nil {
		return err
	}
	if c.TokenFile == "" && address == "" && environment == "" {
		return errors.New("has a credential_source with neither a file nor a url")
	}
	return nil
}

// WithTokenFile is c with a federated identity's token in another file.
func (c Credentials) WithTokenFile(path string) (Credentials, error) {
	var raw map[string]any
	if err := json.Unmarshal(c.json, &raw); err != nil {
		return c, errors.New("the credentials were not made by ParseCredentials")
	}
	source, ok := raw["credential_source"].(map[string]any)
	if !ok {
		return c, errors.New("the credentials are not those of a federated identity")
	}
	source["file"] = path
	b, err := json.Marshal(raw)
	if err != nil {
		return c, err
	}
	c.TokenFile, c.json = path, b
	return c, nil
}

// text is a field that must be a string; "" if it is not there.
func text(fields map[string]any, name string) (string, error) {
	switch v := fields[name].(type) {
	case string:
		return v, nil
	case nil:
		return "", nil
	}
	return "", fmt.Errorf("has a field %s that is not a string", name)
}

func secure(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil
}

// checkKeyPEM says in time what the first signature would only hint at.
func checkKeyPEM(key string) error {
	block, _ := pem.Decode([]byte(key))
	if block == nil {
		return errors.New("has a field private_key that is not a key in PEM form (-----BEGIN PRIVATE KEY-----)")
	}
	if _, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		return nil
	}
	if _, err := x509.ParsePKCS1PrivateKey(block.Bytes); err != nil {
		return errors.New("has a field private_key whose content is damaged")
	}
	return nil
}
