package s3

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
)

// Profile are the settings of endpoints in a profile of the SDK's shared configuration. Empty: not
// set.
type Profile struct {
	URLS3, URLSTS, URL string // endpoint_url of the services section, and of the profile
	IgnoreURLs         string // ignore_configured_endpoint_urls
	FIPS, DualStack    string // use_fips_endpoint, use_dualstack_endpoint
}

// ReadProfile reads a profile. A file or a profile that is not there has no settings.
func ReadProfile(configFiles, credentialsFiles []string, profile string) (Profile, error) {
	shared, err := config.LoadSharedConfigProfile(context.Background(), profile, func(o *config.LoadSharedConfigOptions) {
		o.ConfigFiles, o.CredentialsFiles = configFiles, credentialsFiles
	})
	var missing config.SharedConfigProfileNotExistError
	if errors.As(err, &missing) {
		return Profile{}, nil
	}
	if err != nil {
		return Profile{}, err
	}
	p := Profile{
		URL: shared.BaseEndpoint, URLS3: shared.Services.ServiceValues["s3"]["endpoint_url"], URLSTS: shared.Services.ServiceValues["sts"]["endpoint_url"],
	}
	if shared.IgnoreConfiguredEndpoints != nil {
		p.IgnoreURLs = strconv.FormatBool(*shared.IgnoreConfiguredEndpoints)
	}
	if shared.UseFIPSEndpoint != aws.FIPSEndpointStateUnset {
		p.FIPS = strconv.FormatBool(shared.UseFIPSEndpoint == aws.FIPSEndpointStateEnabled)
	}
	if shared.UseDualStackEndpoint != aws.DualStackEndpointStateUnset {
		p.DualStack = strconv.FormatBool(shared.UseDualStackEndpoint == aws.DualStackEndpointStateEnabled)
	}
	return p, nil
}

// checkVariants checks FIPS and dual-stack endpoints against an endpoint that is named. They are
// variants of the endpoints that AWS has for a region, so they have no effect at another server.
// An endpoint of AWS that is no FIPS endpoint contradicts the setting.
func (o Options) checkVariants() error {
	if !o.FIPS || o.Endpoint == "" || !o.ofAWS() {
		return nil
	}
	if u, err := url.Parse(o.Endpoint); err == nil && strings.Contains(u.Hostname(), "fips") {
		return nil
	}
	return fmt.Errorf("%s requires a FIPS endpoint, and the endpoint %s is not one: remove the endpoint, or name one such as https://s3-fips.us-east-1.amazonaws.com", o.fipsFrom(), o.Endpoint)
}

func (o Options) fipsFrom() string {
	if o.FIPSFrom != "" {
		return o.FIPSFrom
	}
	return "AWS_USE_FIPS_ENDPOINT"
}

// endpoint describes where requests go, and which setting says so.
func (o Options) endpoint(ctx context.Context) string {
	if o.Endpoint != "" {
		text := o.Endpoint
		if o.EndpointFrom != "" {
			text += " (" + o.EndpointFrom + ")"
		}
		switch {
		case o.FIPS && !o.ofAWS():
			text += "; " + o.fipsFrom() + " has no effect: it chooses among the endpoints of AWS"
		case o.FIPS:
			text += "; FIPS"
		}
		return text
	}
	resolved, err := awss3.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx, awss3.EndpointParameters{
		Region: &o.Region, UseFIPS: &o.FIPS, UseDualStack: &o.DualStack,
	})
	if err != nil {
		return "AWS in " + o.Region
	}
	text := resolved.URI.Scheme + "://" + resolved.URI.Host + " (AWS, region " + o.Region
	if o.FIPS {
		text += "; FIPS by " + o.fipsFrom()
	}
	if o.DualStack {
		text += "; dual-stack by " + o.DualStackFrom
	}
	return text + ")"
}
