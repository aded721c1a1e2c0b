package s3

import (
	"errors"
	"net/http"
	"strings"

	"github.com/aws/smithy-go"

	"druid.internal/druid/internal/store/dial"
)

// actions are the IAM actions that each operation needs. Servers that refuse an operation rarely
// name them.
var actions = map[string]string{
	"ListObjectVersions":              "s3:ListBucketVersions on the bucket",
	"HeadBucket":                      "s3:ListBucket on the bucket",
	"GetBucketVersioning":             "s3:GetBucketVersioning on the bucket",
	"GetObjectLockConfiguration":      "s3:GetBucketObjectLockConfiguration on the bucket",
	"ListMultipartUploads":            "s3:ListBucketMultipartUploads on the bucket",
	"HeadObject":                      "s3:GetObject and s3:GetObjectVersion (and s3:ListBucket on the bucket, without which a missing object is answered with 403)",
	"GetObject":                       "s3:GetObject and s3:GetObjectVersion (and s3:ListBucket on the bucket, without which a missing object is answered with 403)",
	"GetObjectRetention":              "s3:GetObjectRetention",
	"GetObjectTagging":                "s3:GetObjectTagging and s3:GetObjectVersionTagging",
	"PutObject":                       "s3:PutObject (and s3:PutObjectRetention to lock objects one by one, s3:PutObjectTagging to tag them)",
	"CreateMultipartUpload":           "s3:PutObject (and s3:PutObjectRetention to lock objects one by one, s3:PutObjectTagging to tag them)",
	"UploadPart":                      "s3:PutObject",
	"CompleteMultipartUpload":         "s3:PutObject",
	"UploadPartCopy":                  "s3:PutObject, and s3:GetObject and s3:GetObjectVersion of the source",
	"AbortMultipartUpload":            "s3:AbortMultipartUpload",
	"PutObjectRetention":              "s3:PutObjectRetention",
	"PutObjectLegalHold":              "s3:PutObjectLegalHold",
	"PutObjectTagging":                "s3:PutObjectTagging and s3:PutObjectVersionTagging",
	"DeleteObject":                    "s3:DeleteObjectVersion (MinIO: s3:DeleteObject as well)",
	"ListBuckets":                     "s3:ListAllMyBuckets",
	"CreateBucket":                    "s3:CreateBucket (with locks s3:PutBucketObjectLockConfiguration and s3:PutBucketVersioning as well)",
	"DeleteBucket":                    "s3:DeleteBucket",
	"GetBucketAcl":                    "s3:GetBucketAcl",
	"PutBucketVersioning":             "s3:PutBucketVersioning",
	"PutObjectLockConfiguration":      "s3:PutBucketObjectLockConfiguration",
	"GetBucketPolicy":                 "s3:GetBucketPolicy",
	"PutBucketPolicy":                 "s3:PutBucketPolicy",
	"DeleteBucketPolicy":              "s3:DeleteBucketPolicy",
	"GetBucketLifecycleConfiguration": "s3:GetLifecycleConfiguration",
	"PutBucketLifecycleConfiguration": "s3:PutLifecycleConfiguration",
}

// The ends of remedies.
const (
	eachRole      = " (docs/operations/permissions.md lists what each role needs)"
	setLegacy     = "set requestChecksumCalculation to when_required in the credentials (docs/operations/s3-compatible.md)"
	setEncryption = "set serverSideEncryption in the credentials, or --store-server-side-encryption, to AES256, or to aws:kms with the key in kmsKeyID"
)

// operationOf is the name of the S3 operation that failed, or "".
func operationOf(err error) string {
	var op *smithy.OperationError
	if errors.As(err, &op) {
		return op.Operation()
	}
	return ""
}

// grant is the remedy for a refusal: the actions that the operation needs, and the other causes
// that such a refusal may have.
func (o Options) grant(operation, said string) string {
	action := actions[operation]
	if action == "" {
		action = "the action"
	}
	remedy := "grant " + action + " to this identity" + eachRole
	said = strings.ToLower(said)
	if strings.Contains(said, "kms:") || strings.Contains(said, "kms.") {
		return "grant kms:GenerateDataKey and kms:Decrypt on the key to this identity"
	}
	if operation != "PutObject" && operation != "CreateMultipartUpload" {
		return remedy
	}
	switch denied := strings.Contains(said, "explicit deny"); {
	case o.CustomerKey != "" || o.Encryption != "" && !denied:
		return remedy
	case o.Encryption != "":
		return "the bucket's policy denies it: it may require another serverSideEncryption than " + o.Encryption + ", or another kmsKeyID; else " + remedy
	case denied:
		return "the bucket's policy denies it. If it requires encryption, " + setEncryption + "; else " + remedy
	}
	return remedy + "; if the bucket requires encryption, " + setEncryption
}

// unsupported is the remedy for a request that the server does not implement.
func (o Options) unsupported(operation, said string) string {
	var causes []string
	switch {
	case o.Encryption != "" && strings.Contains(strings.ToUpper(said), "KMS"):
		return "the server has no keys for serverSideEncryption " + o.Encryption + ": set up its key management, or remove serverSideEncryption"
	case (o.ConditionalPut == nil || *o.ConditionalPut) && (operation == "PutObject" || operation == "CompleteMultipartUpload"):
		causes = append(causes, "if the server does not implement If-None-Match, set conditionalPut to false in the credentials, or STORAGE_CONDITIONAL_PUT=false"+
			" (versions and the manifest's digest then tell an overwrite apart, so switch versioning on)")
	}
	if !o.LegacyChecksums && sendsBody(operation) {
		causes = append(causes, "if it does not implement the newer checksums, "+setLegacy)
	}
	return strings.Join(causes, "; ")
}

// sendsBody reports whether an operation has a body, and so a checksum.
func sendsBody(operation string) bool {
	return strings.HasPrefix(operation, "Put") || operation == "UploadPart" || operation == "CompleteMultipartUpload" || operation == "CreateMultipartUpload"
}

// aboutChecksums reports whether a refusal names the newer checksums, or lacks Content-MD5.
func aboutChecksums(said string) bool {
	said = strings.ToLower(said)
	for _, words := range []string{"x-amz-checksum", "x-amz-sdk-checksum", "x-amz-trailer", "-trailer", "content-md5"} {
		if strings.Contains(said, words) {
			return true
		}
	}
	return false
}

// tooLarge is the remedy for a body that was too large. A server of S3 names the cause by a code;
// an answer without one is a proxy's.
func (o Options) tooLarge(operation, code string) (said, remedy string) {
	if code != "EntityTooLarge" {
		return dial.BodyRefused("S3", o.PartSize)
	}
	switch {
	case operation == "UploadPartCopy":
		return "", "the server copies no ranges of that size: copy the object by streaming it"
	case o.PartSize > minPartSize:
		return "", "a part is larger than the server takes: lower --min-chunk-size (minChunkSize)" + dial.PartSize(o.PartSize)
	}
	return "", "the object, or a part" + dial.PartSize(o.PartSize) + ", is larger than the server takes, and S3 has no smaller parts: raise the server's limit"
}

// statusTooLarge is the status of a body that is too large.
const statusTooLarge = http.StatusRequestEntityTooLarge
