package s3

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every operation that this package sends has its action.
func TestEveryOperationHasAnAction(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	sent := regexp.MustCompile(`client\.([A-Z]\w+)\(ctx`)
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range sent.FindAllStringSubmatch(string(text), -1) {
			found++
			if actions[m[1]] == "" {
				t.Errorf("%s sends %s, which has no action", file, m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("%d operations were found", found)
	}
}
