// Package crd holds the CustomResourceDefinitions as they are generated from api/v1alpha1, for
// programs and tests that apply them themselves.
//
// It reads them for nobody: they are YAML, one definition per file.
package crd

import "embed"

// Files are the definitions, bases/<group>_<plural>.yaml.
//
//go:embed bases/*.yaml
var Files embed.FS
