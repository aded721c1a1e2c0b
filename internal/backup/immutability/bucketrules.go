package immutability

import (
	"slices"
	"time"
)

// BucketRules are what a provider's buckets can be asked for, by its documentation.
type BucketRules struct {
	Provider string
	// None says why there is no immutability at all; empty: there is.
	None string
	// Advisory: nothing but this project's own restraint protects.
	Advisory bool

	Unit, Min, Max time.Duration // of a period: multiples of Unit, from Min to Max

	// StampsMode: the lock has a mode, which is stamped on what is written with the date when it
	// ends, and later changes do not touch. Else the period is the bucket's, counts for what is there
	// as well, and its policy is compliance when it is locked and governance until then.
	StampsMode bool
	// Lapses is after how long a policy that is not locked ends by itself; 0: never.
	Lapses time.Duration
	// MaxExtensions is how often the period of a locked policy can be raised at all; 0: always.
	MaxExtensions int
	// CreatedWhole: the policy is part of the creation, so the bucket is never without it.
	CreatedWhole bool

	NoDefault string // why ByBucket cannot be had; empty: it can
	NoObjects string // why ByObject cannot be had; empty: it can
	// OnlyNew says why ByObject cannot be had on a bucket that was created without; empty: it can.
	OnlyNew string

	Guards  []Guard // that its bucket policies can express
	Uploads bool    // interrupted uploads stay until a lifecycle rule removes them
}

// years are as the providers count them, without leap days.
const years = 365 * Day

// bucketRules are in the order of the providers' names. The pages are cited where a number is from.
var bucketRules = []BucketRules{
	{
		// docs.aws.amazon.com/AmazonS3/latest/userguide/object-lock-managing.html: whole days, 100 years at most.
		Provider: "S3", Unit: Day, Min: Day, Max: 100 * years, StampsMode: true, Uploads: true,
		Guards: Guards(),
	},
	{
		// cloud.google.com/storage/docs/bucket-lock: up to 3,155,760,000 s; below a day Google promises
		// nothing, and locking has no effect.
		Provider: "GCS", Unit: time.Second, Min: Day, Max: 3_155_760_000 * time.Second, CreatedWhole: true,
		OnlyNew: "Google lets the API allow locks of single objects only when a bucket is created: make a new bucket and copy the backups (etcdbrctl copy), or allow it in Google's console",
	},
	{
		// learn.microsoft.com/azure/storage/blobs/immutable-time-based-retention-policy-overview:
		// 1 to 146000 days (a time.Duration holds fewer), and five extensions of a locked policy in its life.
		Provider: "ABS", Unit: Day, Min: Day, Max: 100_000 * Day, MaxExtensions: 5,
		OnlyNew: "an existing container has to be migrated to version-level immutability, which is done for the whole container and cannot be undone (az storage container-rm migrate-vlw): migrate it, or make a new container and copy the backups (etcdbrctl copy)",
	},
	{
		// www.alibabacloud.com/help/en/oss/developer-reference/initiatebucketworm: 1 to 25550 days;
		// user-guide/oss-retention-policies: a policy that is not locked ends after 24 hours.
		Provider: "OSS", Unit: Day, Min: Day, Max: 25_550 * Day, Lapses: Day, Uploads: true,
		NoObjects: "OSS locks whole buckets only (locks of single objects are by invitation): use the retention type bucket",
	},
	{
		Provider: "Swift",
		None:     "Swift has no immutability: whoever may write to a container can delete and overwrite what is in it",
	},
	{
		Provider: "Local", Unit: time.Second, Min: time.Second, Max: MaxPeriod, Advisory: true, StampsMode: true,
		NoDefault: "a directory locks nothing by itself: with the retention type object whoever writes locks each file, which is advisory",
	},
}

// sameRules are the providers that speak another's protocol.
var sameRules = map[string]string{"ECS": "S3", "OCS": "S3"}

// RulesOf finds the rules of a provider by its canonical name: S3, ECS, OCS, GCS, ABS, OSS, Swift, Local.
func RulesOf(provider string) (BucketRules, bool) {
	name := provider
	if other, is := sameRules[provider]; is {
		name = other
	}
	i := slices.IndexFunc(bucketRules, func(r BucketRules) bool { return r.Provider == name })
	if i < 0 {
		return BucketRules{}, false
	}
	r := bucketRules[i]
	r.Provider = provider
	return r, true
}
