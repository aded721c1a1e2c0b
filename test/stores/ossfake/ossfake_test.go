package ossfake_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss"
	"github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss/credentials"

	"druid.internal/druid/test/stores/ossfake"
)

// world is a fake with one bucket and the SDK as its client.
type world struct {
	*testing.T
	fake *ossfake.Server
	url  string
	*oss.Client
}

func newWorld(t *testing.T) world {
	t.Helper()
	fake := ossfake.New("id")
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	w := world{t, fake, server.URL, client(server.URL, "id")}
	w.no(w.PutBucket(t.Context(), &oss.PutBucketRequest{Bucket: bucket}))
	return w
}

func client(url, id string) *oss.Client {
	return oss.NewClient(&oss.Config{Endpoint: &url, Region: oss.Ptr("eu-central-1"), RetryMaxAttempts: oss.Ptr(1),
		CredentialsProvider: credentials.NewStaticCredentialsProvider(id, "secret")})
}

var (
	bucket = oss.Ptr("bucket")
	key    = oss.Ptr("a/k")
)

// no expects success of what is called.
func (w world) no(_ any, err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// wants expects a code.
func (w world) wants(code string) func(any, error) {
	return func(_ any, err error) {
		w.Helper()
		var answer *oss.ServiceError
		if !errors.As(err, &answer) || answer.Code != code {
			w.Errorf("the answer is %v, want %s", err, code)
		}
	}
}

func (w world) put(body, forbid string) (*oss.PutObjectResult, error) {
	return w.PutObject(w.Context(), &oss.PutObjectRequest{Bucket: bucket, Key: key, Body: strings.NewReader(body), ForbidOverwrite: &forbid})
}

func (w world) versioning(status oss.VersioningStatusType) (*oss.PutBucketVersioningResult, error) {
	return w.PutBucketVersioning(w.Context(), &oss.PutBucketVersioningRequest{Bucket: bucket, VersioningConfiguration: &oss.VersioningConfiguration{Status: status}})
}

func (w world) remove(id *string) (*oss.DeleteObjectResult, error) {
	return w.DeleteObject(w.Context(), &oss.DeleteObjectRequest{Bucket: bucket, Key: key, VersionId: id})
}

func (w world) initiate(days int32) (string, error) {
	out, err := w.InitiateBucketWorm(w.Context(), &oss.InitiateBucketWormRequest{Bucket: bucket, InitiateWormConfiguration: &oss.InitiateWormConfiguration{RetentionPeriodInDays: &days}})
	if err != nil {
		return "", err
	}
	return *out.WormId, nil
}

func (w world) extend(id string, days int32) (*oss.ExtendBucketWormResult, error) {
	return w.ExtendBucketWorm(w.Context(), &oss.ExtendBucketWormRequest{Bucket: bucket, WormId: &id, ExtendWormConfiguration: &oss.ExtendWormConfiguration{RetentionPeriodInDays: &days}})
}

func (w world) content(id *string, rng, behavior string) string {
	w.Helper()
	in := &oss.GetObjectRequest{Bucket: bucket, Key: key, VersionId: id}
	if rng != "" {
		in.Range = &rng
	}
	if behavior != "" {
		in.RangeBehavior = &behavior
	}
	out, err := w.GetObject(w.Context(), in)
	if err != nil {
		w.Fatal(err)
	}
	defer out.Body.Close()
	b, err := io.ReadAll(out.Body)
	if err != nil {
		w.Fatal(err)
	}
	return string(b)
}

func TestForbidOverwriteCountsOnlyWithoutVersions(t *testing.T) {
	w := newWorld(t)
	w.no(w.put("one", "true"))
	w.wants("FileAlreadyExists")(w.put("two", "true"))
	w.no(w.put("three", "false"))
	w.no(w.versioning(oss.VersionEnabled))
	w.no(w.put("four", "true"))
	if got := w.content(nil, "", ""); got != "four" {
		t.Errorf("the latest is %q", got)
	}
	if got := w.content(oss.Ptr("null"), "", ""); got != "three" {
		t.Errorf("what was there before is %q", got)
	}
}

func TestAPolicyLapsesUnlessItIsCompleted(t *testing.T) {
	w := newWorld(t)
	w.wants("NoSuchWORMConfiguration")(w.GetBucketWorm(t.Context(), &oss.GetBucketWormRequest{Bucket: bucket}))
	w.no(w.put("x", "true"))
	w.no(w.initiate(5))
	w.wants("FileImmutable")(w.remove(nil))
	w.fake.Advance(24 * time.Hour)
	w.no(w.put("y", "false"))
	w.no(w.remove(nil))

	id, err := w.initiate(5)
	w.no(id, err)
	w.no(w.put("x", "true"))
	w.no(w.AbortBucketWorm(t.Context(), &oss.AbortBucketWormRequest{Bucket: bucket}))
	w.no(w.remove(nil))
}

func TestALockedPolicyCanOnlyBecomeLonger(t *testing.T) {
	w := newWorld(t)
	w.no(w.put("x", "true"))
	id, err := w.initiate(2)
	w.no(id, err)
	w.wants("InvalidArgument")(w.extend(id, 3)) // not locked yet
	w.no(w.CompleteBucketWorm(t.Context(), &oss.CompleteBucketWormRequest{Bucket: bucket, WormId: &id}))
	w.wants("WORMConfigurationLocked")(w.AbortBucketWorm(t.Context(), &oss.AbortBucketWormRequest{Bucket: bucket}))
	w.wants("InvalidArgument")(w.extend(id, 1))
	w.wants("NoSuchWORMConfiguration")(w.extend("another", 9))
	w.no(w.extend(id, 4))
	w.wants("FileImmutable")(w.put("y", "false"))
	w.wants("FileAlreadyExists")(w.put("y", "true"))
	w.wants("InvalidBucketState")(w.versioning(oss.VersionSuspended))
	w.wants("BucketNotEmpty")(w.DeleteBucket(t.Context(), &oss.DeleteBucketRequest{Bucket: bucket}))
	w.fake.Advance(3 * 24 * time.Hour)
	w.wants("FileImmutable")(w.remove(nil))
	w.fake.Advance(24 * time.Hour)
	w.no(w.remove(nil))
}

func TestTheClockIsToldByTheHeader(t *testing.T) {
	w := newWorld(t)
	w.fake.Advance(1000 * time.Hour)
	out, err := w.GetBucketVersioning(t.Context(), &oss.GetBucketVersioningRequest{Bucket: bucket})
	w.no(out, err)
	at, err := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", out.Headers.Get("Date"))
	if err != nil || at.Sub(w.fake.Now()).Abs() > time.Minute {
		t.Errorf("Date is %s, %v, the clock %s", at, err, w.fake.Now())
	}
}

func TestAMarkerHidesAndIsNoObject(t *testing.T) {
	w := newWorld(t)
	w.no(w.versioning(oss.VersionEnabled))
	first, err := w.put("one", "true")
	w.no(first, err)
	marker, err := w.remove(nil)
	w.no(marker, err)
	w.wants("NoSuchKey")(w.GetObject(t.Context(), &oss.GetObjectRequest{Bucket: bucket, Key: key}))
	w.wants("MethodNotAllowed")(w.GetObject(t.Context(), &oss.GetObjectRequest{Bucket: bucket, Key: key, VersionId: marker.VersionId}))
	w.wants("NoSuchVersion")(w.GetObject(t.Context(), &oss.GetObjectRequest{Bucket: bucket, Key: key, VersionId: oss.Ptr("other")}))
	if got := w.content(first.VersionId, "", ""); got != "one" {
		t.Errorf("below the marker is %q", got)
	}
	w.no(w.remove(marker.VersionId))
	if got := w.content(nil, "", ""); got != "one" {
		t.Errorf("after the marker went there is %q", got)
	}
}

func TestAnImpossibleRangeIsTheWholeUnlessAskedOtherwise(t *testing.T) {
	w := newWorld(t)
	w.no(w.put("0123456789", "true"))
	for asked, want := range map[string]string{"bytes=2-4": "234", "bytes=8-": "89", "bytes=8-99": "89", "bytes=10-": "0123456789"} {
		if got := w.content(nil, asked, ""); got != want {
			t.Errorf("%s is %q, want %q", asked, got, want)
		}
	}
	w.wants("InvalidRange")(w.GetObject(t.Context(), &oss.GetObjectRequest{Bucket: bucket, Key: key, Range: oss.Ptr("bytes=10-"), RangeBehavior: oss.Ptr("standard")}))
}

func TestWhatIsWrongIsRefused(t *testing.T) {
	w := newWorld(t)
	w.wants("InvalidAccessKeyId")(client(w.url, "other").GetBucketVersioning(t.Context(), &oss.GetBucketVersioningRequest{Bucket: bucket}))
	w.wants("NoSuchBucket")(w.ListObjectVersions(t.Context(), &oss.ListObjectVersionsRequest{Bucket: oss.Ptr("other")}))
	w.wants("BucketAlreadyExists")(w.PutBucket(t.Context(), &oss.PutBucketRequest{Bucket: bucket}))
	w.wants("InvalidDigest")(w.PutObject(t.Context(), &oss.PutObjectRequest{Bucket: bucket, Key: key, Body: strings.NewReader("x"), ContentMD5: oss.Ptr("mgNkuembtIDdJeHwKEyFVQ==")}))
	w.wants("InvalidTag")(w.PutObject(t.Context(), &oss.PutObjectRequest{Bucket: bucket, Key: key, Body: strings.NewReader("x"), Tagging: oss.Ptr("k=a@b")}))
	w.wants("InvalidArgument")(w.initiate(0))
	w.wants("NoSuchUpload")(w.AbortMultipartUpload(t.Context(), &oss.AbortMultipartUploadRequest{Bucket: bucket, Key: key, UploadId: oss.Ptr("other")}))
}

func TestPartsMakeTheObjectOnlyWhenTheyAreWhole(t *testing.T) {
	w := newWorld(t)
	begun, err := w.InitiateMultipartUpload(t.Context(), &oss.InitiateMultipartUploadRequest{Bucket: bucket, Key: key})
	w.no(begun, err)
	var list []oss.UploadPart
	for n, size := range []int{200 << 10, 100 << 10, 5} {
		out, err := w.UploadPart(t.Context(), &oss.UploadPartRequest{Bucket: bucket, Key: key, UploadId: begun.UploadId, PartNumber: int32(n + 1), Body: bytes.NewReader(make([]byte, size))})
		w.no(out, err)
		list = append(list, oss.UploadPart{PartNumber: int32(n + 1), ETag: out.ETag})
	}
	complete := func(parts ...oss.UploadPart) (*oss.CompleteMultipartUploadResult, error) {
		return w.CompleteMultipartUpload(t.Context(), &oss.CompleteMultipartUploadRequest{Bucket: bucket, Key: key, UploadId: begun.UploadId, CompleteMultipartUpload: &oss.CompleteMultipartUpload{Parts: parts}})
	}
	w.wants("InvalidPartOrder")(complete(list[0], list[0]))
	w.wants("InvalidPart")(complete(oss.UploadPart{PartNumber: 1, ETag: oss.Ptr("other")}))
	w.wants("EntityTooSmall")(complete(list[2], oss.UploadPart{PartNumber: 4, ETag: list[2].ETag}))
	w.wants("NoSuchKey")(w.GetObject(t.Context(), &oss.GetObjectRequest{Bucket: bucket, Key: key}))
	w.no(complete(list...))
	if got := len(w.content(nil, "", "")); got != 300<<10+5 {
		t.Errorf("the object has %d bytes", got)
	}
	w.wants("NoSuchUpload")(complete(list...))
}

func TestListingsAreInPages(t *testing.T) {
	w := newWorld(t)
	w.no(w.versioning(oss.VersionEnabled))
	for n := range 7 {
		w.no(w.PutObject(t.Context(), &oss.PutObjectRequest{Bucket: bucket, Key: oss.Ptr(fmt.Sprintf("a/%d&", n/2)), Body: strings.NewReader("x")}))
	}
	var keys []string
	in := &oss.ListObjectVersionsRequest{Bucket: bucket, MaxKeys: 2, EncodingType: oss.Ptr("url"), Prefix: oss.Ptr("a/")}
	for {
		out, err := w.ListObjectVersions(t.Context(), in)
		w.no(out, err)
		for _, v := range out.ObjectVersions {
			keys = append(keys, *v.Key)
		}
		if !out.IsTruncated {
			break
		}
		in.KeyMarker, in.VersionIdMarker = out.NextKeyMarker, out.NextVersionIdMarker
	}
	if got := strings.Join(keys, " "); got != "a/0& a/0& a/1& a/1& a/2& a/2& a/3&" {
		t.Errorf("listed are %s", got)
	}
}
