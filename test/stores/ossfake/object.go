package ossfake

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"hash/crc64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// version is content or a delete marker.
type version struct {
	id       string
	marker   bool
	body     []byte
	crc      string
	etag     string
	modified time.Time
	meta     map[string]string
	tags     []tag
}

type tag struct{ Key, Value string }

var ecma = crc64.MakeTable(crc64.ECMA)

func (x *exchange) serveObject(b *bucket) (int, any, error) {
	// user-guide/object-overview: names are 1 to 1023 bytes of UTF-8 and begin with no slash.
	if len(x.key) > 1023 || strings.HasPrefix(x.key, "/") || strings.HasPrefix(x.key, `\`) {
		return 0, nil, refuse(http.StatusBadRequest, "InvalidObjectName", "The specified object is not valid.")
	}
	switch method := x.r.Method; {
	case x.has("uploadId"), x.has("uploads"):
		return x.serveUpload(b)
	case x.has("tagging"):
		return x.serveTagging(b)
	case method == http.MethodPut && x.r.Header.Get("x-oss-copy-source") == "":
		v, err := x.newVersion(x.body)
		if err != nil {
			return 0, nil, err
		}
		return x.store(b, v)
	case method == http.MethodGet, method == http.MethodHead:
		return x.get(b)
	case method == http.MethodDelete:
		return x.delete(b)
	}
	return 0, nil, notImplemented(x)
}

// newVersion is what the headers of a request describe.
func (x *exchange) newVersion(body []byte) (*version, error) {
	sum := md5.Sum(body)
	v := &version{body: body, etag: strings.ToUpper(hex.EncodeToString(sum[:])), meta: map[string]string{}}
	for name, values := range x.r.Header {
		if strings.HasPrefix(strings.ToLower(name), "x-oss-meta-") {
			v.meta[strings.ToLower(name)] = values[0]
		}
	}
	parsed, err := url.ParseQuery(x.r.Header.Get("x-oss-tagging"))
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "InvalidArgument", "The header x-oss-tagging cannot be decoded.")
	}
	for key := range parsed {
		v.tags = append(v.tags, tag{key, parsed.Get(key)})
	}
	return v, checkTags(v.tags)
}

// store makes v the latest version of the key.
//
// developer-reference/putobject, x-oss-forbid-overwrite: an existing object is not overwritten
// and 409 FileAlreadyExists is answered; where versioning is enabled or suspended the header
// has no effect. A marker is no object that exists.
func (x *exchange) store(b *bucket, v *version) (int, any, error) {
	all := b.objects[x.key]
	v.modified = x.now.Truncate(time.Second)
	if b.versioning == "" && len(all) > 0 {
		if x.r.Header.Get("x-oss-forbid-overwrite") == "true" {
			return 0, nil, refuse(http.StatusConflict, "FileAlreadyExists", "The object you specified already exists and can not be overwritten.")
		}
	}
	if err := b.push(x, v); err != nil {
		return 0, nil, err
	}
	x.describe(b, v)
	return http.StatusOK, nil, nil
}

// push: user-guide/overview-78, versioning: while it is enabled every write makes a version of
// its own; otherwise a write replaces the version "null".
func (b *bucket) push(x *exchange, v *version) error {
	all := b.objects[x.key]
	if b.versioning == "Enabled" {
		v.id = fmt.Sprintf("CAEQ%020d", x.s.serial)
	} else {
		v.id = "null"
		if i := slices.IndexFunc(all, func(v *version) bool { return v.id == "null" }); i >= 0 {
			if b.protects(all[i], x.now) {
				return immutable()
			}
			all = slices.Delete(slices.Clone(all), i, i+1)
		}
	}
	b.objects[x.key] = append([]*version{v}, all...)
	return nil
}

// describe sets the headers that tell about a version.
func (x *exchange) describe(b *bucket, v *version) {
	x.header.Set("ETag", `"`+v.etag+`"`)
	if v.crc == "" {
		v.crc = strconv.FormatUint(crc64.Checksum(v.body, ecma), 10)
	}
	x.header.Set("x-oss-hash-crc64ecma", v.crc)
	x.header.Set("x-oss-object-type", "Normal")
	if b.versioning != "" {
		x.header.Set("x-oss-version-id", v.id)
	}
}

// pick finds the version that a request is about. developer-reference/getobject: of a key
// whose latest version is a marker 404 NoSuchKey is answered, of a marker that is named 405.
func (x *exchange) pick(b *bucket) (*version, error) {
	all := b.objects[x.key]
	id, named := x.query["versionId"]
	i := 0
	if named {
		if i = slices.IndexFunc(all, func(v *version) bool { return v.id == id }); i < 0 && len(all) > 0 {
			return nil, refuse(http.StatusNotFound, "NoSuchVersion", "The specified version does not exist.")
		}
	}
	if len(all) == 0 || i < 0 {
		return nil, refuse(http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
	}
	v := all[i]
	if v.marker {
		x.header.Set("x-oss-delete-marker", "true")
		x.header.Set("x-oss-version-id", v.id)
		if named {
			return nil, refuse(http.StatusMethodNotAllowed, "MethodNotAllowed", "The specified method is not allowed against this resource.")
		}
		return nil, refuse(http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
	}
	return v, nil
}

func (x *exchange) get(b *bucket) (int, any, error) {
	v, err := x.pick(b)
	if err != nil {
		return 0, nil, err
	}
	x.describe(b, v)
	x.header.Set("Last-Modified", v.modified.UTC().Format(http.TimeFormat))
	x.header.Set("Accept-Ranges", "bytes")
	for name, value := range v.meta {
		x.header.Set(name, value)
	}
	if len(v.tags) > 0 {
		x.header.Set("x-oss-tagging-count", strconv.Itoa(len(v.tags)))
	}
	asked := x.r.Header.Get("Range")
	if asked == "" || x.r.Method == http.MethodHead {
		return http.StatusOK, v.body, nil
	}
	from, to, valid := bounds(asked, int64(len(v.body)))
	if !valid {
		// developer-reference/getobject, x-oss-range-behavior: without "standard" the whole
		// object is answered in place of a range that does not exist.
		if x.r.Header.Get("x-oss-range-behavior") != "standard" {
			return http.StatusOK, v.body, nil
		}
		return 0, nil, refuse(http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "The requested range cannot be satisfied.")
	}
	x.header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, len(v.body)))
	return http.StatusPartialContent, v.body[from : to+1], nil
}

// bounds reads bytes=FROM-[TO], both inclusive.
func bounds(asked string, size int64) (from, to int64, valid bool) {
	first, last, _ := strings.Cut(strings.TrimPrefix(asked, "bytes="), "-")
	from, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return 0, 0, false
	}
	to = size - 1
	if last != "" {
		if to, err = strconv.ParseInt(last, 10, 64); err != nil || to < from {
			return 0, 0, false
		}
	}
	return from, min(to, size-1), from < size
}

// delete: developer-reference/deleteobject: 204, whether or not there was an object. Without a
// version a marker is made where versions are or were kept. That a marker may be put over a
// version under retention is not documented; it changes no version.
func (x *exchange) delete(b *bucket) (int, any, error) {
	id, named := x.query["versionId"]
	all := b.objects[x.key]
	if !named && b.versioning != "" {
		v := &version{marker: true, modified: x.now.Truncate(time.Second)}
		if err := b.push(x, v); err != nil {
			return 0, nil, err
		}
		x.header.Set("x-oss-delete-marker", "true")
		x.header.Set("x-oss-version-id", v.id)
		return http.StatusNoContent, nil, nil
	}
	if !named {
		id = "null"
	}
	i := slices.IndexFunc(all, func(v *version) bool { return v.id == id })
	if i < 0 {
		return http.StatusNoContent, nil, nil
	}
	if b.protects(all[i], x.now) {
		return 0, nil, immutable()
	}
	if b.objects[x.key] = slices.Delete(slices.Clone(all), i, i+1); len(b.objects[x.key]) == 0 {
		delete(b.objects, x.key)
	}
	return http.StatusNoContent, nil, nil
}

// tagging is a set of tags.
type tagging struct {
	XMLName xml.Name `xml:"Tagging"`
	Tags    []tag    `xml:"TagSet>Tag"`
}

// serveTagging: developer-reference/putobjecttagging and getobjecttagging. Whether tags may be
// changed under retention is not documented; here they may, since they are not the object.
func (x *exchange) serveTagging(b *bucket) (int, any, error) {
	v, err := x.pick(b)
	if err != nil {
		return 0, nil, err
	}
	switch x.r.Method {
	case http.MethodGet:
		return http.StatusOK, tagging{Tags: v.tags}, nil
	case http.MethodPut:
		var t tagging
		if err := x.parse(&t); err != nil {
			return 0, nil, err
		}
		if err := checkTags(t.Tags); err != nil {
			return 0, nil, err
		}
		v.tags = t.Tags
		return http.StatusOK, nil, nil
	}
	return 0, nil, notImplemented(x)
}

// checkTags: user-guide/object-tagging: at most ten, keys of 1 to 128 characters, values of at
// most 256, of letters, digits, spaces and + - = . _ : /
func checkTags(tags []tag) error {
	wrong := refuse(http.StatusBadRequest, "InvalidTag", "The Tagging you provided is invalid.")
	strange := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r > 127 || strings.ContainsRune(" +-=._:/", r))
	}
	if len(tags) > 10 {
		return wrong
	}
	for _, t := range tags {
		if t.Key == "" || len(t.Key) > 128 || len(t.Value) > 256 || strings.ContainsFunc(t.Key+t.Value, strange) {
			return wrong
		}
	}
	return nil
}
