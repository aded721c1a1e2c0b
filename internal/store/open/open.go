// Package open turns configuration into a store: the provider's name, the container, and
// credentials in the forms the original knows. It is the only package that imports every
// provider.
//
// It does not read the environment: [FromEnvironment] is given a lookup by the program's main
// and picks out what concerns stores. (The SDKs' ambient identities do read it; that is what
// makes them ambient.) It does not decorate the store, either: retries and metrics are wired
// by who opens.
//
// No error made here contains a secret.
package open

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/azure"
	"druid.internal/druid/internal/store/gcs"
	"druid.internal/druid/internal/store/local"
	"druid.internal/druid/internal/store/oss"
	"druid.internal/druid/internal/store/s3"
	"druid.internal/druid/internal/store/swift"
)

// Config says which store to open. The comments name the original's flags.
type Config struct {
	Provider         string // --storage-provider; see Providers
	Container        string // --store-container; empty: the environment's
	EndpointOverride string // --store-endpoint-override; goes before an endpoint among the credentials
	Environment      Environment

	// Encryption is requested with each upload. It goes before the credentials.
	Encryption Encryption

	MinChunkSize            int64 // --min-chunk-size, bytes; 0: the provider's default
	MaxParallelChunkUploads int   // --max-parallel-chunk-uploads; 0: the provider's default

	// Proxy chooses the proxy of an HTTP request; nil: none. Mains pass http.ProxyFromEnvironment.
	Proxy func(*http.Request) (*url.URL, error)
}

// Encryption is a server-side encryption of the S3 protocol. Empty: none is requested.
type Encryption struct {
	Algorithm string // --store-server-side-encryption: AES256, aws:kms or aws:kms:dsse
	KMSKeyID  string // --store-kms-key-id
}

// Open opens the store. It fails, in one line that says what to do, where a field is missing,
// a file is malformed, the provider is unknown, the endpoint cannot be reached or the
// container does not exist.
func Open(ctx context.Context, c Config) (store.Store, error) {
	c, p, err := c.complete()
	if err != nil {
		return nil, err
	}
	switch p {
	case S3:
		return using[store.Store](ctx, c.ofS3, s3.New)
	case ECS:
		return using[store.Store](ctx, c.ofECS, s3.New)
	case OCS:
		return using[store.Store](ctx, c.ofOCS, s3.New)
	case Local:
		return using[store.Store](ctx, c.ofLocal, func(_ context.Context, root string) (*local.Store, error) { return local.New(root, local.Options{}) })
	case ABS:
		return using[store.Store](ctx, c.ofABS, azure.New)
	case Swift:
		return using[store.Store](ctx, c.ofSwift, swift.New)
	case OSS:
		return using[store.Store](ctx, c.ofOSS, oss.New)
	case GCS:
		return using[store.Store](ctx, c.ofGCS, gcs.New)
	}
	return nil, fmt.Errorf("storage provider %s cannot be opened: use one of %s", p, Supported())
}

// complete finds the provider and fills in what the environment says.
func (c Config) complete() (Config, Provider, error) {
	p, err := ParseProvider(c.Provider)
	if err != nil {
		return c, "", err
	}
	if c.Container == "" {
		c.Container = c.Environment.Container
	}
	if c.Encryption != (Encryption{}) {
		switch {
		case p != S3 && p != ECS && p != OCS:
			return c, "", fmt.Errorf("%s: serverSideEncryption (--store-server-side-encryption, --store-kms-key-id) is a setting of S3, ECS and OCS: remove it, and set encryption up in the provider", p)
		case c.Encryption.Algorithm == "":
			return c, "", errors.New("--store-kms-key-id is given without --store-server-side-encryption: set that to aws:kms")
		}
	}
	c.Proxy = c.Environment.Proxies.checked(c.Proxy)
	return c, p, nil
}

// using opens with the options that of finds. What is opened is a T.
func using[T, O, S any](ctx context.Context, of func() (O, error), open func(context.Context, O) (S, error)) (T, error) {
	var none T
	o, err := of()
	if err != nil {
		return none, err
	}
	s, err := open(ctx, o)
	if err != nil {
		return none, err // and not an S that is nil
	}
	return any(s).(T), nil
}

// DefaultLocalContainer is the directory below the home directory that the original uses when
// no container is named.
const DefaultLocalContainer = "default.bkp"

// ofLocal uses an absolute container as it stands; others are below the home directory.
func (c Config) ofLocal() (root string, err error) {
	if filepath.IsAbs(c.Container) {
		return c.Container, nil
	}
	if c.Environment.Home == "" {
		return "", errors.New("Local: the container is not absolute and HOME is not set: name an absolute directory (--store-container)")
	}
	container := c.Container
	if container == "" {
		container = DefaultLocalContainer
	}
	if !filepath.IsLocal(container) {
		return "", fmt.Errorf("Local: the container %q leads out of the home directory: name an absolute directory (--store-container)", container)
	}
	return filepath.Join(c.Environment.Home, container), nil
}

// s3Options are what all providers of the S3 protocol share.
func (c Config) s3Options(p Provider) s3.Options {
	from := ""
	if c.EndpointOverride != "" {
		from = "the endpoint override"
	}
	return s3.Options{
		EndpointFrom: from,
		Provider:     string(p), Bucket: c.Container, Endpoint: c.EndpointOverride,
		PartSize: c.MinChunkSize, ParallelParts: c.MaxParallelChunkUploads,
		Encryption: c.Encryption.Algorithm, KMSKeyID: c.Encryption.KMSKeyID,
		Proxy: c.Proxy,
	}
}
