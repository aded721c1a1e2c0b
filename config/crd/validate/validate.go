// Package validate does to an object what the API server does with our definitions: it prunes,
// fills in defaults and validates, with the API server's own libraries and limits, without a
// server.
//
// It does not know what is not in the definitions: names that are taken, admission, other objects.
package validate

import (
	"context"
	"fmt"
	"path"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	definitions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"sigs.k8s.io/yaml"

	"druid.internal/druid/config/crd"
)

// Definition is a CustomResourceDefinition ready for use.
type Definition struct {
	CRD        *apiextensionsv1.CustomResourceDefinition
	structural *schema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator
}

// Load reads a definition by the plural of its resource. It fails if an API server would refuse the
// definition, for example because a rule may cost too much.
func Load(plural string) (*Definition, error) {
	file := path.Join("bases", "druid.gardener.cloud_"+plural+".yaml")
	text, err := crd.Files.ReadFile(file)
	if err != nil {
		return nil, err
	}
	d := &Definition{CRD: &apiextensionsv1.CustomResourceDefinition{}}
	if err := yaml.UnmarshalStrict(text, d.CRD); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if n := len(d.CRD.Spec.Versions); n != 1 {
		return nil, fmt.Errorf("%s has %d versions, want one", file, n)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(d.CRD)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&d.CRD.Spec)
	internal := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(d.CRD, internal, nil); err != nil {
		return nil, fmt.Errorf("convert %s: %w", file, err)
	}
	internal.Status.StoredVersions = []string{d.CRD.Spec.Versions[0].Name}
	if errs := definitions.ValidateCustomResourceDefinition(context.Background(), internal); len(errs) > 0 {
		return nil, fmt.Errorf("an API server refuses %s: %w", file, errs.ToAggregate())
	}
	props := internal.Spec.Validation
	if props == nil {
		props = internal.Spec.Versions[0].Schema
	}
	if d.structural, err = schema.NewStructural(props.OpenAPIV3Schema); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if d.validator, _, err = validation.NewSchemaValidator(props.OpenAPIV3Schema); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	d.rules = cel.NewValidator(d.structural, true, celconfig.PerCallLimit)
	return d, nil
}

// Default removes what the definition does not know and fills in its defaults. It changes the
// object, and returns the paths of what it removed.
func (d *Definition) Default(object map[string]any) []string {
	removed := pruning.PruneWithOptions(object, d.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.PruneNonNullableNullsWithoutDefaults(object, d.structural)
	defaulting.Default(object, d.structural)
	return removed
}

// Validate is what an API server says to an object with its defaults, which is to be made if old is
// nil, and otherwise to replace old.
func (d *Definition) Validate(object, old map[string]any) field.ErrorList {
	var errs field.ErrorList
	if old == nil {
		errs = validation.ValidateCustomResource(nil, object, d.validator)
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, object)...)
		rules, _ := d.rules.Validate(context.Background(), nil, d.structural, object, nil, celconfig.RuntimeCELCostBudget)
		return append(errs, rules...)
	}
	same := common.NewCorrelatedObject(object, old, &model.Structural{Structural: d.structural})
	errs = validation.ValidateCustomResourceUpdate(nil, object, old, d.validator, validation.WithRatcheting(same))
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, object)...)
	rules, _ := d.rules.Validate(context.Background(), nil, d.structural, object, old, celconfig.RuntimeCELCostBudget, cel.WithRatcheting(same))
	return append(errs, rules...)
}
