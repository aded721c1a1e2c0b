package gcs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"

	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/dial"
)

// rule classifies an answer by its reason, else by its status.
type rule struct {
	reasons []string
	status  []int
	kind    error
	remedy  string
}

// The remedies that several rules share.
const (
	grant      = "grant the permission to this identity (docs/operations/permissions.md lists what each role needs)"
	checkWhere = "check the container's name and the endpoint, or create it"
)

// rules are tried in order; reasons of all rules go before statuses of any. Locks are not
// among them: see blamesLock.
var rules = []rule{
	{reasons: []string{"conditionNotMet"}, status: []int{http.StatusPreconditionFailed}, kind: store.ErrExists},
	{reasons: []string{"authError", "required", "invalidCredentials", "expired"}, status: []int{http.StatusUnauthorized}, kind: store.ErrCredentials,
		remedy: "check that the credentials belong to this service, still exist and have not expired"},
	{reasons: []string{"rateLimitExceeded", "userRateLimitExceeded", "slowDown", "backendBusy"}, status: []int{http.StatusTooManyRequests}, kind: store.ErrThrottled, remedy: "try again later"},
	{reasons: []string{"quotaExceeded", "dailyLimitExceeded", "concurrentLimitExceeded"}, kind: store.ErrThrottled, remedy: "a quota of the project is used up: raise it, or wait until it is renewed"},
	{reasons: []string{"accountDisabled", "billingDisabled", "billingNotEnabled", "UserProjectAccountProblem"}, kind: store.ErrForbidden, remedy: "the project's billing is off or its account closed: enable billing"},
	{reasons: []string{"accessNotConfigured", "SERVICE_DISABLED"}, kind: store.ErrForbidden, remedy: "enable the Cloud Storage API in the project of this identity"},
	{reasons: []string{"forbidden", "insufficientPermissions", "domainPolicy", "sslRequired"}, status: []int{http.StatusForbidden}, kind: store.ErrForbidden, remedy: grant},
	{reasons: []string{"uploadTooLarge"}, status: []int{http.StatusRequestEntityTooLarge}, remedy: "one object can have 5 TiB"},
	{reasons: []string{"notImplemented"}, status: []int{http.StatusNotImplemented}, kind: store.ErrUnsupported},
	{status: []int{http.StatusNotFound}, kind: store.ErrNotFound},
	{status: []int{http.StatusGone}, remedy: "the upload was canceled or is too old"},
	{status: []int{http.StatusInsufficientStorage}, kind: store.ErrNoSpace, remedy: "enlarge the store or its quota"},
	{status: []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect},
		remedy: "this endpoint sends elsewhere: check --store-endpoint-override"},
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
		return way(s.opts.server()).Broken(err)
	}
	if creds := (*credentialsError)(nil); errors.As(err, &creds) {
		return s.classifyToken(creds)
	}
	if api := apiError(err); api != nil {
		return s.classifyAnswer(err, api)
	}
	if f := way(s.opts.server()).Broken(err); f != nil {
		return f
	}
	switch {
	case errors.Is(err, storage.ErrObjectNotExist):
		return &store.Failure{Kind: store.ErrNotFound, Said: "the store does not have it", Cause: err}
	case errors.Is(err, storage.ErrBucketNotExist):
		return &store.Failure{Kind: store.ErrNoBucket, Said: s.notThere(), Remedy: checkWhere, Cause: err}
	}
	return &store.Failure{Said: dial.Innermost(err), Cause: err}
}

func (s *Store) notThere() string { return fmt.Sprintf("%q is not there", s.opts.Bucket) }

// classifyToken is for what happened while a token was fetched: no way to those who issue it
// is another matter than their refusal.
func (s *Store) classifyToken(err *credentialsError) error {
	switch {
	case err.status >= 500 || err.status == http.StatusTooManyRequests:
		return &store.Failure{Kind: store.ErrUnreachable, Said: fmt.Sprintf("an access token cannot be had: %s (HTTP %d)", err, err.status), Remedy: "try again later", Cause: err}
	case err.status != 0:
		return &store.Failure{Kind: store.ErrCredentials, Said: fmt.Sprintf("an access token was refused: %s (HTTP %d)", err, err.status),
			Remedy: "check that the service account and its key still exist, that a federated token has not expired, and that this machine's clock is right", Cause: err}
	}
	issuer := "the token service of the credentials"
	if err.issuer != "" {
		issuer += " (" + err.issuer + ")"
	}
	if f := way(issuer).Broken(err.err); f != nil {
		return f
	}
	return &store.Failure{Kind: store.ErrCredentials, Said: oneLine(err.Error()), Cause: err}
}

