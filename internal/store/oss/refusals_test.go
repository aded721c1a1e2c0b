package oss_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/oss"
)

func TestRefusalsNameTheRemedy(t *testing.T) {
	put := func(s *oss.Store) error {
		_, err := s.Put(t.Context(), "key", strings.NewReader("body"), store.PutOptions{})
		return err
	}
	list := func(s *oss.Store) error { return s.List(t.Context(), "", func(store.Object) error { return nil }) }
	for name, c := range map[string]struct {
		status int
		code   string
		do     func(*oss.Store) error
		want   string
	}{
		"a listing":       {http.StatusForbidden, "AccessDenied", list, "grant oss:ListObjectVersions"},
		"an upload":       {http.StatusForbidden, "AccessDenied", put, "grant oss:PutObject"},
		"a proxy":         {http.StatusRequestEntityTooLarge, "", put, "client_max_body_size"},
		"too large parts": {http.StatusBadRequest, "EntityTooLarge", put, "lower --min-chunk-size"},
		"too small parts": {http.StatusBadRequest, "EntityTooSmall", put, "raise --min-chunk-size"},
	} {
		f := newFake(t, func(w http.ResponseWriter, r *http.Request, _ []byte) {
			switch {
			case r.URL.Query().Has("worm"):
				refuse(w, r, http.StatusNotFound, "NoSuchWORMConfiguration")
			case c.code == "":
				w.WriteHeader(c.status)
				io.WriteString(w, "<html><body>nginx</body></html>")
			default:
				refuse(w, r, c.status, c.code)
			}
		})
		err := c.do(f.open(t))
		if err == nil || !strings.Contains(err.Error(), c.want) || (c.status == http.StatusForbidden) != errors.Is(err, store.ErrForbidden) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		isOneLine(t, err)
	}
}
