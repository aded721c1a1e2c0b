package extender

// right is what an extension does with a store, and needs a permission for.
type right int

// The rights.
const (
	toRead right = iota // until when something is locked
	toLock              // for longer, or to hold it and to release that
	toCopy              // under another name
)

// ofS3 are the actions of S3, whatever the product is called that has its protocol.
var ofS3 = map[right]string{
	toRead: "s3:GetObjectRetention",
	toLock: "s3:GetObjectRetention and s3:PutObjectRetention",
	toCopy: "s3:GetObject, s3:GetObjectVersion and s3:PutObject",
}

// rights are what each provider calls what is needed.
var rights = map[string]map[right]string{
	"S3": ofS3, "ECS": ofS3, "OCS": ofS3,
	"ABS": {
		toRead: "blobs/read (SAS: r)",
		toLock: "the right to set immutability policies of blobs (SAS: i)",
		toCopy: "blobs/read, blobs/write and blobs/add/action (SAS: r, w and c)",
	},
	"GCS": {
		toRead: "storage.objects.get and storage.buckets.get",
		toLock: "storage.objects.update, and where objects have retention of their own storage.objects.setRetention",
		toCopy: "storage.objects.get and storage.objects.create",
	},
	"OSS": {
		toRead: "oss:GetBucketWorm",
		toCopy: "oss:GetObject, oss:GetObjectVersion and oss:PutObject",
	},
}

// plainly is for providers without names for it.
var plainly = map[right]string{
	toRead: "the right to read locks",
	toLock: "the right to lengthen locks",
	toCopy: "the right to read and to write",
}

// needs is the remedy for a permission that is missing, in the words of the provider.
func (x *run) needs(r right) string {
	what := rights[x.q.Store.Capabilities().Provider][r]
	if what == "" {
		what = plainly[r]
	}
	return "the extender needs " + what + "; see docs/operations/permissions.md"
}
