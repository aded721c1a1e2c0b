package s3_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"druid.internal/druid/internal/store"
)

// The name of a key is what the server makes of it: a listing must find what a write stored.
func TestALeadingSlashThatTheServerDropsIsListed(t *testing.T) {
	for title, c := range map[string]struct {
		answer http.HandlerFunc // to a request for the key "/"
		listed string           // the prefix that the server is asked for
	}{
		"the key without it is refused": {func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusBadRequest, "XMinioInvalidObjectName")
		}, "x/"},
		"the bucket is listed": {func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `<ListBucketResult></ListBucketResult>`)
		}, "x/"},
		"there is no such key":    {func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusNotFound, "NoSuchKey") }, "/x/"},
		"there is such a key":     {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("ETag", `"e"`) }, "/x/"},
		"the key may not be read": {func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusForbidden, "AccessDenied") }, "/x/"},
		"MinIO lets nobody read the key": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Server", "MinIO")
			refuse(w, http.StatusForbidden, "AccessDenied")
		}, "x/"},
	} {
		t.Run(title, func(t *testing.T) {
			asked := 0
			f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
				q := r.URL.Query()
				if !q.Has("versions") {
					asked++
					c.answer(w, r)
					return
				}
				if q.Get("prefix") != c.listed {
					io.WriteString(w, `<ListVersionsResult></ListVersionsResult>`)
					return
				}
				fmt.Fprintf(w, `<ListVersionsResult><Version><Key>%sv2/1</Key><VersionId>null</VersionId><IsLatest>true</IsLatest>`+
					`<LastModified>2026-11-20T10:00:00Z</LastModified><Size>1</Size></Version></ListVersionsResult>`, c.listed)
			})
			f.name = "another server"
			s := f.open(t, f.options())
			for range 2 {
				var got []string
				if err := s.List(t.Context(), "/x", func(o store.Object) error { got = append(got, o.Key); return nil }); err != nil {
					t.Fatal(err)
				}
				if len(got) != 1 || got[0] != "/x/v2/1" {
					t.Errorf("List shows %q, want /x/v2/1", got)
				}
			}
			if asked != 1 {
				t.Errorf("the server was asked %d times, want once", asked)
			}
		})
	}
}

func TestAnOutageIsNoDroppedSlash(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusBadRequest, "ExpiredToken") })
	s := f.open(t, f.options())
	if err := s.List(t.Context(), "/x", func(store.Object) error { return nil }); err == nil {
		t.Error("an expired token counts as an empty listing")
	}
}
