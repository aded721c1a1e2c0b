package open

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"druid.internal/druid/internal/store/s3"
)

// The fields of credentials for S3, ECS and OCS, as the original names them.
const (
	fieldAccessKeyID        = "accessKeyID"
	fieldSecretAccessKey    = "secretAccessKey"
	fieldSessionToken       = "sessionToken" // not the original's
	fieldRegion             = "region"
	fieldRoleARN            = "roleARN"
	fieldToken              = "token"
	fieldEndpoint           = "endpoint"
	fieldPathStyle          = "s3ForcePathStyle"
	fieldInsecureSkipVerify = "insecureSkipVerify"
	fieldTrustedCA          = "trustedCaCert"
	fieldCustomerKey        = "sseCustomerKey"
	fieldCustomerAlgorithm  = "sseCustomerAlgorithm"
	fieldRequestChecksum    = "requestChecksumCalculation"
	fieldResponseChecksum   = "responseChecksumValidation"
	fieldDisableSSL         = "disableSSL"
	fieldConditionalPut     = "conditionalPut"       // not upstream's
	fieldEncryption         = "serverSideEncryption" // not upstream's
	fieldKMSKey             = "kmsKeyID"             // not upstream's
)

// keyFields are those that are read again when their files change.
var keyFields = []string{fieldAccessKeyID, fieldSecretAccessKey, fieldSessionToken}

// ofS3 uses an access key, a role with a web identity token, or, if the environment names
// no credentials, whatever identity is ambient.
func (c Config) ofS3() (s3.Options, error) {
	o := c.s3Options(S3)
	files := c.Environment.AWS
	f := fields{source: "environment"}
	if files.set() {
		var err error
		if f, err = files.read(); err != nil {
			return o, fmt.Errorf("S3: %w", err)
		}
	}
	if err := f.orElse(c.Environment.Storage).orElse(c.Environment.AWSSDK).apply(&o); err != nil {
		return o, fmt.Errorf("S3: %w", err)
	}
	if err := c.Environment.SDK.apply(&o); err != nil {
		return o, fmt.Errorf("S3: %w", err)
	}
	if files.set() {
		if err := f.identity(&o, files); err != nil {
			return o, fmt.Errorf("S3: %w", err)
		}
	} else if bundle := c.Environment.CABundle; bundle != "" {
		var err error
		if o.TrustedCAs, err = os.ReadFile(bundle); err != nil {
			return o, fmt.Errorf("S3: AWS_CA_BUNDLE: %w", err)
		}
	}
	return o, nil
}

// ofOCS is S3 with an endpoint of its own, and access keys only.
func (c Config) ofOCS() (s3.Options, error) {
	files := c.Environment.OpenShift
	if !files.set() {
		return s3.Options{}, fmt.Errorf("OCS: there are no credentials: set %s or %s_JSON", files.Variable, files.Variable)
	}
	return c.ofServer(OCS, files, fieldRegion)
}

// ofECS is S3 with an endpoint of its own, and access keys only. Without files, everything comes
// from environment variables.
func (c Config) ofECS() (s3.Options, error) {
	e := c.Environment
	if e.ECS.set() {
		return c.ofServer(ECS, e.ECS)
	}
	f := fields{source: "environment"}.orElse(e.ECSValues)
	var missing []string
	for _, v := range ecsVariables[:3] {
		if f.values[v.field] == "" && (v.field != fieldEndpoint || c.EndpointOverride == "") {
			missing = append(missing, e.ECSPrefix+v.name)
		}
	}
	if len(missing) > 0 {
		return s3.Options{}, fmt.Errorf("ECS: the environment lacks %s", strings.Join(missing, ", "))
	}
	o := c.s3Options(ECS)
	if err := f.orElse(e.Storage).apply(&o); err != nil {
		return s3.Options{}, fmt.Errorf("ECS: %w", err)
	}
	keys := s3.Keys{AccessKeyID: f.values[fieldAccessKeyID], SecretAccessKey: f.values[fieldSecretAccessKey], SessionToken: f.values[fieldSessionToken]}
	o.Keys = func() (s3.Keys, error) { return keys, nil }
	return o, nil
}

