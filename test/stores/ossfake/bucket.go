package ossfake

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// bucket holds versions of keys, newest first.
type bucket struct {
	owner      string // an access key ID
	versioning string // "", Enabled or Suspended
	lifecycle  []byte // as it was sent; nil: none
	worm       *worm
	objects    map[string][]*version
	uploads    map[string]*upload
}

// worm is a retention policy.
type worm struct {
	id      string
	locked  bool
	days    int
	created time.Time
}

const day = 24 * time.Hour

// stands: user-guide/oss-retention-policies: a policy that is not locked within 24 hours after
// it was created becomes invalid.
func (w *worm) stands(now time.Time) bool {
	return w != nil && (w.locked || now.Before(w.created.Add(day)))
}

// protects: user-guide/oss-retention-policies: during the retention period, counted from an
// object's last modification, it can be neither modified nor deleted, whoever asks.
func (b *bucket) protects(v *version, now time.Time) bool {
	return !v.marker && b.worm.stands(now) && now.Before(v.modified.Add(time.Duration(b.worm.days)*day))
}

// immutable is the error of the pages user-guide/0026-00000005 and 0026-00000202.
func immutable() error {
	return refuse(http.StatusConflict, "FileImmutable", "The object you specified is immutable.")
}

func (x *exchange) serveBucket() (int, any, error) {
	if x.bucket == "" && x.r.Method == http.MethodGet {
		return x.listBuckets()
	}
	if x.r.Method == http.MethodPut && len(x.query) == 0 {
		if x.s.buckets[x.bucket] != nil {
			return 0, nil, refuse(http.StatusConflict, "BucketAlreadyExists", "The requested bucket name is not available.")
		}
		x.s.buckets[x.bucket] = &bucket{owner: x.who, objects: map[string][]*version{}, uploads: map[string]*upload{}}
		return http.StatusOK, nil, nil
	}
	b, err := x.find()
	if err != nil {
		return 0, nil, err
	}
	switch method := x.r.Method; {
	case x.has("bucketInfo") && method == http.MethodGet:
		// developer-reference/getbucketinfo
		return http.StatusOK, struct {
			XMLName xml.Name `xml:"BucketInfo"`
			Name    string   `xml:"Bucket>Name"`
			Owner   string   `xml:"Bucket>Owner>ID"`
		}{Name: x.bucket, Owner: b.owner}, nil
	case x.has("lifecycle"):
		return x.serveLifecycle(b)
	case x.has("versioning"):
		return x.serveVersioning(b)
	case x.has("worm"), x.has("wormId"):
		return x.serveWorm(b)
	case method == http.MethodGet && x.has("versions"):
		return x.listVersions(b)
	case method == http.MethodGet && x.has("uploads"):
		return x.listUploads(b)
	case method == http.MethodDelete:
		if len(b.objects) > 0 || len(b.uploads) > 0 {
			return 0, nil, refuse(http.StatusConflict, "BucketNotEmpty", "The bucket you tried to delete is not empty.")
		}
		delete(x.s.buckets, x.bucket)
		return http.StatusNoContent, nil, nil
	}
	return 0, nil, notImplemented(x)
}

// listBuckets: developer-reference/listbuckets: those of whoever asks.
func (x *exchange) listBuckets() (int, any, error) {
	type entry struct{ Name string }
	answer := struct {
		XMLName xml.Name `xml:"ListAllMyBucketsResult"`
		Owner   string   `xml:"Owner>DisplayName"`
		Buckets []entry  `xml:"Buckets>Bucket"`
	}{Owner: x.who}
	for name, b := range x.s.buckets {
		if b.owner == x.who && strings.HasPrefix(name, x.query["prefix"]) {
			answer.Buckets = append(answer.Buckets, entry{name})
		}
	}
	slices.SortFunc(answer.Buckets, func(a, b entry) int { return strings.Compare(a.Name, b.Name) })
	return http.StatusOK, answer, nil
}

// serveLifecycle: developer-reference/putbucketlifecycle, which replaces all rules, and getbucketlifecycle.
func (x *exchange) serveLifecycle(b *bucket) (int, any, error) {
	switch x.r.Method {
	case http.MethodGet:
		if b.lifecycle == nil {
			return 0, nil, refuse(http.StatusNotFound, "NoSuchLifecycle", "No Row found in Lifecycle Table.")
		}
		return http.StatusOK, b.lifecycle, nil
	case http.MethodPut:
		var c struct {
			XMLName xml.Name `xml:"LifecycleConfiguration"`
			Rule    []struct{ ID, Status string }
		}
		if err := x.parse(&c); err != nil {
			return 0, nil, err
		}
		if x.r.Header.Get("Content-MD5") == "" || len(c.Rule) == 0 {
			return 0, nil, refuse(http.StatusBadRequest, "MalformedXML", "The XML you provided was not well-formed.")
		}
		b.lifecycle = slices.Clone(x.body)
		return http.StatusOK, nil, nil
	}
	return 0, nil, notImplemented(x)
}

