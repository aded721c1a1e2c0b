package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"druid.internal/druid/config/crd"
)

func TestThePageIsWhatTheCodeSays(t *testing.T) {
	want, err := page("../../api/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/reference/api.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/reference/api.md is older than the code: run make generate")
	}
}

func TestEveryFieldIsExplained(t *testing.T) {
	for _, plural := range []string{"etcds", "etcdmembers", "etcdcopybackupstasks", "etcdoperatortasks", "etcdopstasks"} {
		text, err := crd.Files.ReadFile("bases/druid.gardener.cloud_" + plural + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &definition); err != nil {
			t.Fatal(err)
		}
		root := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
		delete(root.Properties, "metadata")
		explained(t, definition.Spec.Names.Kind, *root)
	}
}

// explained: every field has a comment, and one with a default or an optional value says it.
func explained(t *testing.T, path string, schema apiextensionsv1.JSONSchemaProps) {
	for name, field := range schema.Properties {
		at := path + "." + name
		if field.Description == "" {
			t.Errorf("%s has no comment", at)
		}
		if value := strings.Trim(defaultOf(field), "`"); value != "" && field.Type != "object" && !strings.Contains(field.Description, value) {
			t.Errorf("%s has the default %s, of which its comment says nothing", at, value)
		}
		if _, foreign := foreignType(name, field); foreign {
			continue
		}
		explained(t, at, field)
		if field.Items != nil && field.Items.Schema != nil {
			explained(t, at+"[]", *field.Items.Schema)
		}
	}
}

func TestAConstantThatNobodyExplainsIsAnError(t *testing.T) {
	dir := t.TempDir()
	source := "package p\n\n// Group.\nconst (\n\tA = \"a\" // explained\n\tB = \"b\"\n)\n"
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := constants(dir, "a.go"); err == nil || !strings.Contains(err.Error(), "what B is") {
		t.Errorf("error %v, want one that names B", err)
	}
}
