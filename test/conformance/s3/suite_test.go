package s3_test

import (
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
	"druid.internal/druid/test/stores"
)

// kinds are the kinds of bucket the suite is run in, in words for the results.
var kinds = map[stores.Protection]string{
	stores.Lockable:    "versions and object lock",
	stores.Versioned:   "versions",
	stores.Unversioned: "neither versions nor locks",
}

func TestS3KeepsTheContractOnMinIO(t *testing.T) {
	for p, kind := range kinds {
		t.Run(string(p), func(t *testing.T) {
			o := onMinIO(t).suite(p)
			o.SparesMarkers = true
			storetest.Report{Server: "MinIO of " + stores.MinIOVersion[len("v0.0.0-"):len("v0.0.0-20260212")], Bucket: kind, Limits: []string{
				"AWS itself: MinIO refuses the deletion of what is locked in other words (400 InvalidRequest) and does not insist on checksums; that they are sent is shown by unit tests",
			}}.Publish(t, &o, "../results/s3-minio-"+string(p)+".json", *update)
			storetest.Run(t, o)
		})
	}
}

// Ceph's gateway takes If-None-Match and ignores it, so nothing but its versions keeps what is
// overwritten. Nobody has to say so: it is not among the servers known to refuse.
func TestS3KeepsTheContractOnCeph(t *testing.T) {
	for p, kind := range kinds {
		t.Run(string(p), func(t *testing.T) {
			o := onCeph(t).suite(p)
			o.Want.ConditionalPut, o.OneMarker = false, true
			o.LooksFirst = p == stores.Unversioned
			storetest.Report{Server: "Ceph RGW " + stores.CephVersion, Bucket: kind, Limits: []string{
				"later releases of Ceph, which may honour If-None-Match",
			}}.Publish(t, &o, "../results/s3-ceph-"+string(p)+".json", *update)
			storetest.Run(t, o)
		})
	}
}

// suite describes s3 in buckets of one protection, as the protocol has it.
func (s *server) suite(p stores.Protection) storetest.Options {
	locks := p != stores.Unversioned && p != stores.Versioned
	versions := p != stores.Unversioned
	o := storetest.Options{
		New: func(t *testing.T) store.Store { return open(t, s.options(s.newBucket(t, p))) },
		Want: store.Capabilities{
			Provider: "S3", Versions: versions, ConditionalPut: true, ObjectLock: locks, Tags: true,
		},
		SetTag: true, Copy: true, Inspect: true, ServerTime: true,
		NoBucket:   s.noBucket,
		Outage:     s.outage,
		BrokenList: s.brokenList,
		Cut:        s.cutDownload,
		Overwrite:  s.overwrite,
		Hide:       s.hide,
		Leftovers:  func(t *testing.T, opened store.Store) int { return len(s.uploadsOf(t, bucketOf(opened))) },

		NoKeys:  []string{strings.Repeat("k", 1025), "not\xffutf8"},
		OddKeys: []string{"a/with space", "a/plus+sign", "a/percent%41", "a/umlaut-\u00e4", "a/question?mark", "a/amp&er=sand", "a/<xml>"},
	}
	if locks {
		o.Lock = []storetest.Lock{
			{Ask: immutability.ModeCompliance, Want: immutability.ModeCompliance},
			{Ask: immutability.ModeGovernance, Want: immutability.ModeGovernance},
		}
		o.Extend, o.Hold = true, true
		o.ShortLock = 6 * time.Second // what is tried while it lasts takes a busy server a while
		o.DefaultLock = func(t *testing.T) (store.Store, immutability.Mode, time.Duration) {
			return open(t, s.options(s.newBucket(t, stores.Compliance))), immutability.ModeCompliance, 24 * time.Hour
		}
	}
	return o
}
