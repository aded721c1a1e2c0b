// Apidocs writes docs/reference/api.md from the definitions in config/crd and from the constants in
// api/v1alpha1: fields with their types, defaults and rules, conditions with their reasons, labels
// and annotations. It is run by `make generate` in the root of the repository.
//
// It invents no text: what is missing on the page is missing in a comment.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: apidocs FILE, in the root of the repository")
		os.Exit(2)
	}
	page, err := page("api/v1alpha1")
	if err == nil {
		err = os.WriteFile(os.Args[1], []byte(page), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "apidocs:", err)
		os.Exit(1)
	}
}
