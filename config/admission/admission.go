// Package admission holds the admission policies, for programs and tests that apply them themselves.
//
// It reads them for nobody: they are YAML, several documents per file.
package admission

import "embed"

// Files are the policies with their bindings.
//
//go:embed finalizers.yaml members.yaml secrets.yaml spellings.yaml
var Files embed.FS
