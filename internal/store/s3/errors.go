package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/dial"
)

// rule classifies errors by the server's code, else by the HTTP status.
type rule struct {
	codes  []string
	status []int
	kind   error
	remedy string
}

// rules are tried in order; codes of all rules go before statuses of any.
var rules = []rule{
	{codes: []string{"NoSuchKey", "NoSuchVersion", "NotFound"}, kind: store.ErrNotFound},
	{codes: []string{"NoSuchBucket"}, kind: store.ErrNoBucket, remedy: "check the container's name and the endpoint, or create it"},
	{codes: []string{"InvalidBucketName"}, kind: store.ErrBucketName, remedy: "check the container"},
	{codes: []string{"PreconditionFailed"}, kind: store.ErrExists},
	{codes: []string{"InvalidAccessKeyId", "InvalidToken", "InvalidClientTokenId", "UnrecognizedClientException"}, kind: store.ErrCredentials,
		remedy: "check accessKeyID, and that the key belongs to this endpoint and still exists"},
	{codes: []string{"SignatureDoesNotMatch"}, kind: store.ErrCredentials, remedy: "check secretAccessKey, it does not fit accessKeyID"},
	{codes: []string{"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"}, kind: store.ErrCredentials,
		remedy: "the session has expired, renew the token"},
	{codes: []string{"RequestTimeTooSkewed"}, kind: store.ErrCredentials,
		remedy: "this machine's clock differs from the store's by more than 15 minutes, set the clock"},
	{codes: []string{"AccessDenied", "Forbidden", "AccountProblem", "AllAccessDisabled", "KMS.AccessDeniedException"}, status: []int{http.StatusForbidden}, kind: store.ErrForbidden},
	{codes: []string{"KMS.NotFoundException", "KMS.DisabledException", "KMS.KMSInvalidStateException", "KMS.InvalidKeyUsageException"},
		remedy: "check kmsKeyID: the key must exist in the region of the bucket, be enabled and be symmetric"},
	{codes: []string{"AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException", "Redirect", "TemporaryRedirect"},
		status: []int{http.StatusMovedPermanently, http.StatusTemporaryRedirect},
		remedy: "the bucket is in another region or at another endpoint, set the field region or --store-endpoint-override"},
	{codes: []string{"SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequests", "BandwidthLimitExceeded", "SlowDownRead", "SlowDownWrite", "XMinioServerNotInitialized"},
		status: []int{http.StatusTooManyRequests}, kind: store.ErrThrottled, remedy: "try again later, or with fewer --max-parallel-chunk-uploads"},
	{codes: []string{"XMinioStorageFull", "QuotaExceeded", "XMinioAdminBucketQuotaExceeded", "InsufficientStorage"}, status: []int{http.StatusInsufficientStorage}, kind: store.ErrNoSpace,
		remedy: "enlarge the store or its quota"},
	{codes: []string{"NotImplemented"}, status: []int{http.StatusNotImplemented}, kind: store.ErrUnsupported},
	{codes: []string{"BadDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch", "InvalidDigest"},
		remedy: "what arrived is not what was sent; if it happens again, look for a proxy that alters bodies, or set requestChecksumCalculation to when_required for a server without newer checksums"},
	{codes: []string{"NoSuchUpload"}, remedy: "the upload was aborted by somebody else, for example by a lifecycle rule for incomplete uploads"},
	{codes: []string{"EntityTooSmall"}, remedy: "the server takes no parts that small: raise --min-chunk-size"},
	{codes: []string{"ConditionalRequestConflict"}, remedy: "another writer was writing the same key, try again"},
	{status: []int{http.StatusNotFound}, kind: store.ErrNotFound},
	{status: []int{http.StatusUnauthorized}, kind: store.ErrCredentials, remedy: "check the credentials"},
	{status: []int{http.StatusPreconditionFailed}, kind: store.ErrExists},
}

