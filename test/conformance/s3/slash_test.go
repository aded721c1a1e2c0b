package s3_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"druid.internal/druid/examples/policies"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/s3"
	"druid.internal/druid/test/stores"
)

// MinIO stores /a/key under the name a/key and lists nothing below /a/. Whoever reads must find it,
// also with the rights of one prefix.
func TestALeadingSlashIsOneNameOnMinIO(t *testing.T) {
	for _, p := range []stores.Protection{stores.Unversioned, stores.Compliance} {
		bucket := onMinIO(t).newBucket(t, p)
		for title, s := range map[string]*s3.Store{
			"root":       open(t, minioServer.options(bucket)),
			"one prefix": as(t, bucket, policies.S3(policies.Writer, bucket, "a/")),
		} {
			key := "/a/v2/" + strings.ReplaceAll(title, " ", "-")
			o, err := s.Put(t.Context(), key, strings.NewReader(title), store.PutOptions{})
			if err != nil {
				t.Fatalf("%s: %v", title, err)
			}
			for _, prefix := range []string{"/a", "a"} {
				want := prefix + strings.TrimPrefix(key, "/a")
				if keys := keysBelow(t, s, prefix); !slices.Contains(keys, want) {
					t.Errorf("%s: List(%q) shows %q, want %s", title, prefix, keys, want)
				}
			}
			if got := content(t, s, o.Version); string(got) != title {
				t.Errorf("%s: %s holds %q", title, key, got)
			}
		}
	}
}

func keysBelow(t *testing.T, s *s3.Store, prefix string) (keys []string) {
	t.Helper()
	if err := s.List(context.Background(), prefix, func(o store.Object) error { keys = append(keys, o.Key); return nil }); err != nil {
		t.Fatal(err)
	}
	return keys
}
