package open

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"druid.internal/druid/internal/store/s3"
)

// AWS are the variables by which the SDK of AWS finds its endpoints.
type AWS struct {
	URLS3, URL, URLSTS    Value  // AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_STS
	FIPS, DualStack       Value  // AWS_USE_FIPS_ENDPOINT, AWS_USE_DUALSTACK_ENDPOINT
	Ignore                Value  // AWS_IGNORE_CONFIGURED_ENDPOINT_URLS
	Profile               string // AWS_PROFILE, or default
	ConfigFile, Passwords string // AWS_CONFIG_FILE, AWS_SHARED_CREDENTIALS_FILE, or those in the home directory
}

// awsFrom reads the variables. One with the prefix of the store goes before the one without. Files and
// the profile have no prefix: the SDK's identity reads them as well.
func awsFrom(getenv func(string) string, prefix string) AWS {
	value := func(name string) Value { return either(getenv, prefix, name) }
	file := func(name, standard string) string {
		if path := getenv(name); path != "" || getenv("HOME") == "" {
			return path
		}
		return filepath.Join(getenv("HOME"), ".aws", standard)
	}
	return AWS{
		URLS3: value("AWS_ENDPOINT_URL_S3"), URL: value("AWS_ENDPOINT_URL"), URLSTS: value("AWS_ENDPOINT_URL_STS"),
		FIPS: value("AWS_USE_FIPS_ENDPOINT"), DualStack: value("AWS_USE_DUALSTACK_ENDPOINT"),
		Ignore:     value("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"),
		Profile:    cmp.Or(getenv("AWS_PROFILE"), getenv("AWS_DEFAULT_PROFILE"), "default"),
		ConfigFile: file("AWS_CONFIG_FILE", "config"), Passwords: file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
	}
}

// apply sets the endpoints that no explicit setting names: by the variables, else by the profile
// of the shared configuration.
func (a AWS) apply(o *s3.Options) error {
	p, err := s3.ReadProfile([]string{a.ConfigFile}, []string{a.Passwords}, a.Profile)
	if err != nil && o.Endpoint == "" {
		return fmt.Errorf("the shared configuration of AWS names endpoints and cannot be read: correct it, or set AWS_CONFIG_FILE to another file: %w", err)
	}
	in := fmt.Sprintf(" of the profile %s in %s", a.Profile, a.ConfigFile)
	ignore, err := first(a.Ignore, Value{"ignore_configured_endpoint_urls" + in, p.IgnoreURLs}).boolean()
	if err != nil {
		return err
	}
	if !ignore {
		if chosen := first(a.URLS3, a.URL, Value{"endpoint_url" + in, p.URLS3}, Value{"endpoint_url" + in, p.URL}); o.Endpoint == "" && chosen.Text != "" {
			if err := chosen.isURL(); err != nil {
				return err
			}
			o.Endpoint, o.EndpointFrom = chosen.Text, chosen.Variable
		}
		sts := first(a.URLSTS, a.URL, Value{"endpoint_url" + in, p.URLSTS}, Value{"endpoint_url" + in, p.URL})
		if sts.Text != "" {
			if err := sts.isURL(); err != nil {
				return err
			}
		}
		o.STSEndpoint = sts.Text
	}
	fips := first(a.FIPS, Value{"use_fips_endpoint" + in, p.FIPS})
	if o.FIPS, err = fips.boolean(); err != nil {
		return err
	}
	o.FIPSFrom = fips.Variable
	dualStack := first(a.DualStack, Value{"use_dualstack_endpoint" + in, p.DualStack})
	if o.DualStack, err = dualStack.boolean(); err != nil {
		return err
	}
	o.DualStackFrom = dualStack.Variable
	return nil
}

// first is the first value that is set.
func first(values ...Value) Value {
	for _, v := range values {
		if v.Text != "" {
			return v
		}
	}
	return Value{}
}

// boolean reads a setting that is true or false; one that is not set is false.
func (v Value) boolean() (bool, error) {
	if v.Text == "" {
		return false, nil
	}
	b, err := strconv.ParseBool(strings.ToLower(v.Text))
	if err != nil {
		return false, fmt.Errorf("%s must be true or false", v.Variable)
	}
	return b, nil
}

// isURL checks that a value is the URL of a server. The error does not show it: there may be a
// password in it.
func (v Value) isURL() error {
	u, err := url.Parse(v.Text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return errors.New(v.Variable + " is not a URL like https://s3.example.com, without user and password")
	}
	return nil
}
