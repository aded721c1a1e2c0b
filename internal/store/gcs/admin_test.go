package gcs

import (
	"errors"
	"strings"
	"testing"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/admin"
)

// Credentials that name no project are good ones.
func TestABucketOfNoProjectIsNoMatterOfCredentials(t *testing.T) {
	_, err := (&Admin{}).create(t.Context(), immutability.BucketStep{Do: immutability.BucketCreate})
	if !errors.Is(err, admin.ErrIncomplete) || errors.Is(err, store.ErrCredentials) || !strings.Contains(err.Error(), "--project") {
		t.Errorf("%v", err)
	}
}
