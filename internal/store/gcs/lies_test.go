package gcs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"druid.internal/druid/internal/store"
)

// handlers by the method and a part of the URL; what is not expected fails the test.
func handlers(t *testing.T, all map[string]http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for want, h := range all {
			method, part, _ := strings.Cut(want, " ")
			if r.Method == method && strings.Contains(r.URL.String(), part) {
				h(w, r)
				return
			}
		}
		t.Errorf("unexpected: %s %s", r.Method, r.URL)
		w.WriteHeader(http.StatusBadRequest)
	})
}

func answers(json string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, json)
	}
}

func TestAnUploadThatIsStoredDifferentlyIsNoSuccess(t *testing.T) {
	for name, stored := range map[string]string{
		"other bytes":   `{"name":"a/key","size":"5","generation":"1","crc32c":"AAAAAA=="}`,
		"another size":  `{"name":"a/key","size":"4","generation":"1","crc32c":"mnG7TA=="}`,
		"no size given": `{"name":"a/key","generation":"1","crc32c":"mnG7TA=="}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, handlers(t, map[string]http.HandlerFunc{"POST uploadType=multipart": answers(stored)}))
			_, err := s.Put(t.Context(), "a/key", strings.NewReader("hello"), store.PutOptions{})
			if !errors.Is(err, store.ErrUnknownOutcome) || !strings.Contains(err.Error(), "damaged") {
				t.Errorf("Put = %v, want %v", err, store.ErrUnknownOutcome)
			}
		})
	}
	s := serve(t, handlers(t, map[string]http.HandlerFunc{"POST uploadType=multipart": answers(`{"name":"a/key","size":"5","generation":"1","crc32c":"mnG7TA=="}`)}))
	if _, err := s.Put(t.Context(), "a/key", strings.NewReader("hello"), store.PutOptions{}); err != nil {
		t.Errorf("what is stored as it was sent: %v", err)
	}
}

// media answers a download with a checksum that may be wrong.
func media(body, sum string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Goog-Hash", "crc32c="+sum)
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = io.WriteString(w, body)
	}
}

func TestADownloadThatFailsItsChecksumIsAnError(t *testing.T) {
	for sum, wrong := range map[string]bool{"mnG7TA==": false, "AAAAAA==": true} {
		s := serve(t, handlers(t, map[string]http.HandlerFunc{"GET alt=media": media("hello", sum)}))
		r, err := s.Open(t.Context(), store.Version{Key: "a/key"}, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		r.Close()
		if string(b) != "hello" || (err != nil) != wrong || err != nil && !strings.Contains(err.Error(), "CRC") {
			t.Errorf("with the checksum %s read %q, %v", sum, b, err)
		}
	}
}

// The SDK takes up a broken download again and again; a server that breaks off after each
// header would keep it busy for ever.
func TestABrokenDownloadIsNotTakenUpBehindOurBack(t *testing.T) {
	asked := 0
	s := serve(t, handlers(t, map[string]http.HandlerFunc{"GET alt=media": func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, "x")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}}))
	r, err := s.Open(t.Context(), store.Version{Key: "a/key"}, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r); !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, store.ErrUnreachable) || string(b) != "x" || asked != 1 {
		t.Errorf("read %q, %v, in %d requests", b, err, asked)
	}
}

func TestAListingOutOfOrderIsNotBelieved(t *testing.T) {
	for name, page := range map[string]string{
		"keys descend":     `{"items":[{"name":"a/2","generation":"1"},{"name":"a/1","generation":"2"}]}`,
		"another's prefix": `{"items":[{"name":"a/1","generation":"1"},{"name":"b/1","generation":"2"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, handlers(t, map[string]http.HandlerFunc{"GET /o?": answers(page)}))
			if err := s.List(t.Context(), "a", func(store.Object) error { return nil }); err == nil || !strings.Contains(err.Error(), "cannot be trusted") {
				t.Errorf("List = %v", err)
			}
		})
	}
}

// A key's generations may be told on two pages, and in any order.
func TestGenerationsAreToldNewestFirstAcrossPages(t *testing.T) {
	first := answers(`{"items":[{"name":"a/1","generation":"5","timeDeleted":"2026-01-02T00:00:00Z"},{"name":"a/1","generation":"3","timeDeleted":"2026-01-01T00:00:00Z"}],"nextPageToken":"next"}`)
	second := answers(`{"items":[{"name":"a/1","generation":"9"},{"name":"a/2","generation":"1"}]}`)
	s := serve(t, handlers(t, map[string]http.HandlerFunc{"GET versions=true": func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("pageToken") == "next" {
			second(w, r)
			return
		}
		first(w, r)
	}}))
	var got []string
	if err := s.List(t.Context(), "a", func(o store.Object) error {
		got = append(got, fmt.Sprintf("%s %v", o.Version, o.Latest))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := "a/1 true, a/1@5 false, a/1@3 false, a/2 true"; strings.Join(got, ", ") != want {
		t.Errorf("List tells %s, want %s", strings.Join(got, ", "), want)
	}
}

func TestTheReservedTagIsRefused(t *testing.T) {
	s := serve(t, handlers(t, nil))
	for _, tag := range []string{nonceKey, ""} {
		if _, err := s.Put(t.Context(), "a/key", bytes.NewReader(nil), store.PutOptions{Tags: map[string]string{tag: "x"}}); !errors.Is(err, store.ErrUnsupported) {
			t.Errorf("Put with the tag %q = %v", tag, err)
		}
		if err := s.SetTag(t.Context(), store.Version{Key: "a/key"}, tag, "x"); !errors.Is(err, store.ErrUnsupported) {
			t.Errorf("SetTag of %q = %v", tag, err)
		}
	}
}
