package ossfake

import (
	"encoding/xml"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// listed is a version or a marker in a listing.
type listed struct {
	XMLName        xml.Name // Version or DeleteMarker
	Key, VersionId string
	IsLatest       bool
	LastModified   string
	ETag, Type     string `xml:",omitempty"`
	Size           *int   `xml:"Size"`
	StorageClass   string `xml:",omitempty"`
	Owner          struct{ ID, DisplayName string }
}

// listVersions: developer-reference/listobjectversions: keys in the order of their bytes,
// versions newest first; from the key marker on if a version marker is given, else after it.
// Objects written without versioning have the version ID null.
func (x *exchange) listVersions(b *bucket) (int, any, error) {
	limit := 100
	if s := x.query["max-keys"]; s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 1000 {
			return 0, nil, refuse(http.StatusBadRequest, "InvalidArgument", "max-keys must be between 1 and 1000.")
		}
		limit = n
	}
	var (
		out struct {
			XMLName                            xml.Name `xml:"ListVersionsResult"`
			Name, Prefix                       string
			KeyMarker, VersionIdMarker         string
			MaxKeys                            int
			EncodingType                       string `xml:",omitempty"`
			IsTruncated                        bool
			NextKeyMarker, NextVersionIdMarker string `xml:",omitempty"`
			Items                              []listed
		}
		prefix, keyMarker = x.query["prefix"], x.query["key-marker"]
		idMarker, within  = x.query["version-id-marker"], x.query["version-id-marker"] != ""
		lastKey, lastID   string
	)
	out.Name, out.Prefix, out.MaxKeys, out.EncodingType = x.bucket, x.encoded(prefix), limit, x.query["encoding-type"]
	out.KeyMarker, out.VersionIdMarker = x.encoded(keyMarker), idMarker
	for _, key := range slices.Sorted(maps.Keys(b.objects)) {
		if !strings.HasPrefix(key, prefix) || key < keyMarker || key == keyMarker && !within {
			continue
		}
		skipping := key == keyMarker && within
		for i, v := range b.objects[key] {
			if skipping {
				skipping = v.id != idMarker
				continue
			}
			if len(out.Items) == limit {
				out.IsTruncated, out.NextKeyMarker, out.NextVersionIdMarker = true, x.encoded(lastKey), lastID
				return http.StatusOK, out, nil
			}
			item := listed{XMLName: xml.Name{Local: "Version"}, Key: x.encoded(key), VersionId: v.id, IsLatest: i == 0, LastModified: v.modified.UTC().Format("2006-01-02T15:04:05.000Z")}
			if v.marker {
				item.XMLName.Local = "DeleteMarker"
			} else {
				size := len(v.body)
				item.ETag, item.Type, item.Size, item.StorageClass = `"`+v.etag+`"`, "Normal", &size, "Standard"
			}
			out.Items = append(out.Items, item)
			lastKey, lastID = key, v.id
		}
	}
	return http.StatusOK, out, nil
}

// listUploads: developer-reference/listmultipartuploads, without pages.
func (x *exchange) listUploads(b *bucket) (int, any, error) {
	type entry struct{ Key, UploadId string }
	var out struct {
		XMLName xml.Name `xml:"ListMultipartUploadsResult"`
		Bucket  string
		Upload  []entry
	}
	out.Bucket = x.bucket
	for _, id := range slices.Sorted(maps.Keys(b.uploads)) {
		if strings.HasPrefix(b.uploads[id].key, x.query["prefix"]) {
			out.Upload = append(out.Upload, entry{b.uploads[id].key, id})
		}
	}
	return http.StatusOK, out, nil
}
