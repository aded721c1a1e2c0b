package open

import "strings"

// variable is an environment variable that stands in for a field of credentials.
type variable struct{ name, field string }

// The variables of settings, without the prefix of the store.
var (
	// storageVariables count for every provider of the S3 protocol.
	storageVariables = []variable{
		{"STORAGE_CONDITIONAL_PUT", fieldConditionalPut},
		{"STORAGE_SERVER_SIDE_ENCRYPTION", fieldEncryption},
		{"STORAGE_KMS_KEY_ID", fieldKMSKey},
	}
	// awsVariables are the SDK's own. They count for S3.
	awsVariables = []variable{
		{"AWS_REQUEST_CHECKSUM_CALCULATION", fieldRequestChecksum},
		{"AWS_RESPONSE_CHECKSUM_VALIDATION", fieldResponseChecksum},
	}
	// ossVariables are those of OSS' command line and SDKs.
	ossVariables = []variable{{"OSS_ENDPOINT", fieldStorageEndpoint}, {"OSS_REGION", fieldRegion}}
	// swiftVariables are those of OpenStack's command line. OS_REGION_NAME goes before the field.
	swiftVariables = []variable{{"OS_AUTH_URL", fieldAuthURL}}
	// ecsVariables hold everything that the fields of S3 hold. The first five are upstream's.
	ecsVariables = []variable{
		{"ECS_ENDPOINT", fieldEndpoint},
		{"ECS_ACCESS_KEY_ID", fieldAccessKeyID},
		{"ECS_SECRET_ACCESS_KEY", fieldSecretAccessKey},
		{"ECS_DISABLE_SSL", fieldDisableSSL},
		{"ECS_INSECURE_SKIP_VERIFY", fieldInsecureSkipVerify},
		{"ECS_SESSION_TOKEN", fieldSessionToken},
		{"ECS_REGION", fieldRegion},
		{"ECS_TRUSTED_CA_CERT", fieldTrustedCA},
		{"ECS_FORCE_PATH_STYLE", fieldPathStyle},
		{"ECS_SSE_CUSTOMER_KEY", fieldCustomerKey},
		{"ECS_SSE_CUSTOMER_ALGORITHM", fieldCustomerAlgorithm},
		{"ECS_REQUEST_CHECKSUM_CALCULATION", fieldRequestChecksum},
		{"ECS_RESPONSE_CHECKSUM_VALIDATION", fieldResponseChecksum},
		{"ECS_CONDITIONAL_PUT", fieldConditionalPut},
		{"ECS_SERVER_SIDE_ENCRYPTION", fieldEncryption},
		{"ECS_KMS_KEY_ID", fieldKMSKey},
	}
)

// Values are settings from the environment, by the field of credentials that each stands in for.
type Values map[string]Value

// Value is the value of one variable.
type Value struct{ Variable, Text string }

// values reads variables whose names begin with prefix. Variables that are not set are left out.
func values(getenv func(string) string, prefix string, variables []variable) Values {
	v := Values{}
	for _, name := range variables {
		if text := getenv(prefix + name.name); text != "" {
			v[name.field] = Value{prefix + name.name, clean(name.field, text)}
		}
	}
	return v
}

// either is the variable with the prefix of the store, else the one without.
func either(getenv func(string) string, prefix, name string) Value {
	for _, name := range []string{prefix + name, name} {
		if text := strings.TrimSpace(getenv(name)); text != "" {
			return Value{name, text}
		}
	}
	return Value{}
}

// orElse is f, with the values of v for the fields that f has not.
func (f fields) orElse(v Values) fields {
	all := fields{source: f.source, dir: f.dir, values: map[string]string{}, variables: map[string]string{}}
	for field, value := range v {
		all.values[field], all.variables[field] = value.Text, value.Variable
	}
	for field, text := range f.values {
		if text != "" || all.values[field] == "" {
			all.values[field] = text
			delete(all.variables, field)
		}
	}
	for field, name := range f.variables {
		all.variables[field] = name
	}
	return all
}

// name is where a field comes from, for messages.
func (f fields) name(field string) string {
	if v := f.variables[field]; v != "" {
		return v
	}
	return f.source + ": the field " + field
}
