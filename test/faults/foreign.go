package faults

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Foreign is a server of the S3 protocol that refuses what ours take, or a proxy before one.
type Foreign string

// The foreign servers.
const (
	OldChecksums  Foreign = "old checksums"  // knows Content-MD5, requires it of changes, and refuses newer checksums
	NeedsSSE      Foreign = "needs SSE"      // its bucket policy denies uploads that request no encryption
	NoIfNoneMatch Foreign = "no conditions"  // does not implement If-None-Match
	NoVersions    Foreign = "no versions"    // cannot list versions
	MinimalPolicy Foreign = "minimal policy" // grants what upstream needs
	Late          Foreign = "late"           // refuses the first change of the lock of each object
	SmallBodies   Foreign = "small bodies"   // a proxy limits the size of bodies
	Slow          Foreign = "slow"           // takes bodies slowly
)

// Limits of the proxies.
const (
	largestBody = 500      // bytes
	slowRate    = 64 << 10 // bytes per second
	slowPiece   = 8 << 10
)

// xmlError is the answer of a server that speaks S3.
func xmlError(code, message string) string {
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>%s</Message></Error>`, code, message)
}

// Become has the gate answer as a foreign server does.
func (g *Gate) Become(f Foreign) {
	refuse := func(status int, code, message string, match func(*http.Request) bool) {
		g.Inject(Fault{Status: status, Code: code, Body: xmlError(code, message), Match: match})
	}
	switch f {
	case OldChecksums:
		refuse(http.StatusBadRequest, "InvalidArgument", "Unsupported header x-amz-checksum or STREAMING-...-TRAILER", newerChecksums)
		refuse(http.StatusBadRequest, "InvalidRequest", "Missing required header for this request: Content-MD5", func(r *http.Request) bool {
			return changesSettings(r) && r.Header.Get("Content-MD5") == ""
		})
	case NeedsSSE:
		refuse(http.StatusForbidden, "AccessDenied", "User is not authorized to perform: s3:PutObject on resource with an explicit deny in a resource-based policy",
			func(r *http.Request) bool {
				return beginsObject(r) && r.Header.Get("X-Amz-Server-Side-Encryption") == ""
			})
	case NoIfNoneMatch:
		refuse(http.StatusNotImplemented, "NotImplemented", "A header you provided implies functionality that is not implemented.",
			func(r *http.Request) bool { return r.Header.Get("If-None-Match") != "" })
	case NoVersions:
		refuse(http.StatusNotImplemented, "NotImplemented", "A header or query you provided implies functionality that is not implemented.",
			func(r *http.Request) bool { return r.URL.Query().Has("versions") })
	case MinimalPolicy:
		refuse(http.StatusForbidden, "AccessDenied", "Access Denied", func(r *http.Request) bool {
			q := r.URL.Query()
			return q.Has("versions") || q.Has("versioning") || q.Has("tagging") || q.Has("retention") || q.Has("object-lock") || r.Method == http.MethodGet && q.Has("uploads")
		})
	case Late:
		var mu sync.Mutex
		seen := map[string]bool{}
		refuse(http.StatusForbidden, "AccessDenied", "Access Denied", func(r *http.Request) bool {
			if r.Method != http.MethodPut || !r.URL.Query().Has("retention") {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			first := !seen[r.URL.Path]
			seen[r.URL.Path] = true
			return first
		})
	case SmallBodies:
		g.Inject(Fault{Status: http.StatusRequestEntityTooLarge, Body: "<html><head><title>413 Request Entity Too Large</title></head><body>nginx</body></html>",
			Match: func(r *http.Request) bool { return r.ContentLength > largestBody }})
	case Slow:
		g.Watch(func(r *http.Request) {
			if r.Body != nil {
				r.Body = &slowBody{r.Body}
			}
		}, nil)
	}
}

// newerChecksums reports whether a request has a header that S3 introduced after Content-MD5.
func newerChecksums(r *http.Request) bool {
	for name := range r.Header {
		if name := strings.ToLower(name); strings.HasPrefix(name, "x-amz-checksum-") || strings.HasPrefix(name, "x-amz-sdk-checksum-") || name == "x-amz-trailer" {
			return true
		}
	}
	return strings.Contains(r.Header.Get("X-Amz-Content-Sha256"), "TRAILER")
}

// changesSettings reports whether a request changes an object or a bucket that exists.
func changesSettings(r *http.Request) bool {
	q := r.URL.Query()
	for _, sub := range []string{"retention", "tagging", "legal-hold", "object-lock", "lifecycle", "policy", "versioning", "encryption"} {
		if r.Method == http.MethodPut && q.Has(sub) {
			return true
		}
	}
	return r.Method == http.MethodPost && q.Has("delete")
}

// beginsObject reports whether a request uploads an object, or begins to.
func beginsObject(r *http.Request) bool {
	return r.Method == http.MethodPut && len(strings.Split(strings.Trim(r.URL.Path, "/"), "/")) > 1 && r.URL.RawQuery == "x-id=PutObject" ||
		r.Method == http.MethodPost && r.URL.Query().Has("uploads")
}

// slowBody is read at slowRate.
type slowBody struct{ io.ReadCloser }

func (b *slowBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), slowPiece)])
	time.Sleep(time.Duration(n) * time.Second / slowRate)
	return n, err
}
