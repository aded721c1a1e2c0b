package s3

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// checksum is what proves to the server that a body arrived as it was sent. Besides it, the
// signature covers the SHA-256 of every body, which also servers verify that ignore the rest.
//
// The values are sent as headers, not as trailers: bodies are in memory anyway, and old
// servers do not understand the chunked encoding trailers need.
type checksum struct {
	algorithm types.ChecksumAlgorithm // empty with MD5
	crc32     *string
	md5       *string
}

func (s *Store) checksum(body []byte) checksum {
	if s.opts.LegacyChecksums {
		sum := md5.Sum(body)
		value := base64.StdEncoding.EncodeToString(sum[:])
		return checksum{md5: &value}
	}
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.ChecksumIEEE(body))
	value := base64.StdEncoding.EncodeToString(sum[:])
	return checksum{algorithm: types.ChecksumAlgorithmCrc32, crc32: &value}
}
