package desired

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

func TestWhichKeysOfASecretAreMissing(t *testing.T) {
	for phrase, c := range map[string]struct {
		provider, endpoint, keys, want string
	}{
		"an access key of S3":                     {"aws", "", "accessKeyID secretAccessKey region", ""},
		"an access key without its secret":        {"aws", "", "accessKeyID region", "secretAccessKey"},
		"nothing at all":                          {"aws", "", "", "accessKeyID secretAccessKey region"},
		"a role without a token":                  {"aws", "", "roleARN region", "token"},
		"all in one JSON object":                  {"aws", "", "credentials.json", ""},
		"ECS, a JSON object":                      {"ecs", "", "credentials.json", ""},
		"the endpoint is in the specification":    {"ocs", "https://x", "accessKeyID secretAccessKey region", ""},
		"the endpoint is nowhere":                 {"ocs", "", "accessKeyID secretAccessKey region", "endpoint"},
		"ECS, the endpoint in the store":          {"ecs", "https://x", "accessKeyID secretAccessKey", ""},
		"an account of Azure":                     {"azure", "", "storageAccount", ""},
		"no account of Azure":                     {"azure", "", "storageKey", "storageAccount"},
		"Google's file":                           {"gcp", "", "serviceaccount.json", ""},
		"another file for Google":                 {"gcp", "", "key.json", "serviceaccount.json"},
		"federation":                              {"gcp", "", "credentialsConfig token", ""},
		"an emulator of Google's":                 {"gcp", "http://x", "", ""},
		"an application credential":               {"openstack", "", "applicationCredentialID applicationCredentialSecret authURL", ""},
		"an application credential by its name":   {"openstack", "", "applicationCredentialName applicationCredentialSecret authURL", "username domainName"},
		"a user of Swift":                         {"openstack", "", "username password authURL", "domainName tenantName"},
		"a key of OSS":                            {"alicloud", "", "accessKeyID accessKeySecret", "storageEndpoint"},
		"a directory of the node":                 {"local", "", "", ""},
		"a provider that nobody knows is refused": {"stone", "", "", ""},
	} {
		provider := druidv1alpha1.StorageProvider(c.provider)
		s := &druidv1alpha1.StoreSpec{Provider: &provider}
		if c.endpoint != "" {
			s.EndpointOverride = &c.endpoint
		}
		secret := &corev1.Secret{Data: map[string][]byte{}}
		for _, k := range strings.Fields(c.keys) {
			secret.Data[k] = []byte("x")
		}
		if got := strings.Join(StoreLacks(s, secret), " "); got != c.want {
			t.Errorf("%s: lacks %q, want %q", phrase, got, c.want)
		}
	}
}

func TestEveryExampleHasTheKeysThatItsFieldsNeed(t *testing.T) {
	files, err := filepath.Glob("../../../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	looked := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		secrets, etcds := map[string]*corev1.Secret{}, []*druidv1alpha1.Etcd{}
		for _, doc := range strings.Split(string(text), "\n---\n") {
			var kind struct{ Kind string }
			if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			switch kind.Kind {
			case "Secret":
				s := &corev1.Secret{}
				if err := yaml.Unmarshal([]byte(doc), s); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				if s.Data == nil {
					s.Data = map[string][]byte{}
				}
				for k, v := range s.StringData {
					s.Data[k] = []byte(v)
				}
				secrets[s.Name] = s
			case "Etcd":
				e := &druidv1alpha1.Etcd{}
				if err := yaml.Unmarshal([]byte(doc), e); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				etcds = append(etcds, e)
			}
		}
		for _, e := range etcds {
			for _, use := range e.Secrets() {
				s := secrets[use.Name]
				if s == nil {
					continue // another file makes it
				}
				looked++
				if keys := Lacks(e, use.Field, s); len(keys) > 0 {
					t.Errorf("%s: %s (%s) lacks %q", file, use.Name, use.Field, keys)
				}
				if keys := Lacks(e, use.Field, &corev1.Secret{}); len(keys) == 0 {
					t.Errorf("%s: of %s (%s) no key is needed", file, use.Name, use.Field)
				}
			}
		}
	}
	if looked < 8 {
		t.Errorf("%d Secrets of examples were looked at", looked)
	}
}

func TestCertificatesAreLookedForWhereTheyAreMounted(t *testing.T) {
	bundle := "bundle.crt"
	e := &druidv1alpha1.Etcd{}
	section := func(dataKey *string) druidv1alpha1.TLSConfig {
		return druidv1alpha1.TLSConfig{TLSCASecretRef: druidv1alpha1.SecretReference{DataKey: dataKey}}
	}
	client, backup := section(&bundle), section(nil)
	e.Spec.Etcd.ClientUrlTLS, e.Spec.Backup.TLS = &client, &backup
	e.Spec.Etcd.PeerUrlTLS = &druidv1alpha1.PeerTLSConfig{TLSConfig: section(&bundle)}
	want := map[string][]string{
		"spec.etcd.clientUrlTls.tlsCASecretRef":     {"bundle.crt"},
		"spec.etcd.clientUrlTls.serverTLSSecretRef": {"tls.crt", "tls.key"},
		"spec.etcd.peerUrlTls.tlsCASecretRef":       {"bundle.crt"},
		"spec.backup.tls.tlsCASecretRef":            {"ca.crt"},
		"spec.backup.tls.clientTLSSecretRef":        {"tls.crt", "tls.key"},
		"spec.etcd.authSecretRef":                   {"username", "password"},
	}
	got := map[string][]string{}
	for _, field := range slices.Sorted(maps.Keys(want)) {
		got[field] = Lacks(e, field, &corev1.Secret{Data: map[string][]byte{"other": []byte("x")}})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}
