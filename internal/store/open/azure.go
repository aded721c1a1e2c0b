package open

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"druid.internal/druid/internal/store/azure"
)

// The fields of credentials for ABS. The first three are the original's.
const (
	fieldStorageAccount     = "storageAccount"
	fieldStorageKey         = "storageKey"
	fieldDomain             = "domain"
	fieldSASToken           = "sasToken"
	fieldSubscription       = "subscriptionID"
	fieldResourceGroup      = "resourceGroup"
	fieldManagementEndpoint = "managementEndpoint"
)

// azureVariable names the credentials in messages.
const azureVariable = "AZURE_APPLICATION_CREDENTIALS"

// azureKeyFields are those that are read again when their files change.
var azureKeyFields = []string{fieldStorageKey, fieldSASToken}

// ofABS uses an account key, a SAS or, where neither is given, the ambient identity.
func (c Config) ofABS() (azure.Options, error) {
	o := azure.Options{
		Container: c.Container, Endpoint: c.EndpointOverride, Authority: foreignAuthority(c.Environment.AzureAuthority),
		BlockSize: c.MinChunkSize, ParallelBlocks: c.MaxParallelChunkUploads, Proxy: c.Proxy,
	}
	files := c.Environment.Azure
	if files.set() {
		f, err := files.read()
		if err != nil {
			return o, fmt.Errorf("ABS: %w", err)
		}
		if err := f.applyAzure(&o, files); err != nil {
			return o, fmt.Errorf("ABS: %w", err)
		}
	}
	if e := c.Environment.AzureEndpoint; o.Endpoint == "" && o.Domain == "" && e.Text != "" {
		if err := e.isURL(); err != nil {
			return o, fmt.Errorf("ABS: %w", err)
		}
		o.Endpoint = e.Text
	}
	if files.set() {
		return o, nil
	}
	if o.Account = accountOf(o.Endpoint); o.Account == "" {
		return o, fmt.Errorf("ABS: the storage account is missing: set %s to credentials with the field %s, or name the account in the endpoint (--store-endpoint-override=https://ACCOUNT.%s)",
			files.Variable, fieldStorageAccount, azure.DefaultDomain)
	}
	return o, nil
}

// applyAzure sets what the fields say.
func (f fields) applyAzure(o *azure.Options, files Files) (err error) {
	if err := f.required(fieldStorageAccount); err != nil {
		return err
	}
	o.Account, o.Domain = f.values[fieldStorageAccount], f.values[fieldDomain]
	if strings.ContainsAny(o.Domain, "/:") {
		return fmt.Errorf("%s: the field %s is what follows the account in a host name, like %s; a URL goes into --store-endpoint-override", f.source, fieldDomain, azure.DefaultDomain)
	}
	o.TrustedCAs = []byte(f.values[fieldTrustedCA])
	if o.InsecureSkipVerify, err = f.boolean(fieldInsecureSkipVerify); err != nil {
		return err
	}
	for _, name := range azureKeyFields {
		// Whoever mounts an empty key does not mean the ambient identity.
		if v, there := f.values[name]; there && v == "" {
			return fmt.Errorf("%s: the field %s is there but empty: fill it, or remove it if another identity is meant", f.source, name)
		}
	}
	key, sas := f.values[fieldStorageKey] != "", f.values[fieldSASToken] != ""
	switch {
	case key && sas:
		return fmt.Errorf("%s: the credentials hold both %s and %s, which one counts is unclear: leave one", f.source, fieldStorageKey, fieldSASToken)
	case key || sas:
		o.Keys = newRotating(files, azureKeyFields, parseAzureKeys).get
	}
	return f.management(o)
}

func parseAzureKeys(f fields) (azure.Keys, error) {
	k := azure.Keys{AccountKey: f.values[fieldStorageKey], SAS: f.values[fieldSASToken]}
	if k == (azure.Keys{}) {
		return k, fmt.Errorf("%s: the credentials lack %s", f.source, fieldStorageKey)
	}
	return k, nil
}

// management sets where the container's policy can be read.
func (f fields) management(o *azure.Options) error {
	m := azure.Management{Subscription: f.values[fieldSubscription], ResourceGroup: f.values[fieldResourceGroup], Endpoint: f.values[fieldManagementEndpoint]}
	if m == (azure.Management{}) {
		return nil
	}
	if err := f.required(fieldSubscription, fieldResourceGroup); err != nil {
		return err
	}
	o.Management = &m
	return nil
}

// accountOf is the account whose own endpoint a URL is, or "".
func accountOf(endpoint string) string {
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	account, domain, _ := strings.Cut(u.Hostname(), ".")
	if !strings.HasPrefix(domain, "blob.") {
		return ""
	}
	return account
}

// foreignAuthority is the host that gives tokens, if it is none that Microsoft runs; workload
// identity names even those.
func foreignAuthority(host string) string {
	name := host
	if u, err := url.Parse(host); err == nil && u.Host != "" {
		name = u.Hostname()
	}
	if slices.Contains([]string{"login.microsoftonline.com", "login.partner.microsoftonline.cn", "login.chinacloudapi.cn", "login.microsoftonline.us"}, name) {
		return ""
	}
	return host
}
