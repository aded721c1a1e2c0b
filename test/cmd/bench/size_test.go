package main

import (
	"slices"
	"testing"
)

// What else the package that opens stores imports is part of the program whichever providers it has.
func TestTheSizeIsMeasuredWithoutEachProviderThatHasAnSDK(t *testing.T) {
	got, err := importedProviders("../../../internal/store/open")
	if want := []string{"azure", "gcs", "oss", "s3", "swift"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}
