package oss

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	osssdk "github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/dial"
)

// codeImmutable is the refusal to delete or change what a retention policy protects.
const codeImmutable = "FileImmutable"

// rule classifies errors by words of the message, else by the code, else by the HTTP status.
type rule struct {
	words  string
	codes  []string
	status []int
	kind   error
	remedy string
}

// rules are tried in order; words of all rules go before codes, and codes before statuses.
var rules = []rule{
	{words: "must be addressed using the specified endpoint", remedy: "the bucket is in another region, correct storageEndpoint or --store-endpoint-override"},
	{codes: []string{"NoSuchKey", "NoSuchVersion"}, kind: store.ErrNotFound},
	{codes: []string{"NoSuchBucket"}, kind: store.ErrNoBucket, remedy: "check the container's name and the endpoint, or create it"},
	{codes: []string{"InvalidBucketName"}, kind: store.ErrBucketName, remedy: "check the container"},
	{codes: []string{"FileAlreadyExists", codeImmutable}, kind: store.ErrExists},
	{codes: []string{"InvalidAccessKeyId"}, kind: store.ErrCredentials, remedy: "check accessKeyID, and that the key still exists and is enabled"},
	{codes: []string{"SignatureDoesNotMatch"}, kind: store.ErrCredentials, remedy: "check accessKeySecret, it does not fit accessKeyID, and the field region if the endpoint does not name it"},
	{codes: []string{"SecurityTokenExpired", "InvalidSecurityToken"}, kind: store.ErrCredentials, remedy: "the session has expired, renew the token"},
	{codes: []string{"RequestTimeTooSkewed"}, kind: store.ErrCredentials, remedy: "this machine's clock differs from the store's by more than 15 minutes, set the clock"},
	{codes: []string{"UserDisable"}, kind: store.ErrForbidden, remedy: "the account is suspended, usually because a payment is overdue"},
	{codes: []string{"InvalidObjectState"}, kind: store.ErrForbidden, remedy: "the object was moved to an archive, restore it there first"},
	{codes: []string{"AccessDenied"}, status: []int{http.StatusForbidden}, kind: store.ErrForbidden},
	{codes: []string{"QpsLimitExceeded", "DownloadTrafficRateLimitExceeded", "UploadTrafficRateLimitExceeded", "TrafficRateLimitExceeded", "TooManyRequests", "Throttling"},
		status: []int{http.StatusTooManyRequests}, kind: store.ErrThrottled, remedy: "try again later, or with fewer --max-parallel-chunk-uploads"},
	{codes: []string{"StorageCapacityExceeded", "QuotaExceeded"}, status: []int{http.StatusInsufficientStorage}, kind: store.ErrNoSpace, remedy: "enlarge the quota of the bucket"},
	{codes: []string{"NotImplemented"}, status: []int{http.StatusNotImplemented}, kind: store.ErrUnsupported},
	{codes: []string{"InvalidDigest"}, remedy: "what arrived is not what was sent; if it happens again, look for a proxy that alters bodies"},
	{codes: []string{"NoSuchUpload"}, remedy: "the upload was aborted by somebody else, for example by a lifecycle rule for parts"},
	{codes: []string{"EntityTooLarge"}, remedy: "a part is larger than the service takes: lower --min-chunk-size"},
	{codes: []string{"EntityTooSmall"}, remedy: "the service takes no parts that small: raise --min-chunk-size"},
	{status: []int{http.StatusNotFound}, kind: store.ErrNotFound},
	{status: []int{http.StatusUnauthorized}, kind: store.ErrCredentials, remedy: "check the credentials"},
}

// classify turns an error of the SDK into one of the port's. It is the only place that does.
func (s *Store) classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var (
		done   *store.Failure
		creds  *credentialsError
		answer *osssdk.ServiceError
	)
	switch {
	case errors.As(err, &done):
		return err
	case dial.OfProxy(err) != nil:
		return s.way().Broken(err)
	case errors.As(err, &creds):
		return &store.Failure{Kind: store.ErrCredentials, Said: creds.Error(), Cause: err}
	case errors.As(err, &answer):
		return s.classifyAnswer(err, answer)
	}
	if f := s.way().Broken(err); f != nil {
		return f
	}
	if sent := (*url.Error)(nil); errors.As(err, &sent) {
		return s.way().Missing(err)
	}
	return &store.Failure{Said: dial.Innermost(err), Cause: err}
}

// classifyAnswer is for what the server answered.
func (s *Store) classifyAnswer(err error, answer *osssdk.ServiceError) error {
	f := &store.Failure{Said: serverWords(answer), Cause: err}
	if answer.StatusCode == http.StatusRequestEntityTooLarge && codeOf(err) == "" {
		f.Said, f.Remedy = dial.BodyRefused("OSS", s.opts.PartSize)
		return f
	}
	for _, matches := range []func(rule) bool{
		func(r rule) bool { return r.words != "" && strings.Contains(answer.Message, r.words) },
		func(r rule) bool { return slices.Contains(r.codes, answer.Code) },
		func(r rule) bool { return slices.Contains(r.status, answer.StatusCode) },
	} {
		if i := slices.IndexFunc(rules, matches); i >= 0 {
			f.Kind, f.Remedy = rules[i].kind, rules[i].remedy
			if f.Kind == store.ErrForbidden && f.Remedy == "" { //nolint:errorlint // the rule's own value
				f.Remedy = grant(answer.RequestTarget)
			}
			return f
		}
	}
	if answer.StatusCode >= 500 {
		f.Kind, f.Remedy = store.ErrUnreachable, s.opts.Endpoint+" answers but fails, try again later"
	}
	return f
}

// noWords is the code that the SDK makes up for answers it cannot read, as those to HEAD.
const noWords = "BadErrorResponse"

// serverWords is what the server said, on one line.
func serverWords(answer *osssdk.ServiceError) string {
	said := ""
	if answer.Code != noWords {
		said = strings.Join(strings.Fields(answer.Code+": "+answer.Message), " ")
	}
	if len(said) > 300 {
		said = strings.ToValidUTF8(said[:300], "") + "..."
	}
	if answer.StatusCode != 0 {
		said = strings.TrimSpace(fmt.Sprintf("%s (HTTP %d)", said, answer.StatusCode))
	}
	return said
}

// way is the way to the service.
func (s *Store) way() dial.Way {
	return dial.Way{To: s.opts.Endpoint, Endpoint: "the endpoint", Name: "the endpoint and the container's name", CA: "the field trustedCaCert"}
}

// codeOf is the server's error code, or "".
func codeOf(err error) string {
	var answer *osssdk.ServiceError
	if errors.As(err, &answer) && answer.Code != noWords {
		return answer.Code
	}
	return ""
}

// statusOf is the HTTP status of the answer, or 0 if none arrived.
func statusOf(err error) int {
	var answer *osssdk.ServiceError
	if errors.As(err, &answer) {
		return answer.StatusCode
	}
	return 0
}
