package azure

import (
	"context"
	"crypto/tls"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/dial"
)

// failure is an error of the service or of the way to it, in the words of the port: what it
// is, what the service said, and what to do about it.
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
	{codes: []string{"InvalidResourceName"}, kind: store.ErrNoBucket, remedy: "this cannot be the name of a container or blob, check the container"},
	{codes: []string{"BlobAlreadyExists", "UnauthorizedBlobOverwrite", "ConditionNotMet"}, kind: store.ErrExists},
	{codes: []string{"AuthenticationFailed"}, kind: store.ErrCredentials, remedy: "check storageAccount and storageKey, sasToken or the identity's tenant"},
	{codes: []string{"InvalidAuthenticationInfo", "NoAuthenticationInformation"}, kind: store.ErrCredentials, remedy: "check the credentials' form: storageKey is base64, sasToken is what follows the question mark"},
	{codes: []string{"AuthorizationPermissionMismatch", "InsufficientAccountPermissions", "AuthorizationProtocolMismatch", "AuthorizationResourceTypeMismatch", "AuthorizationServiceMismatch"},
		kind: store.ErrForbidden, remedy: "grant the action to this identity or SAS (docs/operations/permissions.md lists what each role needs)"},
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
	{codes: []string{"BlockCountExceedsLimit", "BlobTooLarge", "RequestBodyTooLarge"}, remedy: "change --min-chunk-size"},
	{codes: []string{"InvalidBlobOrBlock"}, remedy: "blocks of somebody else's unfinished upload wait under this key; Azure forgets them a week after the last one"},
	{codes: []string{"InvalidBlockList"}, remedy: "another writer was writing the same key, try again"},
	{status: []int{http.StatusNotFound}, kind: store.ErrNotFound},
	{status: []int{http.StatusUnauthorized}, kind: store.ErrCredentials, remedy: "check the credentials"},
	{status: []int{http.StatusForbidden}, kind: store.ErrForbidden, remedy: "grant the action to this identity (docs/operations/permissions.md lists what each role needs)"},
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
		ours     *failure
		answer   *azcore.ResponseError
		creds    *credentialsError
		identity *azidentity.AuthenticationFailedError
	)
	switch {
	case errors.As(err, &ours):
		return err
	case dial.OfProxy(err) != nil:
		return &failure{kind: store.ErrUnreachable, said: dial.OfProxy(err).Error(), remedy: dial.CheckProxy, cause: err}
	case errors.As(err, &creds):
		return &failure{kind: store.ErrCredentials, said: creds.Error(), cause: err}
	case errors.As(err, &identity), strings.Contains(err.Error(), "DefaultAzureCredential"):
		return &failure{kind: store.ErrCredentials, said: "no token for the ambient identity: " + shortened(oneLine(err.Error())),
			remedy: "give storageKey or sasToken, or run where an identity is ambient (workload identity, managed identity)", cause: err}
	case errors.As(err, &answer):
		return s.classifyAnswer(answer)
	}
	if f := s.classifyNetwork(err); f != nil {
		return f
	}
	return &failure{said: shortened(oneLine(innermost(err))), cause: err}
}

// classifyAnswer is for what the service answered.
func (s *Store) classifyAnswer(err *azcore.ResponseError) error {
	f := &failure{said: serverWords(err), cause: err}
	matched := func(match func(rule) bool) bool {
		i := slices.IndexFunc(rules, match)
		if i >= 0 {
			f.kind, f.remedy = rules[i].kind, rules[i].remedy
		}
		return i >= 0
	}
	switch {
	case matched(func(r rule) bool { return slices.Contains(r.codes, err.ErrorCode) }):
	case matched(func(r rule) bool { return slices.Contains(r.status, err.StatusCode) }):
	case err.StatusCode >= 500:
		f.kind, f.remedy = store.ErrUnreachable, s.opts.Endpoint+" answers but fails, try again later"
	}
	if err.ErrorCode == "AuthenticationFailed" {
		f.remedy = s.whyNotAuthenticated(err, f.remedy)
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

// classifyNetwork is for what happened on the way. nil: nothing of that kind.
func (s *Store) classifyNetwork(err error) error {
	where := s.opts.Endpoint
	f := &failure{kind: store.ErrUnreachable, cause: err}
	var (
		dns     *net.DNSError
		timeout net.Error
		op      *net.OpError
		record  tls.RecordHeaderError
	)
	trust := dial.Untrusted(err)
	switch {
	case trust != nil:
		f.said = fmt.Sprintf("the certificate of %s is not trusted: %v", where, trust)
		f.remedy = "give the CA's certificate in the field trustedCaCert"
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		f.said = where + " speaks plain http, not https"
		f.remedy = "correct the endpoint's scheme"
	case errors.As(err, &dns):
		f.said = fmt.Sprintf("the name %q cannot be resolved: %s", dns.Name, dns.Err)
		f.remedy = "check storageAccount, domain and the endpoint"
	case errors.Is(err, syscall.ECONNREFUSED):
		f.said = "connection refused by " + where
		f.remedy = "check the endpoint and that the server runs"
	case errors.As(err, &timeout) && timeout.Timeout():
		f.said = where + " did not answer in time: " + innermost(err)
		f.remedy = "check the network and the endpoint"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		f.said = "the connection to " + where + " broke: " + innermost(err)
		f.remedy = "try again"
	case errors.As(err, &op), strings.Contains(err.Error(), "http: server closed idle connection"):
		f.said = "no connection to " + where + ": " + innermost(err)
		f.remedy = "check the endpoint and the network"
	case strings.Contains(err.Error(), "not permitted for non-TLS protected"):
		f.kind, f.said = store.ErrCredentials, "an identity's token must not be sent over plain http"
		f.remedy = "use an https endpoint"
	default:
		return nil
	}
	return f
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

// innermost is the last error in the chain: on the way out each layer adds words, and the HTTP
// client's are the URL, which may hold a signature.
func innermost(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}

// shortened cuts what is too long for a line.
func shortened(s string) string {
	const most = 300
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
