package validate

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// embedded are the parts of definitions that are types of Kubernetes, which take no limits of ours.
// Only users who may write the resource itself write them: they are in specifications, or the
// operator copies them from there.
var embedded = []string{
	"spec.schedulingConstraints.affinity.",
	"spec.schedulingConstraints.topologySpreadConstraints",
	"spec.selector.", "status.labelSelector.", // LabelSelector
	"spec.etcd.resources.", "spec.backup.resources.", "spec.backup.compactionResources.", "spec.backup.snapshotCompaction.resources.", // ResourceRequirements
	"status.hibernation.applied.store", // a copy of spec.backup.store, without a schema
	"spec.ownerEtcdRefrence",           // refused whatever it holds
}

// references are the fields of type SecretReference.
func reference(path string) bool {
	for _, field := range []string{".name", ".namespace"} {
		if of, is := strings.CutSuffix(path, field); is && strings.HasSuffix(strings.ToLower(of), "secretref") {
			return true
		}
	}
	return false
}

// maps are own maps from texts to texts, whose values have no type that could carry a limit. Kubernetes limits
// labels to 63 characters, and annotations to 256 KiB together.
var maps = []string{"spec.labels{}", "spec.annotations{}", "spec.podLabels{}", "spec.etcd.clientService.labels{}", "spec.etcd.clientService.annotations{}"}

// TestEveryTextAndListIsLimited walks the definitions: a text without a limit in a status lets who
// writes it fill the object, and all that is copied from it.
func TestEveryTextAndListIsLimited(t *testing.T) {
	for _, plural := range []string{"etcds", "etcdmembers", "etcdcopybackupstasks", "etcdoperatortasks", "etcdopstasks"} {
		d, err := Load(plural)
		if err != nil {
			t.Fatal(err)
		}
		root := d.CRD.Spec.Versions[0].Schema.OpenAPIV3Schema
		for _, part := range []string{"spec", "status"} {
			s := root.Properties[part]
			for _, path := range unlimited(part, &s) {
				if !reference(path) && !slices.Contains(maps, path) && !slices.ContainsFunc(embedded, func(e string) bool { return strings.HasPrefix(path, e) }) {
					t.Errorf("%s: %s has no limit: set MaxLength, MaxItems or MaxProperties", plural, path)
				}
			}
		}
	}
}

// unlimited returns the paths of texts, lists and maps that have no limit.
func unlimited(path string, s *apiextensionsv1.JSONSchemaProps) (paths []string) {
	add := func(limited bool) {
		if !limited {
			paths = append(paths, path)
		}
	}
	if len(s.Enum) > 0 {
		return nil
	}
	switch {
	case s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields:
		add(false)
	case s.XIntOrString:
		add(s.MaxLength != nil || len(s.XValidations) > 0) // our rules for quantities limit each part
	case s.Type == "string":
		add(s.MaxLength != nil || s.Format == "date-time")
	case s.Type == "array":
		add(s.MaxItems != nil)
		paths = append(paths, unlimited(path+"[]", s.Items.Schema)...)
	case s.AdditionalProperties != nil:
		add(s.MaxProperties != nil)
		paths = append(paths, unlimited(path+"{}", s.AdditionalProperties.Schema)...)
	}
	for name, part := range s.Properties {
		paths = append(paths, unlimited(path+"."+name, &part)...)
	}
	return paths
}

func TestUnlimitedPartsAreFound(t *testing.T) {
	limit, yes := int64(1), true
	text := &apiextensionsv1.JSONSchemaProps{Type: "string"}
	for name, c := range map[string]struct {
		schema apiextensionsv1.JSONSchemaProps
		want   []string
	}{
		"text":            {*text, []string{"x"}},
		"limited text":    {apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: &limit}, nil},
		"time":            {apiextensionsv1.JSONSchemaProps{Type: "string", Format: "date-time"}, nil},
		"list":            {apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: text}}, []string{"x", "x[]"}},
		"map":             {apiextensionsv1.JSONSchemaProps{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: text}}, []string{"x", "x{}"}},
		"field":           {apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": *text}}, []string{"x.a"}},
		"without schema":  {apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &yes}, []string{"x"}},
		"quantity":        {apiextensionsv1.JSONSchemaProps{XIntOrString: true}, []string{"x"}},
		"number":          {apiextensionsv1.JSONSchemaProps{Type: "integer"}, nil},
		"text of choices": {apiextensionsv1.JSONSchemaProps{Type: "string", Enum: []apiextensionsv1.JSON{{}}}, nil},
	} {
		if got := unlimited("x", &c.schema); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
