package s3_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/store"
)

func TestATruncatedDownloadIsNeverAnEnd(t *testing.T) {
	cases := map[string]func(w http.ResponseWriter){
		"the connection breaks": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			w.Write(make([]byte, 400))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
		"the connection is reset": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			w.Write(make([]byte, 400))
			w.(http.Flusher).Flush()
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				if tcp, ok := conn.(interface{ NetConn() net.Conn }); ok {
					_ = tcp.NetConn().(*net.TCPConn).SetLinger(0)
					tcp.NetConn().Close()
				}
			}
		},
	}
	for name, answer := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(w http.ResponseWriter, r *http.Request) { answer(w) })
			rc, err := f.open(t, f.options()).Open(t.Context(), store.Version{Key: "k", ID: "v"}, 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			defer rc.Close()
			b, err := io.ReadAll(rc)
			if !errors.Is(err, io.ErrUnexpectedEOF) || len(b) > 400 {
				t.Errorf("read %d bytes and %v, want an unexpected EOF", len(b), err)
			}
		})
	}
}

func TestADownloadShorterThanItsRangeIsNeverAnEnd(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Range", "bytes 10-14/15")
		w.WriteHeader(http.StatusPartialContent)
		io.WriteString(w, "01234")
	})
	rc, err := f.open(t, f.options()).Open(t.Context(), store.Version{Key: "k", ID: "v"}, 10, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	if b, err := io.ReadAll(rc); !errors.Is(err, io.ErrUnexpectedEOF) || string(b) != "01234" {
		t.Errorf("read %q and %v, want an unexpected EOF", b, err)
	}
}

func TestAServerThatIgnoresRangesIsNotBelieved(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "the whole object") })
	if rc, err := f.open(t, f.options()).Open(t.Context(), store.Version{Key: "k"}, 4, 5); err == nil {
		rc.Close()
		t.Error("the wrong bytes were handed out")
	}
}

func TestAStalledServerIsGivenUp(t *testing.T) {
	stop := make(chan struct{})
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Length", "1000")
			w.Write(make([]byte, 100))
			w.(http.Flusher).Flush()
		}
		<-stop
	})
	defer close(stop)
	o := f.options()
	o.IdleTimeout = 2 * time.Second
	s := f.open(t, o)
	if _, err := s.Stat(t.Context(), store.Version{Key: "k"}); !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("Stat = %v, want %v", err, store.ErrUnreachable)
	}
	rc, err := s.Open(t.Context(), store.Version{Key: "k"}, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	if _, err := io.ReadAll(rc); !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("reading = %v, want the stream to end early", err)
	}
}

func TestAListingIsPutInOrder(t *testing.T) {
	const at = "2026-01-01T00:00:0"
	version := func(key, id, second, latest string) string {
		return fmt.Sprintf("<Version><Key>%s</Key><VersionId>%s</VersionId><LastModified>%s%sZ</LastModified><IsLatest>%s</IsLatest><Size>1</Size></Version>", key, id, at, second, latest)
	}
	marker := func(key, id, second, latest string) string {
		return fmt.Sprintf("<DeleteMarker><Key>%s</Key><VersionId>%s</VersionId><LastModified>%s%sZ</LastModified><IsLatest>%s</IsLatest></DeleteMarker>", key, id, at, second, latest)
	}
	pages := map[string]string{
		"": `<IsTruncated>true</IsTruncated><NextKeyMarker>a%2Fb</NextKeyMarker><NextVersionIdMarker>b2</NextVersionIdMarker>` +
			version("a%2Fa", "a1", "1", "false") + version("a%2Fb", "b3", "3", "true") + version("a%2Fb", "b2", "2", "false") + marker("a%2Fa", "a2", "1", "true"),
		"a/b": `<IsTruncated>false</IsTruncated>` + version("a%2Fb", "b1", "1", "false") + version("a%2Fc+d%25", "c1", "1", "true"),
	}
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "<ListVersionsResult><EncodingType>url</EncodingType>"+pages[r.URL.Query().Get("key-marker")]+"</ListVersionsResult>")
	})
	var got []string
	err := f.open(t, f.options()).List(t.Context(), "a", func(o store.Object) error {
		got = append(got, fmt.Sprintf("%s %v %v", o.Version, o.Marker, o.Latest))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a/a@a2 true true", "a/a@a1 false false", "a/b@b3 false true", "a/b@b2 false false", "a/b@b1 false false", "a/c d%@c1 false true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the listing (-want +got):\n%s", diff)
	}
}

