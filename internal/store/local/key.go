package local

import (
	"errors"
	"fmt"
	"strings"
)

// Hidden names are this package's own and no part of any key.
const (
	hidden      = ".druid-"
	tempMark    = hidden + "tmp-"  // an upload that is not complete
	sidecarMark = hidden + "meta-" // the attributes of the object named behind it
)

// maxElement bounds an element of a key in bytes, so that the hidden file beside it fits the
// 255 bytes of usual file systems.
const maxElement = 240

var errKey = errors.New("not a possible key for files")

// pathOf is the path of a key below the root. It is the key itself, if no element of it means
// something else to a file system; it never leads out of the root. A key that begins with a slash
// is the same file as the one without, as with upstream.
func pathOf(key string) (string, error) {
	path := strings.TrimPrefix(key, "/")
	for e := range strings.SplitSeq(path, "/") {
		var why string
		switch {
		case e == "":
			why = "it has an empty element"
		case e == "." || e == "..":
			why = "it has an element " + e
		case strings.HasPrefix(e, hidden):
			why = "names that begin with " + hidden + " are reserved"
		case strings.ContainsRune(e, 0):
			why = "it contains a zero byte"
		case len(e) > maxElement:
			why = fmt.Sprintf("an element is longer than %d bytes", maxElement)
		default:
			continue
		}
		return "", fmt.Errorf("%q: %s: %w", key, why, errKey)
	}
	return path, nil
}