// classify turns an error of the SDK into one of the port's. It is the only place that does.
func (s *Store) classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if f := (*store.Failure)(nil); errors.As(err, &f) {
		return err
	}
	if dial.OfProxy(err) != nil {
		return s.opts.way().Broken(err)
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		if ofRole(err) {
			return &store.Failure{Kind: store.ErrCredentials, Said: "the role cannot be assumed: " + serverWords(err),
				Remedy: "check roleARN, the token and whom the role trusts", Cause: err}
		}
		return s.classifyAnswer(err, api.ErrorCode(), api.ErrorMessage())
	}
	var creds *credentialsError
	if errors.As(err, &creds) {
		return &store.Failure{Kind: store.ErrCredentials, Said: creds.Error(), Cause: err}
	}
	if f := s.opts.way().Broken(err); f != nil {
		return f
	}
	if isSendError(err) {
		return s.opts.way().Missing(err)
	}
	if status := statusOf(err); status != 0 {
		return s.classifyAnswer(err, "", "")
	}
	if strings.Contains(err.Error(), "failed to refresh cached credentials") || strings.Contains(err.Error(), "get identity") {
		return &store.Failure{Kind: store.ErrCredentials, Said: "no usable credentials were found: " + dial.Innermost(err),
			Remedy: "give credentials by their environment variable, or run where an identity is ambient", Cause: err}
	}
	return &store.Failure{Said: dial.Innermost(err), Cause: err}
}

// ofRole says whether the error came from exchanging a token for credentials.
func ofRole(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if op, ok := err.(*smithy.OperationError); ok && op.Service() == sts.ServiceID { //nolint:errorlint // the chain is walked by hand
			return true
		}
	}
	return false
}

// unknownMessage is the SDK's stand-in where the server sent none.
const unknownMessage = "UnknownError"

// classifyAnswer is for what the server answered.
func (s *Store) classifyAnswer(err error, code, message string) error {
	status := statusOf(err)
	said := strings.TrimSpace(code + ": " + message)
	if message == "" || message == code || message == unknownMessage {
		said = code
	}
	if status != 0 {
		said = strings.TrimPrefix(fmt.Sprintf("%s (HTTP %d)", said, status), " ")
	}
	said = strings.Join(strings.Fields(said), " ")
	f := &store.Failure{Said: said, Cause: err}
	operation := operationOf(err)
	if code == "EntityTooLarge" || status == statusTooLarge {
		proxy, remedy := s.opts.tooLarge(operation, code)
		f.Said, f.Remedy = cmp.Or(proxy, f.Said), remedy
		return f
	}
	if r, ok := ruleFor(code, status); ok {
		f.Kind, f.Remedy = r.kind, r.remedy
	} else if status >= 500 {
		f.Kind, f.Remedy = store.ErrUnreachable, s.opts.describe()+" answers but fails, try again later"
	}
	switch {
	case !s.opts.LegacyChecksums && (status == http.StatusBadRequest || status == http.StatusNotImplemented) && aboutChecksums(said):
		f.Remedy = "the server does not know the newer checksums: " + setLegacy
	case f.Kind == store.ErrForbidden: //nolint:errorlint // the rule's own value
		f.Remedy = s.opts.grant(operation, said)
	case f.Kind == store.ErrUnsupported: //nolint:errorlint // the rule's own value
		f.Remedy = s.opts.unsupported(operation, said)
	}
	return f
}

// ruleFor is the rule for a code, else for a status.
func ruleFor(code string, status int) (rule, bool) {
	if i := slices.IndexFunc(rules, func(r rule) bool { return slices.Contains(r.codes, code) }); i >= 0 {
		return rules[i], true
	}
	i := slices.IndexFunc(rules, func(r rule) bool { return slices.Contains(r.status, status) })
	if i < 0 {
		return rule{}, false
	}
	return rules[i], true
}

// way is the way to the server.
func (o Options) way() dial.Way {
	return dial.Way{To: o.describe(), Endpoint: cmp.Or(o.EndpointFrom, "the endpoint"), Name: "the endpoint and the region", CA: "the field trustedCaCert"}
}

func isSendError(err error) bool {
	var send interface{ ConnectionError() bool }
	return errors.As(err, &send) && send.ConnectionError()
}

// describe names the server.
func (o Options) describe() string {
	if o.Endpoint != "" {
		return o.Endpoint
	}
	return "S3 in " + o.Region
}

// codeOf is the server's error code, or "".
func codeOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// statusOf is the HTTP status of the answer, or 0 if none arrived.
func statusOf(err error) int {
	var resp *awshttp.ResponseError
	if errors.As(err, &resp) {
		return resp.HTTPStatusCode()
	}
	return 0
}
