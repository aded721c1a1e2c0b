package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRunRejectsLicences(t *testing.T) {
	component := func(name, licences string) string {
		return `{"name":"` + name + `","version":"v1","evidence":{"licenses":[` + licences + `]}}`
	}
	mit, agpl := `{"license":{"id":"MIT"}}`, `{"license":{"id":"AGPL-3.0-only"}}`
	for name, c := range map[string]struct{ components, want string }{
		"permissive":        {component("a", mit) + "," + component("std", ""), ""},
		"copyleft":          {component("a", mit) + "," + component("b", agpl), "b v1 (AGPL-3.0-only)"},
		"one of two":        {component("b", mit+","+agpl), "b v1 (MIT AGPL-3.0-only)"},
		"none is known":     {component("b", ""), "b v1 ()"},
		"no modules at all": {"", "no modules"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a.cdx.json")
			if err := os.WriteFile(file, []byte(`{"components":[`+c.components+`]}`), 0o600); err != nil {
				t.Fatal(err)
			}
			err := run([]string{file})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