func notImplemented(x *exchange) error {
	return refuse(http.StatusNotImplemented, "NotImplemented", fmt.Sprintf("This fake does not know %s %s.", x.r.Method, x.r.URL.RequestURI()))
}

// serveVersioning: developer-reference/putbucketversioning and getbucketversioning; a bucket
// whose versions were never switched on has no status.
func (x *exchange) serveVersioning(b *bucket) (int, any, error) {
	type configuration struct {
		XMLName xml.Name `xml:"VersioningConfiguration"`
		Status  string   `xml:"Status,omitempty"`
	}
	switch x.r.Method {
	case http.MethodGet:
		return http.StatusOK, configuration{Status: b.versioning}, nil
	case http.MethodPut:
		var c configuration
		if err := x.parse(&c); err != nil {
			return 0, nil, err
		}
		if c.Status != "Enabled" && c.Status != "Suspended" {
			return 0, nil, refuse(http.StatusBadRequest, "InvalidArgument", "The Status must be Enabled or Suspended.")
		}
		// user-guide/oss-retention-policies: a policy and suspended versions exclude each other.
		if c.Status == "Suspended" && b.worm.stands(x.now) {
			return 0, nil, refuse(http.StatusConflict, "InvalidBucketState", "The bucket has a retention policy.")
		}
		b.versioning = c.Status
		return http.StatusOK, nil, nil
	}
	return 0, nil, notImplemented(x)
}

// serveWorm: developer-reference/initiatebucketworm, completebucketworm, extendbucketworm,
// abortbucketworm and getbucketworm. The codes of refusals other than 404 are not documented.
func (x *exchange) serveWorm(b *bucket) (int, any, error) {
	stands := b.worm.stands(x.now)
	none := refuse(http.StatusNotFound, "NoSuchWORMConfiguration", "The WORM Configuration does not exist.")
	ours := stands && b.worm.id == x.query["wormId"]
	switch method := x.r.Method; {
	case method == http.MethodGet:
		if b.worm == nil {
			return 0, nil, none
		}
		state := "InProgress"
		if b.worm.locked {
			state = "Locked"
		}
		return http.StatusOK, struct {
			XMLName               xml.Name `xml:"WormConfiguration"`
			WormId, State         string
			RetentionPeriodInDays int
			CreationDate          string
		}{WormId: b.worm.id, State: state, RetentionPeriodInDays: b.worm.days, CreationDate: b.worm.created.UTC().Format("2006-01-02T15:04:05.000Z")}, nil
	case method == http.MethodPost && x.has("worm"):
		days, err := x.period()
		switch {
		case err != nil:
			return 0, nil, err
		case stands:
			return 0, nil, refuse(http.StatusConflict, "WORMConfigurationAlreadyExists", "The bucket has a retention policy already.")
		case b.versioning == "Suspended":
			return 0, nil, refuse(http.StatusConflict, "InvalidBucketState", "Versioning is suspended.")
		}
		b.worm = &worm{id: fmt.Sprintf("%019X", x.s.serial), days: days, created: x.now}
		x.header.Set("x-oss-worm-id", b.worm.id)
		return http.StatusOK, nil, nil
	case method == http.MethodPost && x.has("wormExtend"):
		days, err := x.period()
		switch {
		case err != nil:
			return 0, nil, err
		case !ours:
			return 0, nil, none
		case !b.worm.locked || days < b.worm.days:
			return 0, nil, refuse(http.StatusBadRequest, "InvalidArgument", "The period of a locked policy can only become longer.")
		}
		b.worm.days = days
		return http.StatusOK, nil, nil
	case method == http.MethodPost:
		if !ours {
			return 0, nil, none
		}
		b.worm.locked = true
		return http.StatusOK, nil, nil
	case method == http.MethodDelete:
		switch {
		case !stands:
			return 0, nil, none
		case b.worm.locked:
			return 0, nil, refuse(http.StatusConflict, "WORMConfigurationLocked", "The policy is locked.")
		}
		b.worm = nil
		return http.StatusNoContent, nil, nil
	}
	return 0, nil, notImplemented(x)
}

// period reads the days of a policy: developer-reference/initiatebucketworm, from 1 to 25550.
func (x *exchange) period() (int, error) {
	var c struct{ RetentionPeriodInDays int }
	if err := x.parse(&c); err != nil {
		return 0, err
	}
	if c.RetentionPeriodInDays < 1 || c.RetentionPeriodInDays > 25550 {
		return 0, refuse(http.StatusBadRequest, "InvalidArgument", "The period must be between 1 and 25550 days.")
	}
	return c.RetentionPeriodInDays, nil
}
