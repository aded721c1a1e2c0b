package s3

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// checksum is what proves to the server that a body arrived as it was sent. Besides it, the
// signature covers the SHA-256 of a body, which also servers verify that ignore the rest; see
// Store.unsigned for when it need not.
//
// The values are sent as headers, not as trailers: bodies are in memory anyway, and old
// servers do not understand the chunked encoding trailers need.
type checksum struct {
	algorithm types.ChecksumAlgorithm // empty with LegacyChecksums: sendContentMD5 adds Content-MD5
	crc32     *string
}

func (s *Store) checksum(body []byte) checksum {
	if s.opts.LegacyChecksums {
		return checksum{}
	}
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.ChecksumIEEE(body))
	value := base64.StdEncoding.EncodeToString(sum[:])
	return checksum{algorithm: types.ChecksumAlgorithmCrc32, crc32: &value}
}

// confirm notes whether the server answered with the checksum that was sent: then it verified
// it, and the signature need not cover the body as well.
func (s *Store) confirm(sum checksum, answered *string) {
	s.verifies.Store(sum.crc32 != nil && aws.ToString(answered) == *sum.crc32)
}

// unsigned leaves the SHA-256 of a body out of its signature where that is known to add
// nothing: TLS with a verified certificate keeps the body as it is, and the server was seen to
// verify the checksum. It is half of what an upload costs.
func (s *Store) unsigned(o *awss3.Options) {
	if s.verifies.Load() && s.trusted {
		o.APIOptions = append(o.APIOptions, v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware)
	}
}