// ofServer is S3 at a server that is not AWS. Its credentials have an access key, an endpoint
// unless the configuration names one, and the fields that are needed besides.
func (c Config) ofServer(p Provider, files Files, needed ...string) (s3.Options, error) {
	f, err := files.read()
	if err != nil {
		return s3.Options{}, fmt.Errorf("%s: %w", p, err)
	}
	o := c.s3Options(p)
	if err := f.orElse(c.Environment.Storage).apply(&o); err != nil {
		return s3.Options{}, fmt.Errorf("%s: %w", p, err)
	}
	needed = append([]string{fieldAccessKeyID, fieldSecretAccessKey}, needed...)
	if o.Endpoint == "" {
		needed = append(needed, fieldEndpoint)
	}
	if err := f.required(needed...); err != nil {
		return s3.Options{}, fmt.Errorf("%s: %w", p, err)
	}
	o.Keys = rotatingKeys(files)
	return o, nil
}

// apply sets everything but the identity.
func (f fields) apply(o *s3.Options) error {
	o.Region = f.values[fieldRegion]
	if o.Endpoint == "" && f.values[fieldEndpoint] != "" {
		o.Endpoint, o.EndpointFrom = f.values[fieldEndpoint], f.name(fieldEndpoint)
	}
	disableSSL, err := f.boolean(fieldDisableSSL)
	if err != nil {
		return err
	}
	if o.Endpoint != "" && !strings.Contains(o.Endpoint, "://") {
		scheme := "https://"
		if disableSSL {
			scheme = "http://"
		}
		o.Endpoint = scheme + o.Endpoint
	}
	if o.InsecureSkipVerify, err = f.boolean(fieldInsecureSkipVerify); err != nil {
		return err
	}
	if o.PathStyle, err = f.boolean(fieldPathStyle); err != nil {
		return err
	}
	// Servers of one's own rarely have a name for every bucket, so it takes an explicit no.
	o.VirtualHost = f.values[fieldPathStyle] != "" && !o.PathStyle
	o.TrustedCAs = []byte(f.values[fieldTrustedCA])
	o.CustomerKey, o.CustomerAlgorithm = f.values[fieldCustomerKey], f.values[fieldCustomerAlgorithm]
	if o.CustomerAlgorithm != "" && o.CustomerKey == "" {
		return fmt.Errorf("%s: %s is given without %s", f.source, fieldCustomerAlgorithm, fieldCustomerKey)
	}
	if o.Encryption == "" { // else the configuration names it
		o.Encryption, o.KMSKeyID = f.values[fieldEncryption], f.values[fieldKMSKey]
	}
	if o.LegacyChecksums, err = f.whenRequired(fieldRequestChecksum); err != nil {
		return err
	}
	if o.SkipResponseChecksums, err = f.whenRequired(fieldResponseChecksum); err != nil {
		return err
	}
	if f.values[fieldResponseChecksum] == "" { // a server that is sent no checksums has none to return
		o.SkipResponseChecksums = o.LegacyChecksums
	}
	if f.values[fieldConditionalPut] != "" {
		b, err := f.boolean(fieldConditionalPut)
		if err != nil {
			return err
		}
		o.ConditionalPut = &b
	}
	return nil
}

// whenRequired reads one of the SDK's two settings of checksums.
func (f fields) whenRequired(name string) (bool, error) {
	switch strings.ToLower(f.values[name]) {
	case "", "when_supported":
		return false, nil
	case "when_required":
		return true, nil
	}
	return false, fmt.Errorf("%s must be when_supported or when_required", f.name(name))
}

// identity sets who asks: an access key, or a role.
func (f fields) identity(o *s3.Options, files Files) error {
	key := f.values[fieldAccessKeyID] != "" || f.values[fieldSecretAccessKey] != ""
	role := f.values[fieldRoleARN] != ""
	switch {
	case key && role:
		return fmt.Errorf("%s: the credentials hold both an access key and %s, which one counts is unclear: leave one", f.source, fieldRoleARN)
	case role:
		if err := f.required(fieldRoleARN, fieldToken, fieldRegion); err != nil {
			return err
		}
		token, err := f.tokenFile()
		if err != nil {
			return err
		}
		o.WebIdentity = &s3.WebIdentity{RoleARN: f.values[fieldRoleARN], TokenFile: token}
		return nil
	}
	if err := f.required(fieldAccessKeyID, fieldSecretAccessKey, fieldRegion); err != nil {
		return err
	}
	o.Keys = rotatingKeys(files)
	return nil
}

// tokenFile is where the token is read from again and again: the file that the field names,
// or the file of the field itself.
func (f fields) tokenFile() (string, error) {
	value := f.values[fieldToken]
	if filepath.IsAbs(value) {
		return value, nil
	}
	if f.dir == "" {
		return "", errors.New(f.source + ": the field token must be the absolute path of a file that holds the token")
	}
	return filepath.Join(f.dir, fieldToken), nil
}
