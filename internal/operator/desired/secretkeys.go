package desired

import (
	cryptotls "crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// way is one of those in which credentials may be given: the keys that a Secret must have then.
type way []string

// storeKeys are the ways for each provider. The first counts of which the Secret has the first key, else
// the last.
var storeKeys = map[string][]way{
	"S3":  {{"roleARN", "token", "region"}, {"accessKeyID", "secretAccessKey", "region"}},
	"OCS": {{"accessKeyID", "secretAccessKey", "region", "endpoint"}},
	"ECS": {{"accessKeyID", "secretAccessKey", "endpoint"}},
	"ABS": {{"storageAccount"}}, // without a key of its own the identity of the pod counts
	"OSS": {{"accessKeyID", "accessKeySecret", "storageEndpoint"}},
	"GCS": {{"credentialsConfig"}, {"serviceaccount.json"}},
	"Swift": {
		{"applicationCredentialID", "applicationCredentialSecret", "authURL"},
		{"applicationCredentialName", "applicationCredentialSecret", "username", "domainName", "authURL"},
		{"username", "password", "domainName", "tenantName", "authURL"},
	},
}

// endpointKeys need not be in the Secret if the store names an endpoint.
var endpointKeys = map[string]string{"OCS": "endpoint", "ECS": "endpoint", "OSS": "storageEndpoint"}

// StoreLacks are the keys that the Secret of a store must have and has not, or has empty.
func StoreLacks(s *druidv1alpha1.StoreSpec, secret *corev1.Secret) []string {
	if s == nil || s.Provider == nil {
		return nil
	}
	provider := Provider(*s.Provider)
	ways := storeKeys[provider]
	for key, content := range secret.Data {
		// The original's one JSON object in place of a key for each field.
		if strings.HasSuffix(key, ".json") && len(content) > 0 && provider != "GCS" {
			return nil
		}
	}
	if len(ways) == 0 || provider == "GCS" && withoutIdentity(s, secret) {
		return nil
	}
	chosen := ways[len(ways)-1]
	for _, w := range slices.Backward(ways) {
		if _, has := secret.Data[w[0]]; has {
			chosen = w
		}
	}
	if s.EndpointOverride != nil && *s.EndpointOverride != "" {
		chosen = slices.DeleteFunc(slices.Clone(chosen), func(k string) bool { return k == endpointKeys[provider] })
	}
	return lacks(secret, chosen...)
}

// withoutIdentity: nobody authenticates at an emulator of Google's store.
func withoutIdentity(s *druidv1alpha1.StoreSpec, secret *corev1.Secret) bool {
	if s.EndpointOverride != nil && strings.HasPrefix(*s.EndpointOverride, "http://") {
		return true
	}
	return strings.HasPrefix(string(secret.Data["storageAPIEndpoint"]), "http://") || len(secret.Data["anonymous"]) > 0
}

// Lacks are the keys that the Secret of a field of an Etcd must have and has not, or has empty.
func Lacks(e *druidv1alpha1.Etcd, field string, secret *corev1.Secret) []string {
	switch field {
	case druidv1alpha1.FieldStoreSecret, druidv1alpha1.FieldCollectorSecret, druidv1alpha1.FieldExtenderSecret, druidv1alpha1.FieldExcluderSecret:
		return StoreLacks(e.Spec.Backup.Store, secret)
	}
	section, kind := field[:strings.LastIndex(field, ".")], field[strings.LastIndex(field, ".")+1:]
	switch kind {
	case "serverTLSSecretRef", "clientTLSSecretRef":
		return lacks(secret, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	case "authSecretRef":
		return lacks(secret, corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey)
	case "tlsCASecretRef":
		return lacks(secret, authorityKey(e, section))
	}
	return nil
}

// Fault says why what the Secret of a field of an Etcd holds cannot be used, of what nobody but the processes in the pods would notice;
// empty: nothing is known to be wrong with it. Keys that it lacks are no fault.
func Fault(e *druidv1alpha1.Etcd, field string, secret *corev1.Secret, now time.Time) string {
	if len(Lacks(e, field, secret)) > 0 {
		return ""
	}
	switch section, kind := field[:strings.LastIndex(field, ".")], field[strings.LastIndex(field, ".")+1:]; kind {
	case "serverTLSSecretRef", "clientTLSSecretRef":
		pair, err := cryptotls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
		switch {
		case err != nil:
			return fmt.Sprintf("%s and %s are no certificate with its key: %s", corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
		case now.After(pair.Leaf.NotAfter):
			return fmt.Sprintf("the certificate in %s ended at %s", corev1.TLSCertKey, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
		case now.Before(pair.Leaf.NotBefore):
			return fmt.Sprintf("the certificate in %s begins at %s", corev1.TLSCertKey, pair.Leaf.NotBefore.UTC().Format(time.RFC3339))
		}
	case "tlsCASecretRef":
		if key := authorityKey(e, section); !x509.NewCertPool().AppendCertsFromPEM(secret.Data[key]) {
			return key + " holds no certificate of an authority in PEM"
		}
	}
	return ""
}

// authorityKey is where the certificate authority of a section is in its Secret.
func authorityKey(e *druidv1alpha1.Etcd, section string) string {
	var t *druidv1alpha1.TLSConfig
	switch peer := e.Spec.Etcd.PeerUrlTLS; {
	case section == "spec.etcd.clientUrlTls":
		t = e.Spec.Etcd.ClientUrlTLS
	case section == "spec.backup.tls":
		t = e.Spec.Backup.TLS
	case peer != nil:
		t = &peer.TLSConfig
	}
	if t == nil {
		return caKey
	}
	return value(t.TLSCASecretRef.DataKey, caKey)
}

func lacks(secret *corev1.Secret, keys ...string) (missing []string) {
	for _, k := range keys {
		if len(strings.TrimSpace(string(secret.Data[k]))) == 0 {
			missing = append(missing, k)
		}
	}
	return missing
}
