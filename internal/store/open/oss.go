package open

import (
	"fmt"

	"druid.internal/druid/internal/store/oss"
)

// The fields of credentials for OSS, as the original names them. What it does not know: region,
// securityToken, insecureSkipVerify, trustedCaCert.
const (
	fieldStorageEndpoint = "storageEndpoint"
	fieldAccessKeySecret = "accessKeySecret"
	fieldSecurityToken   = "securityToken"
)

// ossFields are those that are read again when their files change.
var ossFields = []string{fieldAccessKeyID, fieldAccessKeySecret, fieldSecurityToken}

// ofOSS uses an access key.
func (c Config) ofOSS() (oss.Options, error) {
	files := c.Environment.Alicloud
	if !files.set() {
		return oss.Options{}, fmt.Errorf("OSS: there are no credentials: set %s or %s_JSON", files.Variable, files.Variable)
	}
	o := oss.Options{
		Bucket: c.Container, Endpoint: c.EndpointOverride,
		PartSize: c.MinChunkSize, ParallelParts: c.MaxParallelChunkUploads, Proxy: c.Proxy,
	}
	f, err := files.read()
	if err == nil {
		err = f.orElse(c.Environment.OSS).applyOSS(&o)
	}
	if err != nil {
		return o, fmt.Errorf("OSS: %w", err)
	}
	keys := newRotating(files, ossFields, fields.ossKeys)
	if _, err := keys.get(); err != nil {
		return o, fmt.Errorf("OSS: %w", err)
	}
	o.Keys = keys.get
	return o, nil
}

// applyOSS sets everything but the access key.
func (f fields) applyOSS(o *oss.Options) error {
	if o.Endpoint == "" {
		if err := f.required(fieldStorageEndpoint); err != nil {
			return err
		}
		o.Endpoint = f.values[fieldStorageEndpoint]
	}
	o.Region = f.values[fieldRegion]
	o.TrustedCAs = []byte(f.values[fieldTrustedCA])
	var err error
	o.InsecureSkipVerify, err = f.boolean(fieldInsecureSkipVerify)
	return err
}

func (f fields) ossKeys() (oss.Keys, error) {
	if err := f.required(fieldAccessKeyID, fieldAccessKeySecret); err != nil {
		return oss.Keys{}, err
	}
	return oss.Keys{AccessKeyID: f.values[fieldAccessKeyID], AccessKeySecret: f.values[fieldAccessKeySecret], SecurityToken: f.values[fieldSecurityToken]}, nil
}
