package swift

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// The headers by which Swift tells a large object.
const (
	headerDynamic = "X-Object-Manifest"     // CONTAINER/PREFIX of the segments of a dynamic one
	headerStatic  = "X-Static-Large-Object" // True
)

// Names of segments. Both kinds are directly below the key of their object:
//
//	KEY/0000000001                                    the original's
//	KEY/druid-GEZDGNBVGY3TQOJQGEZDGNBVGY-00000001     ours; in the middle the nonce of the upload
//
// Whatever has such a name belongs to the object KEY: it is not listed, and goes with it. Without
// an object KEY it is the rest of an upload that failed or of a deletion that was interrupted,
// and is listed as what it is.
const (
	ownSegment    = "druid-"
	nonceBytes    = 26
	numberDigits  = 8
	segmentBytes  = 1 + len(ownSegment) + nonceBytes + 1 + numberDigits
	foreignDigits = 10
)

// segmentKey names a segment of our own.
func segmentKey(key, nonce string, number int) string {
	return fmt.Sprintf("%s/%s%s-%0*d", key, ownSegment, nonce, numberDigits, number)
}

// segmentOf is the key of the object that a name belongs to, if it has the form of a segment.
func segmentOf(name string) (key string, is bool) {
	i := strings.LastIndexByte(name, '/')
	if i <= 0 {
		return "", false
	}
	base := name[i+1:]
	if rest, own := strings.CutPrefix(base, ownSegment); own {
		return name[:i], len(rest) == nonceBytes+1+numberDigits && rest[nonceBytes] == '-' && digits(rest[nonceBytes+1:])
	}
	return name[:i], len(base) == foreignDigits && digits(base)
}

func digits(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

// largeType is the media type of our manifests. Its parameter tells the size of the whole to
// listings of servers that show the size of the manifest itself.
const largeType = "application/x-druid-large"

func largeTypeOf(size int64) string {
	return mime.FormatMediaType(largeType, map[string]string{"size": strconv.FormatInt(size, 10)})
}

// sizeInType reads the size back.
func sizeInType(contentType string) (int64, bool) {
	if !strings.HasPrefix(contentType, largeType) {
		return 0, false
	}
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != largeType {
		return 0, false
	}
	size, err := strconv.ParseInt(params["size"], 10, 64)
	return size, err == nil && size >= 0
}

// segment is one part of a dynamic large object.
type segment struct {
	container, name string
	etag            string // the MD5, hexadecimal
	size            int64
}

// dynamicSegments finds what the manifest header of key names, in the order of the content.
//
// The original names the key itself, without a slash, and the server then takes every object
// whose name begins so, be it another snapshot with a further suffix. Here it is only what is
// below the key and named as the original names segments.
func (s *Store) dynamicSegments(ctx context.Context, key, manifest string) (all []segment, size int64, err error) {
	plain, err := url.PathUnescape(manifest)
	if err != nil {
		return nil, 0, fmt.Errorf("its manifest %q cannot be decoded: %w", manifest, err)
	}
	container, prefix, found := strings.Cut(strings.TrimPrefix(plain, "/"), "/")
	if !found || container == "" || prefix == "" {
		return nil, 0, fmt.Errorf("its manifest %q names no segments", manifest)
	}
	original := container == s.opts.Container && prefix == key
	if original {
		prefix += "/"
	}
	err = s.each(ctx, container, prefix, func(page []entry) error {
		for _, e := range page {
			if original {
				if owner, is := segmentOf(e.Name); !is || owner != key || strings.HasPrefix(e.Name, prefix+ownSegment) {
					continue
				}
			}
			if container == s.opts.Container && e.Name == key {
				continue
			}
			all = append(all, segment{container: container, name: e.Name, etag: e.Hash, size: e.Bytes})
			size += e.Bytes
		}
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("look for its segments: %w", s.classify(ctx, err))
	}
	return all, size, nil
}

// sizeOf is the size of an object by the answer about it.
func (s *Store) sizeOf(ctx context.Context, key string, h http.Header) (int64, error) {
	if manifest := h.Get(headerDynamic); manifest != "" {
		_, size, err := s.dynamicSegments(ctx, key, manifest)
		return size, err
	}
	size, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	if err != nil || size < 0 {
		return 0, fmt.Errorf("the server does not tell the size of %s", key)
	}
	return size, nil
}
