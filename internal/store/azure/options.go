package azure

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// Limits of the service and of our own patience.
const (
	maxBlocks    = 50_000
	maxBlockSize = 4000 << 20
	maxKeyChars  = 1024
	maxTags      = 10

	defaultBlockSize      = 8 << 20
	minBlockSize          = 1 << 20
	defaultParallelBlocks = 5
	defaultIdleTimeout    = 2 * time.Minute
	defaultAttempts       = 4
	maxBackoff            = 10 * time.Second

	// cleanupTimeout bounds finding out what became of a write after the caller has given up.
	cleanupTimeout = 30 * time.Second
)

// DefaultDomain is where accounts of the public cloud are.
const DefaultDomain = "blob.core.windows.net"

// Options say which container and how to reach it.
type Options struct {
	Account   string
	Container string
	// Domain is what follows the account in the host name; empty: DefaultDomain.
	Domain string
	// Endpoint is the URL of the account elsewhere. Where the account is not the beginning of
	// the host name it is added to the path, as Azurite wants it. Without a scheme it is https.
	Endpoint string

	// Keys are asked before each request, so that a rotation is noticed. nil: Identity.
	Keys func() (Keys, error)
	// Identity asks Microsoft Entra ID for tokens; nil without Keys is the ambient identity of
	// the SDK (workload identity, managed identity, environment, az login).
	Identity azcore.TokenCredential
	// Authority is the host that the ambient identity asks for tokens, if it is none of
	// Microsoft's; empty: the SDK's choice.
	Authority string
	// Management says where the container's policy can be read; nil: it is not read.
	Management *Management
	// ManagementIdentity is who reads it, since that takes no keys; nil: Identity, else the
	// ambient one.
	ManagementIdentity azcore.TokenCredential

	// InsecureSkipVerify switches off the verification of the server's certificate.
	InsecureSkipVerify bool
	TrustedCAs         []byte // PEM, trusted besides the system's
	// Proxy chooses the proxy of a request; nil: none.
	Proxy func(*http.Request) (*url.URL, error)

	BlockSize      int64         // bytes per block and buffer; 0: 8 MiB, at least 1 MiB
	ParallelBlocks int           // blocks sent at once, also buffers in memory less one; 0: 5
	IdleTimeout    time.Duration // a connection on which nothing moves for so long is dropped; 0: 2 min
	Attempts       int           // of one request; 0: 4
	PageSize       int32         // blobs per request of a listing; 0: the service's 5000
}

// Keys are an account key or a shared access signature (SAS), never both.
type Keys struct {
	AccountKey string // base64
	SAS        string // a query, with or without the question mark
}

// Management is the way to the management API (Azure Resource Manager).
type Management struct {
	Subscription, ResourceGroup string
	Endpoint                    string // empty: that of the cloud the account's domain belongs to
}

// complete checks the options and fills in the defaults.
func (o Options) complete() (Options, error) {
	switch {
	case o.Account == "":
		return o, errors.New("ABS: the storage account is missing (field storageAccount of the credentials)")
	case !accountName(o.Account):
		return o, fmt.Errorf("ABS: %q cannot be a storage account: its name has 3 to 24 lower-case letters and digits (field storageAccount)", o.Account)
	case o.Container == "":
		return o, errors.New("ABS: no container is named (--store-container)")
	case !containerName(o.Container):
		return o, fmt.Errorf("ABS: %q cannot be a container: its name has 3 to 63 lower-case letters, digits and single hyphens (--store-container)", o.Container)
	case o.Keys != nil && o.Identity != nil:
		return o, errors.New("ABS: both a key and an identity are given, which is one too many")
	}
	if m := o.Management; m != nil && (m.Subscription == "" || m.ResourceGroup == "") {
		return o, errors.New("ABS: the management API needs both the subscription and the resource group (fields subscriptionID and resourceGroup)")
	}
	if o.Domain == "" {
		o.Domain = DefaultDomain
	}
	if err := o.completeEndpoint(); err != nil {
		return o, err
	}
	if o.BlockSize == 0 {
		o.BlockSize = defaultBlockSize
	}
	o.BlockSize = min(max(o.BlockSize, minBlockSize), maxBlockSize)
	if o.ParallelBlocks <= 0 {
		o.ParallelBlocks = defaultParallelBlocks
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = defaultIdleTimeout
	}
	if o.Attempts <= 0 {
		o.Attempts = defaultAttempts
	}
	return o, nil
}

// completeEndpoint makes Endpoint the URL of the account.
func (o *Options) completeEndpoint() error {
	if o.Endpoint == "" {
		o.Endpoint = o.Account + "." + strings.Trim(o.Domain, "./")
	}
	if !strings.Contains(o.Endpoint, "://") {
		o.Endpoint = "https://" + o.Endpoint
	}
	u, err := url.Parse(o.Endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("ABS: the endpoint %q is not a URL like https://ACCOUNT.%s", redact(o.Endpoint), DefaultDomain)
	case u.User != nil || u.RawQuery != "":
		return fmt.Errorf("ABS: the endpoint at %s must not contain a user, a password or a query (a SAS goes into the field sasToken)", u.Host)
	}
	if !strings.HasPrefix(u.Hostname(), o.Account+".") && !strings.HasPrefix(u.Hostname(), o.Account+"-secondary.") &&
		!strings.HasSuffix("/"+strings.Trim(u.Path, "/"), "/"+o.Account) {
		u.Path = strings.TrimRight(u.Path, "/") + "/" + o.Account
	}
	u.Path = strings.TrimRight(u.Path, "/")
	o.Endpoint = u.String()
	return nil
}

// redact keeps what may be a secret out of messages: everything before an @ and after a ?.
func redact(s string) string {
	if i := strings.LastIndex(s, "@"); i >= 0 {
		s = "***" + s[i:]
	}
	s, _, _ = strings.Cut(s, "?")
	return s
}

// accountName: https://learn.microsoft.com/azure/storage/common/storage-account-overview
func accountName(s string) bool {
	return len(s) >= 3 && len(s) <= 24 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// containerName: https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata
func containerName(s string) bool {
	if s == "$root" || s == "$web" {
		return true
	}
	return len(s) >= 3 && len(s) <= 63 && !strings.Contains(s, "--") && s[0] != '-' && s[len(s)-1] != '-' &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// location is where the container is, for messages.
func (o Options) location() string { return "container " + o.Container + " at " + o.Endpoint }
