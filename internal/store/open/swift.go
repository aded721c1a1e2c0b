package open

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"druid.internal/druid/internal/store/swift"
)

// The fields of credentials for Swift, as the original names them. What it does not know:
// projectDomainName, insecureSkipVerify, trustedCaCert, conditionalPut.
const (
	fieldAuthURL           = "authURL"
	fieldDomainName        = "domainName"
	fieldTenantName        = "tenantName"
	fieldUserName          = "username"
	fieldPassword          = "password"
	fieldApplicationID     = "applicationCredentialID"
	fieldApplicationName   = "applicationCredentialName"
	fieldApplicationSecret = "applicationCredentialSecret"
	fieldProjectDomainName = "projectDomainName"
)

// swiftFields are those that are read again when their files change.
var swiftFields = []string{fieldDomainName, fieldTenantName, fieldUserName, fieldPassword, fieldApplicationID, fieldApplicationName, fieldApplicationSecret, fieldProjectDomainName}

// ofSwift uses a user with a password or an application credential. The endpoint override
// is the storage URL, in place of the one that the identity service names.
func (c Config) ofSwift() (swift.Options, error) {
	files, storageURL := c.Environment.OpenStack, c.EndpointOverride
	if storageURL == "" {
		storageURL = c.Environment.StorageURL.Text
	}
	if !files.set() {
		return swift.Options{}, fmt.Errorf("Swift: there are no credentials: set %s or %s_JSON", files.Variable, files.Variable)
	}
	o := swift.Options{
		Container: c.Container, StorageURL: storageURL, PartSize: c.MinChunkSize,
		ParallelParts: c.MaxParallelChunkUploads, Proxy: c.Proxy,
	}
	f, err := files.read()
	if err == nil {
		err = f.orElse(c.Environment.Swift).applySwift(&o, c.Environment)
	}
	if err != nil {
		return o, fmt.Errorf("Swift: %w", err)
	}
	credentials := newRotating(files, swiftFields, func(f fields) (swift.Credentials, error) { return f.swiftCredentials(swift.NeedsProject(o.AuthURL)) })
	if _, err := credentials.get(); err != nil {
		return o, fmt.Errorf("Swift: %w", err)
	}
	o.Credentials = credentials.get
	return o, nil
}

// applySwift sets everything but the credentials. The region is the environment's, as in the
// original, else the field's.
func (f fields) applySwift(o *swift.Options, e Environment) error {
	if err := f.required(fieldAuthURL); err != nil {
		return err
	}
	o.AuthURL = f.values[fieldAuthURL]
	o.Region = e.Region
	if o.Region == "" {
		o.Region = f.values[fieldRegion]
	}
	if o.Region == "" {
		o.Region = e.SharedRegion
	}
	o.TrustedCAs = []byte(f.values[fieldTrustedCA])
	var err error
	if o.InsecureSkipVerify, err = f.boolean(fieldInsecureSkipVerify); err != nil {
		return err
	}
	if v := f.values[fieldConditionalPut]; v != "" {
		b, err := strconv.ParseBool(strings.ToLower(v))
		if err != nil {
			return fmt.Errorf("%s: the field %s must be true or false", f.source, fieldConditionalPut)
		}
		o.ConditionalPut = &b
	}
	return nil
}

// swiftCredentials reads who asks. An application credential knows its project.
func (f fields) swiftCredentials(project bool) (swift.Credentials, error) {
	v := f.values
	c := swift.Credentials{
		UserName: v[fieldUserName], Password: v[fieldPassword],
		DomainName: v[fieldDomainName], ProjectName: v[fieldTenantName], ProjectDomainName: v[fieldProjectDomainName],
		ApplicationID: v[fieldApplicationID], ApplicationName: v[fieldApplicationName], ApplicationSecret: v[fieldApplicationSecret],
	}
	application := c.ApplicationID != "" || c.ApplicationName != "" || c.ApplicationSecret != ""
	switch {
	case application && c.Password != "":
		return swift.Credentials{}, errors.New(f.source + ": the credentials hold both a password and an application credential, which one counts is unclear: leave one")
	case application && c.ApplicationID != "":
		return c, f.required(fieldApplicationSecret)
	case application: // its name counts within a user
		return c, f.required(fieldApplicationName, fieldApplicationSecret, fieldUserName, fieldDomainName)
	case project:
		return c, f.required(fieldUserName, fieldPassword, fieldDomainName, fieldTenantName)
	}
	return c, f.required(fieldUserName, fieldPassword)
}
