package open_test

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"druid.internal/druid/internal/store/open"
)

// hosts records which servers are called, and lets no request pass.
type hosts struct {
	mu  sync.Mutex
	all []string
}

func (h *hosts) proxy(r *http.Request) (*url.URL, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, r.URL.Scheme+"://"+r.URL.Host)
	return nil, errors.New("no request passes")
}

func (h *hosts) first() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all) == 0 {
		return "nobody"
	}
	return h.all[0]
}

// The SDK's standard settings choose the endpoint where no explicit setting does.
func TestStandardSettingsChooseTheEndpointOfS3(t *testing.T) {
	shared := directory(t, map[string]string{
		"config": `[default]
services = mine
endpoint_url = https://profile.example
[services mine]
s3 =
  endpoint_url = https://services.example
[profile plain]
endpoint_url = https://plain.example
[profile fips]
use_fips_endpoint = true
use_dualstack_endpoint = true
[profile ignoring]
ignore_configured_endpoint_urls = true
endpoint_url = https://plain.example
`,
		"unreadable": "[default\nendpoint_url = x",
	})
	keys := map[string]string{"accessKeyID": "AKID", "secretAccessKey": secret, "region": "us-gov-west-1"}
	withEndpoint := maps.Clone(keys)
	withEndpoint["endpoint"] = "https://field.example"
	role := map[string]string{"roleARN": "arn:aws:iam::1:role/x", "token": "t", "region": "us-gov-west-1"}
	const (
		aws  = "https://ccc.s3.us-gov-west-1.amazonaws.com"
		fips = "https://ccc.s3-fips.us-gov-west-1.amazonaws.com"
		dual = "https://ccc.s3.dualstack.us-gov-west-1.amazonaws.com"
		both = "https://ccc.s3-fips.dualstack.us-gov-west-1.amazonaws.com"
	)
	config := filepath.Join(shared, "config")
	cases := map[string]struct {
		fields   map[string]string
		prefix   string
		vars     map[string]string
		override string
		want     string // the first server that is called
		fails    string // instead
	}{
		"nothing":                       {fields: keys, want: aws},
		"AWS_ENDPOINT_URL_S3":           {fields: keys, vars: map[string]string{"AWS_ENDPOINT_URL_S3": "https://s3.example", "AWS_ENDPOINT_URL": "https://all.example"}, want: "https://s3.example"},
		"AWS_ENDPOINT_URL":              {fields: keys, vars: map[string]string{"AWS_ENDPOINT_URL": "https://all.example", "AWS_CONFIG_FILE": config}, want: "https://all.example"},
		"of the source":                 {fields: keys, prefix: open.SourcePrefix, vars: map[string]string{"SOURCE_AWS_ENDPOINT_URL_S3": "https://source.example", "AWS_ENDPOINT_URL_S3": "https://s3.example"}, want: "https://source.example"},
		"of the services section":       {fields: keys, vars: map[string]string{"AWS_CONFIG_FILE": config}, want: "https://services.example"},
		"of the home directory":         {fields: keys, vars: map[string]string{"HOME": shared + "/home"}, want: "https://services.example"},
		"of the profile":                {fields: keys, vars: map[string]string{"AWS_CONFIG_FILE": config, "AWS_PROFILE": "plain"}, want: "https://plain.example"},
		"ignored by a variable":         {fields: keys, vars: map[string]string{"AWS_ENDPOINT_URL": "https://all.example", "AWS_CONFIG_FILE": config, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, want: aws},
		"ignored by the profile":        {fields: keys, vars: map[string]string{"AWS_CONFIG_FILE": config, "AWS_PROFILE": "ignoring", "AWS_ENDPOINT_URL": "https://all.example"}, want: aws},
		"FIPS":                          {fields: keys, vars: map[string]string{"AWS_USE_FIPS_ENDPOINT": "TRUE"}, want: fips},
		"dual-stack":                    {fields: keys, vars: map[string]string{"AWS_USE_DUALSTACK_ENDPOINT": "true"}, want: dual},
		"both, of the profile":          {fields: keys, vars: map[string]string{"AWS_CONFIG_FILE": config, "AWS_PROFILE": "fips"}, want: both},
		"FIPS, refused by a variable":   {fields: keys, vars: map[string]string{"AWS_CONFIG_FILE": config, "AWS_PROFILE": "fips", "AWS_USE_FIPS_ENDPOINT": "false", "AWS_USE_DUALSTACK_ENDPOINT": "false"}, want: aws},
		"the field goes before":         {fields: withEndpoint, vars: map[string]string{"AWS_ENDPOINT_URL_S3": "https://s3.example"}, want: "https://field.example"},
		"the override goes before":      {fields: withEndpoint, vars: map[string]string{"AWS_ENDPOINT_URL_S3": "https://s3.example"}, override: "https://override.example", want: "https://override.example"},
		"FIPS and another server":       {fields: withEndpoint, vars: map[string]string{"AWS_USE_FIPS_ENDPOINT": "true"}, want: "https://field.example"},
		"FIPS and its endpoint":         {fields: keys, vars: map[string]string{"AWS_USE_FIPS_ENDPOINT": "true"}, override: "https://s3-fips.us-gov-west-1.amazonaws.com", want: "https://s3-fips.us-gov-west-1.amazonaws.com"},
		"FIPS and a public endpoint":    {fields: keys, vars: map[string]string{"AWS_USE_FIPS_ENDPOINT": "true"}, override: "https://s3.us-gov-west-1.amazonaws.com", fails: "AWS_USE_FIPS_ENDPOINT requires a FIPS endpoint"},
		"a role":                        {fields: role, want: "https://sts.us-gov-west-1.amazonaws.com"},
		"a role, AWS_ENDPOINT_URL_STS":  {fields: role, vars: map[string]string{"AWS_ENDPOINT_URL_STS": "https://sts.example"}, want: "https://sts.example"},
		"a role, FIPS":                  {fields: role, vars: map[string]string{"AWS_USE_FIPS_ENDPOINT": "true"}, want: "https://sts.us-gov-west-1.amazonaws.com"}, // all of this region are
		"a profile that is not there":   {fields: keys, vars: map[string]string{"AWS_CONFIG_FILE": config, "AWS_PROFILE": "other"}, want: aws},
		"a variable that is no URL":     {fields: keys, vars: map[string]string{"AWS_ENDPOINT_URL_S3": "s3.example:9000"}, fails: "AWS_ENDPOINT_URL_S3 is not a URL"},
		"a variable that is no boolean": {fields: keys, vars: map[string]string{"AWS_USE_FIPS_ENDPOINT": "please"}, fails: "AWS_USE_FIPS_ENDPOINT must be true or false"},
		"a password in a variable":      {fields: keys, vars: map[string]string{"AWS_ENDPOINT_URL": "https://me:" + secret + "@s3.example"}, fails: "AWS_ENDPOINT_URL is not a URL"},
	}
	if err := os.MkdirAll(filepath.Join(shared, "home", ".aws"), 0o700); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(shared, "home", ".aws", "config"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			vars := map[string]string{c.prefix + "AWS_APPLICATION_CREDENTIALS": directory(t, c.fields)}
			maps.Copy(vars, c.vars)
			var called hosts
			_, err := open.Open(t.Context(), open.Config{Provider: "S3", Container: "ccc", EndpointOverride: c.override, Proxy: called.proxy, Environment: environment(c.prefix, vars)})
			if err == nil || strings.Contains(err.Error(), secret) {
				t.Fatalf("Open = %v", err)
			}
			if c.fails != "" {
				if !strings.Contains(err.Error(), c.fails) || called.first() != "nobody" {
					t.Errorf("%v, and %s was called; want %q", err, called.first(), c.fails)
				}
				return
			}
			if got := called.first(); got != c.want {
				t.Errorf("%s was called, want %s (%v)", got, c.want, err)
			}
		})
	}
}

