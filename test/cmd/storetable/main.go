// Command storetable writes docs/reference/stores.md from the results of the conformance
// suite, which the tests of the providers keep in conformance/results.
//
//	cd test && go run ./cmd/storetable -results conformance/results -out ../docs/reference/stores.md
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	results := flag.String("results", "conformance/results", "directory of the results")
	out := flag.String("out", "../docs/reference/stores.md", "the page to write")
	flag.Parse()
	if err := run(*results, *out); err != nil {
		fmt.Fprintln(os.Stderr, "storetable:", err)
		os.Exit(1)
	}
}

func run(results, out string) error {
	page, err := render(results)
	if err != nil {
		return err
	}
	return os.WriteFile(out, page, 0o644)
}