func TestAListingThatCannotBeCompleteIsAnError(t *testing.T) {
	cases := map[string]string{
		"it does not say where it goes on":     `<IsTruncated>true</IsTruncated>`,
		"it goes on where it was":              `<IsTruncated>true</IsTruncated><NextKeyMarker>a/b</NextKeyMarker>`,
		"its keys go back":                     `<Version><Key>a/c</Key></Version><IsTruncated>true</IsTruncated><NextKeyMarker>a/b</NextKeyMarker>`,
		"it holds what was not asked for":      `<Version><Key>b/c</Key></Version>`,
		"it holds a version without a key":     `<Version><Size>1</Size></Version>`,
		"it is not a listing":                  `<Version`,
		"it is a page of something else (403)": "",
	}
	for name, page := range cases {
		t.Run(name, func(t *testing.T) {
			n := 0
			f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
				n++
				switch {
				case page == "":
					w.WriteHeader(http.StatusForbidden)
					io.WriteString(w, "<html>sign in</html>")
				case strings.Contains(page, "a/c") && n > 1:
					io.WriteString(w, `<ListVersionsResult><Version><Key>a/b</Key></Version></ListVersionsResult>`)
				default:
					io.WriteString(w, "<ListVersionsResult>"+page+"</ListVersionsResult>")
				}
			})
			if err := f.open(t, f.options()).List(t.Context(), "a", func(store.Object) error { return nil }); err == nil {
				t.Error("it was taken for a whole listing")
			}
		})
	}
}

func TestWhatMayNotBeReadIsUnknown(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.Header().Set("X-Amz-Version-Id", "v1")
			return
		}
		refuse(w, http.StatusForbidden, "AccessDenied") // retention and tags
	})
	f.locks = true
	o, err := f.open(t, f.options()).Stat(t.Context(), store.Version{Key: "k", ID: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	if o.Retention != nil {
		t.Errorf("the retention is %+v, want nil: it was not told", *o.Retention)
	}
	if o.Tags != nil {
		t.Errorf("the tags are %v, want nil: they were not told", o.Tags)
	}
}

// Who may read the tags of versions alone is told no count in the answer that names none, whatever there is.
func TestTagsAreNotMissedWhereTheirCountIsNotTold(t *testing.T) {
	for phrase, unnamed := range map[string]bool{"the tags of the latest may be read": true, "those of versions alone": false} {
		f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
			named := r.URL.Query().Has("versionId")
			tagged := strings.HasSuffix(r.URL.Path, "/excluded")
			switch {
			case r.Method == http.MethodHead:
				w.Header().Set("X-Amz-Version-Id", "v1")
				if tagged && (named || unnamed) {
					w.Header().Set("X-Amz-Tagging-Count", "1")
				}
			case !named && !unnamed:
				refuse(w, http.StatusForbidden, "AccessDenied")
			case tagged:
				io.WriteString(w, `<Tagging><TagSet><Tag><Key>x</Key><Value>true</Value></Tag></TagSet></Tagging>`)
			default:
				io.WriteString(w, `<Tagging><TagSet></TagSet></Tagging>`)
			}
		})
		s := f.open(t, f.options())
		for _, c := range []struct {
			key  string
			want int
		}{{"plain", 0}, {"excluded", 1}, {"plain", 0}, {"excluded", 1}} {
			o, err := s.Stat(t.Context(), store.Version{Key: c.key, ID: "v1"})
			if err != nil {
				t.Fatal(err)
			}
			if len(o.Tags) != c.want || !o.Latest {
				t.Errorf("%s: %s has the tags %v, latest %t; want %d", phrase, c.key, o.Tags, o.Latest, c.want)
			}
		}
		before := len(f.sent())
		if _, err := s.Stat(t.Context(), store.Version{Key: "plain", ID: "v1"}); err != nil {
			t.Fatal(err)
		}
		if n := len(f.sent()) - before; unnamed && n != 1 {
			t.Errorf("%s: %d requests about a version, want 1", phrase, n)
		}
	}
}
