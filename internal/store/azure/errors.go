package azure

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/dial"
)

// errHierarchical is what accounts with a hierarchical namespace say to requests about
// versions and tags.
var errHierarchical = errors.New("not with a hierarchical namespace")

// rule classifies errors by the service's code, else by the HTTP status.
type rule struct {
	codes  []string
	status []int
	kind   error
	remedy string
}

// rules are tried in order; codes of all rules go before statuses of any. The codes:
// https://learn.microsoft.com/rest/api/storageservices/blob-service-error-codes
var rules = []rule{
	{codes: []string{"BlobNotFound", "ResourceNotFound"}, kind: store.ErrNotFound},
	{codes: []string{"ContainerNotFound", "ContainerBeingDeleted", "ContainerDisabled"}, kind: store.ErrNoBucket, remedy: "check the container's name and the account, or create it"},
	{codes: []string{"InvalidResourceName"}, kind: store.ErrBucketName, remedy: "check the container, and the prefix"},
	{codes: []string{"BlobAlreadyExists", "UnauthorizedBlobOverwrite", "ConditionNotMet"}, kind: store.ErrExists},
	{codes: []string{"AuthenticationFailed"}, kind: store.ErrCredentials, remedy: "check storageAccount and storageKey, sasToken or the identity's tenant"},
	{codes: []string{"InvalidAuthenticationInfo", "NoAuthenticationInformation"}, kind: store.ErrCredentials, remedy: "check the credentials' form: storageKey is base64, sasToken is what follows the question mark"},
	{codes: []string{"AuthorizationPermissionMismatch", "InsufficientAccountPermissions", "AuthorizationProtocolMismatch", "AuthorizationResourceTypeMismatch", "AuthorizationServiceMismatch"},
		kind: store.ErrForbidden},
	{codes: []string{"AuthorizationFailure", "AuthorizationSourceIPMismatch"}, kind: store.ErrForbidden,
		remedy: "either the permission is missing (docs/operations/permissions.md) or the account's network rules do not let this address in"},
	{codes: []string{"KeyBasedAuthenticationNotPermitted"}, kind: store.ErrForbidden, remedy: "the account allows no keys: leave storageKey out and give the pod an identity"},
	{codes: []string{"AccountIsDisabled"}, kind: store.ErrForbidden, remedy: "the account is disabled, look at its subscription"},
	{codes: []string{"AccountRequiresHttps", "AccountRequiresHTTPS"}, remedy: "use an https endpoint"},
	{codes: []string{"ServerBusy"}, status: []int{http.StatusTooManyRequests}, kind: store.ErrThrottled, remedy: "try again later, or with fewer --max-parallel-chunk-uploads"},
	{codes: []string{"OperationTimedOut", "InternalError"}, kind: store.ErrUnreachable, remedy: "try again later"},
	{codes: []string{"AccountQuotaExceeded", "QuotaExceeded", "InsufficientStorage"}, status: []int{http.StatusInsufficientStorage}, kind: store.ErrNoSpace,
		remedy: "ask for a larger capacity of the account"},
	{codes: []string{"FeatureNotYetSupportedForHierarchicalNamespaceAccounts", "FeatureNotSupportedForHierarchicalNamespaceAccounts", "BlobVersioningNotSupportedForHierarchicalNamespaceAccounts"},
		kind: errHierarchical, remedy: "use an account without a hierarchical namespace"},
	{codes: []string{"APINotImplemented", "FeatureNotSupportedOnAccount"}, status: []int{http.StatusNotImplemented}, kind: store.ErrUnsupported},
	{codes: []string{"Md5Mismatch", "Crc64Mismatch", "InvalidMd5", "InvalidCrc64"}, remedy: "what arrived is not what was sent; if it happens again, look for a proxy that alters bodies"},
	{codes: []string{"BlobArchived", "BlobBeingRehydrated"}, remedy: "the blob is in the archive tier: set its tier to hot or cool and wait for that, which takes hours"},
	{codes: []string{"LeaseIdMissing", "LeaseIdMismatchWithBlobOperation", "LeaseLost"}, remedy: "somebody holds a lease on the blob, break it"},
	{codes: []string{"SnapshotsPresent"}, remedy: "the blob has snapshots, which are not ours to delete"},
	{codes: []string{"InvalidTag", "InvalidTags", "InvalidHeaderValue"}, remedy: "Azure takes letters, digits, space and + - . / : = _ in tags"},
	{codes: []string{"BlockCountExceedsLimit", "BlobTooLarge"}, remedy: "the object has more blocks than a blob can have: raise --min-chunk-size"},
	{codes: []string{"RequestBodyTooLarge"}, remedy: "a block is larger than the account takes: lower --min-chunk-size"},
	{codes: []string{"InvalidBlobOrBlock"}, remedy: "blocks of somebody else's unfinished upload wait under this key; Azure forgets them a week after the last one"},
	{codes: []string{"InvalidBlockList"}, remedy: "another writer was writing the same key, try again"},
	{status: []int{http.StatusNotFound}, kind: store.ErrNotFound},
	{status: []int{http.StatusUnauthorized}, kind: store.ErrCredentials, remedy: "check the credentials"},
	{status: []int{http.StatusForbidden}, kind: store.ErrForbidden},
	{status: []int{http.StatusPreconditionFailed}, kind: store.ErrExists},
}

// maxSkew is how far Azure lets the clock of a request be from its own.
const maxSkew = 15 * time.Minute

