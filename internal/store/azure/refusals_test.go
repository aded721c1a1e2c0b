package azure_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/azure"
)

func TestRefusalsNameTheRemedy(t *testing.T) {
	put := func(s *azure.Store) error {
		_, err := s.Put(t.Context(), "key", strings.NewReader("body"), store.PutOptions{})
		return err
	}
	for name, c := range map[string]struct {
		status int
		code   string
		do     func(*azure.Store) error
		want   string
	}{
		"a listing": {http.StatusForbidden, "AuthorizationPermissionMismatch", func(s *azure.Store) error {
			return s.List(t.Context(), "", func(store.Object) error { return nil })
		}, "grant blobs/read (SAS: l)"},
		"an upload": {http.StatusForbidden, "AuthorizationPermissionMismatch", put, "grant blobs/write"},
		"a deletion": {http.StatusForbidden, "", func(s *azure.Store) error {
			return s.Delete(t.Context(), store.Version{Key: "key"})
		}, "grant blobs/delete (SAS: d)"},
		"a proxy":          {http.StatusRequestEntityTooLarge, "", put, "client_max_body_size"},
		"too large blocks": {http.StatusRequestEntityTooLarge, "RequestBodyTooLarge", put, "lower --min-chunk-size"},
		"too many blocks":  {http.StatusConflict, "BlockCountExceedsLimit", put, "raise --min-chunk-size"},
	} {
		f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
			if name == "a deletion" && r.Method != http.MethodDelete {
				return
			}
			if c.code != "" {
				w.Header().Set("x-ms-error-code", c.code)
			}
			w.WriteHeader(c.status)
			io.WriteString(w, "<html><body>nginx</body></html>")
		})
		err := c.do(f.open(t, f.options()))
		if err == nil || !strings.Contains(err.Error(), c.want) || (c.status == http.StatusForbidden) != errors.Is(err, store.ErrForbidden) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