// classifyAnswer is for what the server answered.
func (s *Store) classifyAnswer(err error, api *googleapi.Error) error {
	f := &store.Failure{Said: saidBy(api), Cause: err}
	if api.Code == http.StatusNotFound && missingBucket(api) {
		f.Kind, f.Said, f.Remedy = store.ErrNoBucket, s.notThere(), checkWhere
		return f
	}
	reasons := reasonsOf(api)
	if api.Code == http.StatusRequestEntityTooLarge && len(reasons) == 0 {
		f.Said, f.Remedy = dial.BodyRefused("Cloud Storage", int64(s.opts.ChunkSize))
		return f
	}
	for _, r := range rules {
		if slices.ContainsFunc(reasons, func(reason string) bool { return slices.Contains(r.reasons, reason) }) {
			f.Kind, f.Remedy = r.kind, r.remedy
			return f
		}
	}
	for _, r := range rules {
		if slices.Contains(r.status, api.Code) {
			f.Kind, f.Remedy = r.kind, r.remedy
			return f
		}
	}
	if api.Code >= 500 {
		f.Kind, f.Remedy = store.ErrUnreachable, s.opts.server()+" answers but fails, try again later"
	}
	return f
}

// way is the way to a server: the service's, or that of tokens.
func way(to string) dial.Way {
	return dial.Way{To: to, Endpoint: "the endpoint", Name: "the endpoint and the network", CA: "the file trustedCaCert beside the credentials"}
}

// saidBy is what the server said, on one line.
func saidBy(api *googleapi.Error) string {
	said := api.Message
	if said == "" && api.Body != "" && !strings.HasPrefix(strings.TrimSpace(api.Body), "<") && len(api.Body) < 200 {
		said = api.Body // a page of a proxy says nothing
	}
	if said == "" {
		said = http.StatusText(api.Code)
	}
	if reasons := reasonsOf(api); len(reasons) > 0 && !strings.Contains(said, reasons[0]) {
		said = reasons[0] + ": " + said
	}
	return fmt.Sprintf("%s (HTTP %d)", oneLine(said), api.Code)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// reasonsOf are the server's words for why.
func reasonsOf(api *googleapi.Error) []string {
	var all []string
	for _, item := range api.Errors {
		if item.Reason != "" {
			all = append(all, item.Reason)
		}
	}
	return all
}

// missingBucket says whether an answer "not found" is about the bucket.
func missingBucket(api *googleapi.Error) bool {
	return strings.Contains(strings.ToLower(api.Message), "bucket does not exist")
}

// blamesLock says whether the server refused because of a lock, and whether that is a hold.
func blamesLock(err error) (blamed, hold bool) {
	api := apiError(err)
	if api == nil || api.Code != http.StatusForbidden {
		return false, false
	}
	reasons, said := reasonsOf(api), strings.ToLower(api.Message)
	switch {
	case slices.Contains(reasons, "objectUnderActiveHold"), strings.Contains(said, "under active"):
		return true, true
	case slices.Contains(reasons, "retentionPolicyNotMet"), strings.Contains(said, "retention policy"), strings.Contains(said, "retention expiration"):
		return true, false
	}
	return false, false
}

// apiError is the server's answer in an error, or nil.
func apiError(err error) *googleapi.Error {
	var api *googleapi.Error
	if errors.As(err, &api) {
		return api
	}
	return nil
}

// statusOf is the HTTP status of the answer, or 0 if none arrived.
func statusOf(err error) int {
	if api := apiError(err); api != nil {
		return api.Code
	}
	return 0
}

// passing says whether a request is worth repeating at once. All that is sent may be repeated.
func passing(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, errBroken) || dial.Final(err) {
		return false
	}
	if dial.OfProxy(err) != nil {
		return true
	}
	var creds *credentialsError
	if errors.As(err, &creds) {
		return creds.status >= 500 || creds.status == http.StatusTooManyRequests ||
			creds.status == 0 && (dial.Interrupted(creds.err) || errors.Is(creds.err, os.ErrDeadlineExceeded))
	}
	if api := apiError(err); api != nil {
		return api.Code == http.StatusRequestTimeout || api.Code == http.StatusTooManyRequests ||
			api.Code >= 500 && api.Code != http.StatusNotImplemented && api.Code != http.StatusInsufficientStorage
	}
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ECONNREFUSED) || dial.Interrupted(err)
}
