package ossfake

import (
	"encoding/xml"
	"fmt"
	"hash/crc64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// upload is a multipart upload that was neither completed nor aborted.
type upload struct {
	key   string
	made  *version // what is known of the object from its beginning
	parts map[int]*version
}

// minPart: developer-reference/uploadpart: every part but the last has at least 100 KB.
const minPart = 100 << 10

func (x *exchange) serveUpload(b *bucket) (int, any, error) {
	if x.has("uploads") {
		return x.initiate(b)
	}
	id := x.query["uploadId"]
	u := b.uploads[id]
	if u == nil || u.key != x.key {
		return 0, nil, refuse(http.StatusNotFound, "NoSuchUpload", "The specified upload does not exist.")
	}
	switch x.r.Method {
	case http.MethodPut:
		return x.part(u)
	case http.MethodPost:
		return x.complete(b, id, u)
	case http.MethodDelete:
		delete(b.uploads, id)
		return http.StatusNoContent, nil, nil
	}
	return 0, nil, notImplemented(x)
}

// initiate: developer-reference/initiatemultipartupload; x-oss-forbid-overwrite counts here too.
func (x *exchange) initiate(b *bucket) (int, any, error) {
	v, err := x.newVersion(nil)
	if err != nil {
		return 0, nil, err
	}
	if b.versioning == "" && len(b.objects[x.key]) > 0 && x.r.Header.Get("x-oss-forbid-overwrite") == "true" {
		return 0, nil, refuse(http.StatusConflict, "FileAlreadyExists", "The object you specified already exists and can not be overwritten.")
	}
	id := fmt.Sprintf("%032X", x.s.serial)
	b.uploads[id] = &upload{key: x.key, made: v, parts: map[int]*version{}}
	return http.StatusOK, struct {
		XMLName               xml.Name `xml:"InitiateMultipartUploadResult"`
		EncodingType          string   `xml:"EncodingType,omitempty"`
		Bucket, Key, UploadId string
	}{EncodingType: x.query["encoding-type"], Bucket: x.bucket, Key: x.encoded(x.key), UploadId: id}, nil
}

// encoded is a name in an answer: developer-reference/listobjectversions, encoding-type.
func (x *exchange) encoded(s string) string {
	if x.query["encoding-type"] != "url" {
		return s
	}
	return url.QueryEscape(s)
}

// part: developer-reference/uploadpart and uploadpartcopy.
func (x *exchange) part(u *upload) (int, any, error) {
	number, err := strconv.Atoi(x.query["partNumber"])
	if err != nil || number < 1 || number > 10000 {
		return 0, nil, refuse(http.StatusBadRequest, "InvalidArgument", "The part number must be between 1 and 10000.")
	}
	body := x.body
	source := x.r.Header.Get("x-oss-copy-source")
	if source != "" {
		if body, err = x.source(source); err != nil {
			return 0, nil, err
		}
	}
	p, err := x.newVersion(body)
	if err != nil {
		return 0, nil, err
	}
	u.parts[number] = p
	x.header.Set("ETag", `"`+p.etag+`"`)
	if source == "" {
		x.header.Set("x-oss-hash-crc64ecma", strconv.FormatUint(crc64.Checksum(body, ecma), 10))
		return http.StatusOK, nil, nil
	}
	return http.StatusOK, struct {
		XMLName            xml.Name `xml:"CopyPartResult"`
		LastModified, ETag string
	}{LastModified: x.now.UTC().Format("2006-01-02T15:04:05.000Z"), ETag: `"` + p.etag + `"`}, nil
}

// source reads the range of another object that a part is copied from: /BUCKET/KEY?versionId=ID.
func (x *exchange) source(source string) ([]byte, error) {
	path, query, _ := strings.Cut(strings.TrimPrefix(source, "/"), "?")
	path, err := url.PathUnescape(path)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "InvalidArgument", "The copy source cannot be decoded.")
	}
	other := *x
	other.bucket, other.key, _ = strings.Cut(path, "/")
	other.query = map[string]string{}
	if id, named := strings.CutPrefix(query, "versionId="); named {
		other.query["versionId"] = id
	}
	other.header = http.Header{}
	b, err := other.find()
	if err != nil {
		return nil, err
	}
	v, err := other.pick(b)
	if err != nil {
		return nil, err
	}
	if want := x.r.Header.Get("x-oss-copy-source-if-match"); want != "" && strings.Trim(want, `"`) != v.etag {
		return nil, refuse(http.StatusPreconditionFailed, "PreconditionFailed", "At least one of the preconditions you specified did not hold.")
	}
	if asked := x.r.Header.Get("x-oss-copy-source-range"); asked != "" {
		from, to, valid := bounds(asked, int64(len(v.body)))
		if !valid {
			return nil, refuse(http.StatusBadRequest, "InvalidRange", "The requested range cannot be satisfied.")
		}
		return v.body[from : to+1], nil
	}
	return v.body, nil
}

// complete: developer-reference/completemultipartupload: parts ascending, with their ETags. The
// ETag of the object is not the MD5 of its content.
func (x *exchange) complete(b *bucket, id string, u *upload) (int, any, error) {
	var list struct {
		Part []struct {
			PartNumber int
			ETag       string
		}
	}
	if err := x.parse(&list); err != nil {
		return 0, nil, err
	}
	v := *u.made
	last, size := 0, 0
	for _, p := range u.parts {
		size += len(p.body)
	}
	v.body = make([]byte, 0, size)
	for i, p := range list.Part {
		part := u.parts[p.PartNumber]
		switch {
		case p.PartNumber <= last:
			return 0, nil, refuse(http.StatusBadRequest, "InvalidPartOrder", "The list of parts was not in ascending order.")
		case part == nil || strings.Trim(p.ETag, `"`) != part.etag:
			return 0, nil, refuse(http.StatusBadRequest, "InvalidPart", "One or more of the specified parts could not be found.")
		case i < len(list.Part)-1 && len(part.body) < minPart:
			return 0, nil, refuse(http.StatusBadRequest, "EntityTooSmall", "Your proposed upload smaller than the minimum allowed size.")
		}
		last = p.PartNumber
		v.body = append(v.body, part.body...)
	}
	v.etag = fmt.Sprintf("%s-%d", id, len(list.Part))
	status, _, err := x.store(b, &v)
	if err != nil {
		return 0, nil, err
	}
	delete(b.uploads, id)
	return status, struct {
		XMLName                     xml.Name `xml:"CompleteMultipartUploadResult"`
		EncodingType                string   `xml:"EncodingType,omitempty"`
		Location, Bucket, Key, ETag string
	}{EncodingType: x.query["encoding-type"], Location: "http://" + x.r.Host + x.r.URL.EscapedPath(), Bucket: x.bucket, Key: x.encoded(x.key), ETag: `"` + v.etag + `"`}, nil
}
