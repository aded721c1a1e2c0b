package oss

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"

	osssdk "github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/dial"
)

// failure is an error of the server or of the way to it, in the words of the port: what it
// is, what the server said, and what to do about it.
type failure struct {
	kind   error // a sentinel of package store; nil if none fits
	said   string
	remedy string
	cause  error
}

func (f *failure) Error() string {
	text := f.said
	if f.kind != nil {
		text = f.kind.Error() + ": " + text
	}
	if f.remedy != "" {
		text += "; " + f.remedy
	}
	return text
}

func (f *failure) Unwrap() []error {
	if f.kind == nil {
		return []error{f.cause}
	}
	return []error{f.kind, f.cause}
}

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
	{codes: []string{"InvalidBucketName"}, kind: store.ErrNoBucket, remedy: "this cannot be the name of a bucket, check the container"},
	{codes: []string{"FileAlreadyExists", codeImmutable}, kind: store.ErrExists},
	{codes: []string{"InvalidAccessKeyId"}, kind: store.ErrCredentials, remedy: "check accessKeyID, and that the key still exists and is enabled"},
	{codes: []string{"SignatureDoesNotMatch"}, kind: store.ErrCredentials, remedy: "check accessKeySecret, it does not fit accessKeyID, and the field region if the endpoint does not name it"},
	{codes: []string{"SecurityTokenExpired", "InvalidSecurityToken"}, kind: store.ErrCredentials, remedy: "the session has expired, renew the token"},
	{codes: []string{"RequestTimeTooSkewed"}, kind: store.ErrCredentials, remedy: "this machine's clock differs from the store's by more than 15 minutes, set the clock"},
	{codes: []string{"UserDisable"}, kind: store.ErrForbidden, remedy: "the account is suspended, usually because a payment is overdue"},
	{codes: []string{"InvalidObjectState"}, kind: store.ErrForbidden, remedy: "the object was moved to an archive, restore it there first"},
	{codes: []string{"AccessDenied"}, status: []int{http.StatusForbidden}, kind: store.ErrForbidden,
		remedy: "grant the action to this identity (docs/operations/permissions.md lists what each role needs)"},
	{codes: []string{"QpsLimitExceeded", "DownloadTrafficRateLimitExceeded", "UploadTrafficRateLimitExceeded", "TrafficRateLimitExceeded", "TooManyRequests", "Throttling"},
		status: []int{http.StatusTooManyRequests}, kind: store.ErrThrottled, remedy: "try again later, or with fewer --max-parallel-chunk-uploads"},
	{codes: []string{"StorageCapacityExceeded", "QuotaExceeded"}, status: []int{http.StatusInsufficientStorage}, kind: store.ErrNoSpace, remedy: "enlarge the quota of the bucket"},
	{codes: []string{"NotImplemented"}, status: []int{http.StatusNotImplemented}, kind: store.ErrUnsupported},
	{codes: []string{"InvalidDigest"}, remedy: "what arrived is not what was sent; if it happens again, look for a proxy that alters bodies"},
	{codes: []string{"NoSuchUpload"}, remedy: "the upload was aborted by somebody else, for example by a lifecycle rule for parts"},
	{codes: []string{"EntityTooLarge"}, remedy: "raise --min-chunk-size"},
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
		done   *failure
		creds  *credentialsError
		answer *osssdk.ServiceError
	)
	switch {
	case errors.As(err, &done):
		return err
	case dial.OfProxy(err) != nil:
		return &failure{kind: store.ErrUnreachable, said: dial.OfProxy(err).Error(), remedy: dial.CheckProxy, cause: err}
	case errors.As(err, &creds):
		return &failure{kind: store.ErrCredentials, said: creds.Error(), cause: err}
	case errors.As(err, &answer):
		return s.classifyAnswer(err, answer)
	}
	if f := s.classifyNetwork(err); f != nil {
		return f
	}
	return &failure{said: innermost(err), cause: err}
}

// classifyAnswer is for what the server answered.
func (s *Store) classifyAnswer(err error, answer *osssdk.ServiceError) error {
	f := &failure{said: serverWords(answer), cause: err}
	for _, matches := range []func(rule) bool{
		func(r rule) bool { return r.words != "" && strings.Contains(answer.Message, r.words) },
		func(r rule) bool { return slices.Contains(r.codes, answer.Code) },
		func(r rule) bool { return slices.Contains(r.status, answer.StatusCode) },
	} {
		if i := slices.IndexFunc(rules, matches); i >= 0 {
			f.kind, f.remedy = rules[i].kind, rules[i].remedy
			return f
		}
	}
	if answer.StatusCode >= 500 {
		f.kind, f.remedy = store.ErrUnreachable, s.opts.Endpoint+" answers but fails, try again later"
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

// classifyNetwork is for what happened on the way. nil: nothing of that kind.
func (s *Store) classifyNetwork(err error) error {
	where := s.opts.Endpoint
	f := &failure{kind: store.ErrUnreachable, cause: err}
	var (
		dns     *net.DNSError
		timeout net.Error
		op      *net.OpError
		record  tls.RecordHeaderError
		sent    *url.Error
	)
	trust := dial.Untrusted(err)
	switch {
	case trust != nil:
		f.said = fmt.Sprintf("the certificate of %s is not trusted: %v", where, trust)
		f.remedy = "give the CA's certificate in the field trustedCaCert"
	case errors.Is(err, http.ErrSchemeMismatch):
		f.said, f.remedy = where+" speaks plain http, not https", "correct the endpoint's scheme"
	case errors.As(err, &dns):
		f.said, f.remedy = fmt.Sprintf("the name %q cannot be resolved: %s", dns.Name, dns.Err), "check the endpoint and the container's name"
	case errors.Is(err, syscall.ECONNREFUSED):
		f.said, f.remedy = "connection refused by "+where, "check the endpoint and that the server runs"
	case errors.As(err, &timeout) && timeout.Timeout():
		f.said, f.remedy = where+" did not answer in time: "+innermost(err), "check the network and the endpoint"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		f.said, f.remedy = "the connection to "+where+" broke: "+innermost(err), "try again"
	case errors.As(err, &op), errors.As(err, &record), errors.As(err, &sent):
		f.said, f.remedy = "no connection to "+where+": "+innermost(err), "check the endpoint and the network"
	default:
		return nil
	}
	return f
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

// innermost is the last error in the chain.
func innermost(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return strings.Join(strings.Fields(err.Error()), " ")
		}
		err = next
	}
}