// The ambient identity has the endpoints of its environment, and its region.
func TestTheAmbientIdentityHasTheEndpointOfItsEnvironment(t *testing.T) {
	srv := newServer(t)
	bundle := filepath.Join(directory(t, map[string]string{"ca.crt": srv.ca}), "ca.crt")
	for name, value := range map[string]string{ // as the SDK reads them
		"AWS_ACCESS_KEY_ID": "AMBIENT", "AWS_SECRET_ACCESS_KEY": secret, "AWS_REGION": "eu-central-1", "AWS_CA_BUNDLE": bundle, "AWS_ENDPOINT_URL_S3": srv.URL, "HOME": t.TempDir(),
	} {
		t.Setenv(name, value)
	}
	s, err := open.Open(t.Context(), open.Config{Provider: "S3", Container: "c", Environment: open.FromEnvironment(os.Getenv, "")})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Capabilities().Endpoint; got != srv.URL+" (AWS_ENDPOINT_URL_S3)" {
		t.Errorf("the endpoint is %q, want %s and the variable", got, srv.URL)
	}
	if got := srv.request("GET").Header.Get("Authorization"); srv.signer() != "AMBIENT" || !strings.Contains(got, "/eu-central-1/") {
		t.Errorf("the request was signed %q, want AMBIENT in eu-central-1", got)
	}
}

