// Command licences lists the licences in software bills of materials (CycloneDX JSON, as make sbom writes them)
// and fails if a module has none or one that the product must not be linked with.
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// allowed are the licences that modules of the product may have: permissive ones.
var allowed = []string{"Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "BSD-Source-Code", "0BSD", "ISC"}

type choice struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

type bill struct {
	Components []struct {
		Name     string `json:"name"`
		Version  string `json:"version"`
		Evidence struct {
			Licenses []choice `json:"licenses"`
		} `json:"evidence"`
		Licenses []choice `json:"licenses"`
	} `json:"components"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

func run(files []string) error {
	modules := map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(file) //nolint:gosec // the files that the caller names
		if err != nil {
			return err
		}
		var b bill
		if err := json.Unmarshal(data, &b); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, c := range b.Components {
			var ids []string
			for _, l := range slices.Concat(c.Licenses, c.Evidence.Licenses) {
				ids = append(ids, l.License.ID)
			}
			if c.Name == "std" && len(ids) == 0 {
				ids = []string{"BSD-3-Clause"} // Go's standard library, which is no module
			}
			modules[c.Name+" "+c.Version] = strings.Join(ids, " ")
		}
	}
	if len(modules) == 0 {
		return fmt.Errorf("no modules in %v; name the files that make sbom wrote", files)
	}
	var refused []string
	for _, m := range slices.Sorted(maps.Keys(modules)) {
		fmt.Printf("%-22s %s\n", modules[m], m)
		ids := strings.Fields(modules[m])
		if len(ids) == 0 || slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(allowed, id) }) {
			refused = append(refused, fmt.Sprintf("%s (%s)", m, modules[m]))
		}
	}
	if len(refused) > 0 {
		return fmt.Errorf("licences that are unknown or not permissive: %s; replace the module, or add its licence to hack/licences after reading it", strings.Join(refused, ", "))
	}
	return nil
}