// classify turns an error of the SDK into one of the port's. It is the only place that does.
func (s *Store) classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var (
		ours     *store.Failure
		answer   *azcore.ResponseError
		creds    *credentialsError
		identity *azidentity.AuthenticationFailedError
	)
	switch {
	case errors.As(err, &ours):
		return err
	case dial.OfProxy(err) != nil:
		return s.way().Broken(err)
	case errors.As(err, &creds):
		return &store.Failure{Kind: store.ErrCredentials, Said: creds.Error(), Cause: err}
	case errors.As(err, &identity), strings.Contains(err.Error(), "DefaultAzureCredential"):
		return &store.Failure{Kind: store.ErrCredentials, Said: "no token for the ambient identity: " + shortened(oneLine(err.Error())),
			Remedy: "give storageKey or sasToken, or run where an identity is ambient (workload identity, managed identity)", Cause: err}
	case errors.As(err, &answer):
		return s.classifyAnswer(answer)
	}
	if f := s.way().Broken(err); f != nil {
		return f
	}
	if strings.Contains(err.Error(), "not permitted for non-TLS protected") {
		return &store.Failure{Kind: store.ErrCredentials, Said: "an identity's token must not be sent over plain http", Remedy: "use an https endpoint", Cause: err}
	}
	return &store.Failure{Said: shortened(oneLine(dial.Innermost(err))), Cause: err}
}

// classifyAnswer is for what the service answered.
func (s *Store) classifyAnswer(err *azcore.ResponseError) error {
	f := &store.Failure{Said: serverWords(err), Cause: err}
	matched := func(match func(rule) bool) bool {
		i := slices.IndexFunc(rules, match)
		if i >= 0 {
			f.Kind, f.Remedy = rules[i].kind, rules[i].remedy
		}
		return i >= 0
	}
	switch {
	case err.StatusCode == http.StatusRequestEntityTooLarge && err.ErrorCode == "":
		f.Said, f.Remedy = dial.BodyRefused("Azure", s.opts.BlockSize)
	case matched(func(r rule) bool { return slices.Contains(r.codes, err.ErrorCode) }):
	case matched(func(r rule) bool { return slices.Contains(r.status, err.StatusCode) }):
	case err.StatusCode >= 500:
		f.Kind, f.Remedy = store.ErrUnreachable, s.opts.Endpoint+" answers but fails, try again later"
	}
	if f.Kind == store.ErrForbidden && f.Remedy == "" { //nolint:errorlint // the rule's own value
		var sent *http.Request
		if err.RawResponse != nil {
			sent = err.RawResponse.Request
		}
		f.Remedy = grant(sent)
	}
	if err.ErrorCode == "AuthenticationFailed" {
		f.Remedy = s.whyNotAuthenticated(err, f.Remedy)
	}
	return f
}

// whyNotAuthenticated tells a wrong clock and an expired SAS from a wrong key.
func (s *Store) whyNotAuthenticated(err *azcore.ResponseError, otherwise string) string {
	detail := detailOf(err)
	switch skew := s.client.clock.skew().Abs(); {
	case strings.Contains(detail, "specified time frame"):
		return "the SAS has expired or is not valid yet, renew sasToken"
	case strings.Contains(detail, "date header"), skew > maxSkew:
		return fmt.Sprintf("this machine's clock differs from Azure's by %s, set the clock", skew.Round(time.Minute))
	case s.client.key != nil:
		return "check storageKey, it does not fit storageAccount or has been replaced"
	case s.client.sas != nil:
		return "check sasToken: it must be complete, and of a key that has not been replaced"
	}
	return otherwise
}

// problem is the body of an error.
type problem struct {
	Message string `xml:"Message"`
	Detail  string `xml:"AuthenticationErrorDetail"`
}

func problemOf(err error) (p problem) {
	var answer *azcore.ResponseError
	if errors.As(err, &answer) && answer.RawResponse != nil {
		if body, err := runtime.Payload(answer.RawResponse); err == nil {
			_ = xml.Unmarshal(body, &p) // a HEAD has none, others answer in other forms
		}
	}
	return p
}

func detailOf(err error) string { p := problemOf(err); return p.Detail + " " + p.Message }

// serverWords is what the service said, on one line: code, the first line of the message (the
// rest are numbers for its makers) and status.
func serverWords(err error) string {
	message, _, _ := strings.Cut(strings.TrimSpace(problemOf(err).Message), "\n")
	said := oneLine(codeOf(err) + ": " + message)
	if strings.TrimSpace(message) == "" {
		said = codeOf(err)
	}
	return strings.TrimPrefix(fmt.Sprintf("%s (HTTP %d)", said, statusOf(err)), " ")
}

// way is the way to the service.
func (s *Store) way() dial.Way {
	return dial.Way{To: s.opts.Endpoint, Endpoint: "the endpoint", Name: "storageAccount, domain and the endpoint", CA: "the field trustedCaCert"}
}

// codeOf is the service's error code, or "".
func codeOf(err error) string {
	var answer *azcore.ResponseError
	if errors.As(err, &answer) {
		return answer.ErrorCode
	}
	return ""
}

// statusOf is the HTTP status of the answer, or 0 if none arrived.
func statusOf(err error) int {
	var answer *azcore.ResponseError
	if errors.As(err, &answer) {
		return answer.StatusCode
	}
	return 0
}

// shortened cuts what is too long for a line.
func shortened(s string) string {
	const most = 300
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
