package open

// The prefixes of environment variables, for the second store of a copy and of a sidecar.
const (
	SourcePrefix    = "SOURCE_"
	SecondaryPrefix = "SECONDARY_"
)

// googleVariable is the one that the SDK of Google reads as well.
const googleVariable = "GOOGLE_APPLICATION_CREDENTIALS"

// Environment is what the environment says about stores, picked out once.
type Environment struct {
	Prefix    string // of the variables' names, for messages
	Home      string
	Container string // STORAGE_CONTAINER
	CABundle  string // AWS_CA_BUNDLE, a file; counts for the ambient identity only

	AWS, OpenShift Files

	OpenStack    Files
	Swift        Values // of the variables of OpenStack's own programs
	StorageURL   Value  // OS_STORAGE_URL
	Region       string // OS_REGION_NAME
	SharedRegion string // OS_REGION_NAME without the prefix, for where nothing else names a region

	Google Google

	Azure          Files
	AzureAuthority string // AZURE_AUTHORITY_HOST; counts for the ambient identity only

	AzureEndpoint Value // AZURE_STORAGE_SERVICE_ENDPOINT

	Alicloud Files
	OSS      Values // of the variables of OSS' own programs

	ECS       Files
	ECSValues Values // of the ECS_ variables
	ECSPrefix string // of their names, for messages

	Storage Values // of the variables that count for every provider of the S3 protocol
	AWSSDK  Values // of the SDK's own variables
	SDK     AWS    // of the SDK's endpoints

	Proxies Proxies // without the prefix: they are of the network, not of a store
}

// Files say where credentials are. Empty paths: not set.
type Files struct {
	Variable  string // the name of the environment variable, without _JSON, for messages
	Directory string // one file per field, or one file *.json
	JSON      string // a file; goes before the directory
}

// FromEnvironment picks out the variables that begin with prefix (empty, SourcePrefix or
// SecondaryPrefix). ECS has none with a prefix in the original; they go first if they are set.
func FromEnvironment(getenv func(string) string, prefix string) Environment {
	files := func(name string) Files {
		name = prefix + name
		return Files{Variable: name, Directory: getenv(name), JSON: getenv(name + "_JSON")}
	}
	ecs := prefix
	if getenv(ecs+"ECS_ENDPOINT") == "" && getenv(ecs+"ECS_ACCESS_KEY_ID") == "" {
		ecs = ""
	}
	google := Google{Emulator: either(getenv, prefix, "STORAGE_EMULATOR_HOST"), Variable: prefix + googleVariable, Path: getenv(prefix + googleVariable)}
	if prefix != "" && getenv(googleVariable) != "" {
		google.Shared = googleVariable
	}
	return Environment{
		Google:  google,
		Proxies: proxiesFrom(getenv),

		Azure:          files(azureVariable),
		AzureAuthority: getenv("AZURE_AUTHORITY_HOST"),

		Prefix:    prefix,
		Home:      getenv("HOME"),
		Container: getenv(prefix + "STORAGE_CONTAINER"),
		CABundle:  getenv("AWS_CA_BUNDLE"),
		AWS:       files("AWS_APPLICATION_CREDENTIALS"),
		OpenShift: files("OPENSHIFT_APPLICATION_CREDENTIALS"),

		AzureEndpoint: either(getenv, prefix, "AZURE_STORAGE_SERVICE_ENDPOINT"),

		Alicloud: files("ALICLOUD_APPLICATION_CREDENTIALS"),
		OSS:      values(getenv, prefix, ossVariables),
		Swift:    values(getenv, prefix, swiftVariables), StorageURL: either(getenv, prefix, "OS_STORAGE_URL"),

		OpenStack:    files("OPENSTACK_APPLICATION_CREDENTIALS"),
		Region:       getenv(prefix + "OS_REGION_NAME"),
		SharedRegion: getenv("OS_REGION_NAME"),

		ECS:       files("ECS_APPLICATION_CREDENTIALS"),
		ECSValues: values(getenv, ecs, ecsVariables),
		ECSPrefix: ecs,

		Storage: values(getenv, prefix, storageVariables),
		AWSSDK:  values(getenv, "", awsVariables),
		SDK:     awsFrom(getenv, prefix),
	}
}
