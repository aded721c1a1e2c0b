package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheReferencePageIsUpToDate(t *testing.T) {
	got, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "etcd-wrapper.md"))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != referencePage() {
		t.Error("docs/reference/etcd-wrapper.md is not what the flags say; run make generate")
	}
}