// The other providers have standard variables as well.
func TestStandardVariablesChooseTheEndpointOfOthers(t *testing.T) {
	azure := map[string]string{"storageAccount": "account", "sasToken": "?sv=1&sig=" + secret}
	for name, c := range map[string]struct {
		provider, variable string
		fields             map[string]string
		vars               map[string]string
		override, want     string
	}{
		"GCS":                     {provider: "GCS", vars: map[string]string{"STORAGE_EMULATOR_HOST": "emulator.example:4443"}, want: "http://emulator.example:4443"},
		"GCS, a URL":              {provider: "GCS", vars: map[string]string{"STORAGE_EMULATOR_HOST": "https://emulator.example"}, want: "https://emulator.example"},
		"GCS, overridden":         {provider: "GCS", vars: map[string]string{"STORAGE_EMULATOR_HOST": "emulator.example"}, override: "http://override.example", want: "http://override.example"},
		"GCS, the file":           {provider: "GCS", variable: "GOOGLE_APPLICATION_CREDENTIALS", fields: map[string]string{"storageAPIEndpoint": "http://file.example"}, vars: map[string]string{"STORAGE_EMULATOR_HOST": "emulator.example"}, want: "http://file.example"},
		"ABS":                     {provider: "ABS", variable: "AZURE_APPLICATION_CREDENTIALS", fields: azure, vars: map[string]string{"AZURE_STORAGE_SERVICE_ENDPOINT": "https://account.blob.example"}, want: "https://account.blob.example"},
		"ABS, overridden":         {provider: "ABS", variable: "AZURE_APPLICATION_CREDENTIALS", fields: azure, vars: map[string]string{"AZURE_STORAGE_SERVICE_ENDPOINT": "https://account.blob.example"}, override: "https://account.override.example", want: "https://account.override.example"},
		"OSS":                     {provider: "OSS", variable: "ALICLOUD_APPLICATION_CREDENTIALS", fields: map[string]string{"accessKeyID": "a", "accessKeySecret": secret}, vars: map[string]string{"OSS_ENDPOINT": "https://oss.example"}, want: "https://ccc.oss.example"},
		"Swift":                   {provider: "Swift", variable: "OPENSTACK_APPLICATION_CREDENTIALS", fields: map[string]string{"username": "u", "password": secret, "domainName": "d", "tenantName": "t"}, vars: map[string]string{"OS_AUTH_URL": "https://keystone.example/v3"}, want: "https://keystone.example"},
		"Swift, the field before": {provider: "Swift", variable: "OPENSTACK_APPLICATION_CREDENTIALS", fields: map[string]string{"username": "u", "password": secret, "domainName": "d", "tenantName": "t", "authURL": "https://field.example/v3"}, vars: map[string]string{"OS_AUTH_URL": "https://keystone.example/v3"}, want: "https://field.example"},
	} {
		t.Run(name, func(t *testing.T) {
			vars := map[string]string{}
			if c.variable != "" {
				vars[c.variable] = directory(t, c.fields)
			}
			maps.Copy(vars, c.vars)
			var called hosts
			_, err := open.Open(t.Context(), open.Config{Provider: c.provider, Container: "ccc", EndpointOverride: c.override, Proxy: called.proxy, Environment: environment("", vars)})
			if got := called.first(); got != c.want {
				t.Errorf("%s was called, want %s (%v)", got, c.want, err)
			}
		})
	}
}
