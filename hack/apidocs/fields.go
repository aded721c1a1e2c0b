package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// foreign are fields of types that Kubernetes documents, by their names.
var foreign = map[string]string{
	"affinity":                  "core/v1 Affinity",
	"topologySpreadConstraints": "list of core/v1 TopologySpreadConstraint",
	"resources":                 "core/v1 ResourceRequirements",
	"compactionResources":       "core/v1 ResourceRequirements",
	"selector":                  "meta/v1 LabelSelector",
	"labelSelector":             "meta/v1 LabelSelector",
}

// fields writes a row for each field below path.
func fields(b *strings.Builder, path string, schema apiextensionsv1.JSONSchemaProps) {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field := schema.Properties[name]
		fieldPath := path + "." + name
		kind, isForeign := foreignType(name, field)
		if !isForeign {
			kind = typeOf(field)
		}
		fallback := defaultOf(field)
		if fallback == "" && slices.Contains(schema.Required, name) {
			fallback = "required"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", strings.TrimPrefix(strings.TrimPrefix(fieldPath, "spec."), "status."), cell(kind), fallback, cell(field.Description))
		if isForeign {
			continue
		}
		switch {
		case field.Items != nil && field.Items.Schema != nil:
			fields(b, fieldPath+"[]", *field.Items.Schema)
		default:
			fields(b, fieldPath, field)
		}
	}
}

func foreignType(name string, field apiextensionsv1.JSONSchemaProps) (string, bool) {
	kind, ok := foreign[name]
	return kind, ok && field.Type != "string"
}

// typeOf is a type in words.
func typeOf(field apiextensionsv1.JSONSchemaProps) string {
	switch {
	case len(field.Enum) > 0:
		var all []string
		for _, e := range field.Enum {
			all = append(all, strings.Trim(string(e.Raw), `"`))
		}
		return strings.Join(all, ", ")
	case field.XIntOrString:
		return "quantity"
	case field.Type == "array":
		kind := "list of " + typeOf(*field.Items.Schema)
		if field.Items.Schema.Type == "object" {
			kind = "list"
		}
		return kind + bounds(" of ", field.MinItems, field.MaxItems)
	case field.Type == "object" && field.AdditionalProperties != nil:
		return "map of strings"
	case field.Type == "string" && field.Format == "date-time":
		return "time"
	case field.Type == "string":
		if slices.ContainsFunc(field.XValidations, func(r apiextensionsv1.ValidationRule) bool { return strings.Contains(r.Rule, "duration(self)") }) {
			return "duration"
		}
		return "string" + bounds(" of ", field.MinLength, field.MaxLength)
	case field.Type == "integer":
		var low, high *int64
		if field.Minimum != nil {
			n := int64(*field.Minimum)
			low = &n
		}
		if field.Maximum != nil {
			n := int64(*field.Maximum)
			high = &n
		}
		return "integer" + bounds(" ", low, high)
	}
	return field.Type
}

func bounds(word string, low, high *int64) string {
	switch {
	case low != nil && high != nil:
		return fmt.Sprintf("%s%d to %d", word, *low, *high)
	case low != nil:
		return fmt.Sprintf("%sat least %d", word, *low)
	case high != nil:
		return fmt.Sprintf("%sat most %d", word, *high)
	}
	return ""
}

// defaultOf is the default as it would be written, or nothing.
func defaultOf(field apiextensionsv1.JSONSchemaProps) string {
	if field.Default == nil {
		return ""
	}
	var text string
	if json.Unmarshal(field.Default.Raw, &text) == nil {
		return "`" + text + "`"
	}
	if bytes.Equal(field.Default.Raw, []byte("{}")) {
		return "see below"
	}
	return "`" + strings.ReplaceAll(string(field.Default.Raw), `"`, "") + "`"
}

// refusals are the messages of all rules below path, each with the field it names, once.
func refusals(path string, schema apiextensionsv1.JSONSchemaProps) []string {
	var all []string
	for _, rule := range schema.XValidations {
		at := strings.TrimPrefix(path+rule.FieldPath, ".")
		if at == "" {
			all = append(all, rule.Message)
			continue
		}
		all = append(all, fmt.Sprintf("`%s`: %s", at, rule.Message))
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		all = append(all, refusals(path+"."+name, schema.Properties[name])...)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		all = append(all, refusals(path+"[]", *schema.Items.Schema)...)
	}
	return all
}
