// Chart writes what the Helm chart repeats of the rest of the repository: definitions, admission
// policies, webhooks and the operator's rights. It is run by `make generate` in the root of the repository.
//
// It renders nothing: the templates are in charts/druid/templates.
package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"druid.internal/druid/config/admission"
	"druid.internal/druid/config/crd"
	"druid.internal/druid/internal/operator"
	"druid.internal/druid/internal/operator/webhook"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: chart DIRECTORY, in the root of the repository")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// write replaces the directory.
func write(dir string) error {
	all, err := files()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for name, text := range all {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// files are the texts by their names in the directory.
func files() (map[string][]byte, error) {
	all := map[string][]byte{}
	paths, err := fs.Glob(crd.Files, "bases/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, err := crd.Files.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if all["crds/"+filepath.Base(path)], err = kept(path, text); err != nil {
			return nil, err
		}
	}
	for name, file := range map[string]string{"admission.yaml": "members.yaml", "admission-finalizers.yaml": "finalizers.yaml", "admission-secrets.yaml": "secrets.yaml", "admission-spellings.yaml": "spellings.yaml"} {
		if all[name], err = admission.Files.ReadFile(file); err != nil {
			return nil, err
		}
	}
	if all["webhooks.yaml"], err = webhooks(); err != nil {
		return nil, err
	}
	for name, rules := range map[string][]rbacv1.PolicyRule{
		"access.yaml": operator.Access(), "own-access.yaml": operator.OwnAccess(),
		"protection-access.yaml": operator.ProtectionAccess(), "protection-own-access.yaml": operator.ProtectionOwnAccess(),
	} {
		if all[name], err = yaml.Marshal(rules); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// webhooks are those of the operator in the namespace of the release, which Helm fills in.
func webhooks() ([]byte, error) {
	const namespace = "{{.Release.Namespace}}" // without spaces, at which YAML is folded
	path := webhook.Path
	return yaml.Marshal(webhook.Webhooks("system:serviceaccount:"+namespace+":etcd-druid", admissionregistrationv1.WebhookClientConfig{
		Service: &admissionregistrationv1.ServiceReference{Name: "etcd-druid-webhook", Namespace: namespace, Path: &path},
	}))
}

// keep has Helm leave an object behind: with a definition all Etcds would be deleted.
const keep = "    helm.sh/resource-policy: keep\n"

// kept adds it to the annotations, of which the generated definitions have some.
func kept(path string, definition []byte) ([]byte, error) {
	const annotations = "\nmetadata:\n  annotations:\n"
	if bytes.Count(definition, []byte(annotations)) != 1 {
		return nil, fmt.Errorf("%s does not begin with annotations, so nothing keeps it from being deleted", path)
	}
	return bytes.Replace(definition, []byte(annotations), []byte(annotations+keep), 1), nil
}
