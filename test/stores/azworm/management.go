package azworm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/storage/armstorage"
	armfake "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/storage/armstorage/fake"
)

// maxExtensions is how often the period of a locked policy may be raised in its life [period].
const maxExtensions = 5

// management answers the management API by the fakes of its SDK, which read and write its forms.
type management struct {
	shim       *Shim
	containers *armfake.BlobContainersServerTransport
	services   *armfake.BlobServicesServerTransport
	accounts   *armfake.AccountsServerTransport
}

func newManagement(s *Shim) *management {
	return &management{
		shim: s,
		containers: armfake.NewBlobContainersServerTransport(&armfake.BlobContainersServer{
			Create:                           s.armCreate,
			Get:                              s.armGet,
			Delete:                           s.armDelete,
			CreateOrUpdateImmutabilityPolicy: s.armPutPolicy,
			GetImmutabilityPolicy:            s.armGetPolicy,
			LockImmutabilityPolicy:           s.armLock,
			ExtendImmutabilityPolicy:         s.armExtend,
			DeleteImmutabilityPolicy:         s.armDeletePolicy,
			SetLegalHold:                     s.armSetHold,
			ClearLegalHold:                   s.armClearHold,
		}),
		services: armfake.NewBlobServicesServerTransport(&armfake.BlobServicesServer{GetServiceProperties: s.armService}),
		accounts: armfake.NewAccountsServerTransport(&armfake.AccountsServer{GetProperties: s.armAccount}),
	}
}

// ServeHTTP tells the fakes which operation a request is, as the SDK does within a process.
func (m *management) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, identity := m.shim.identity(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	if identity || r.Header.Get("Authorization") == "Bearer "+powerless {
		failed(w, http.StatusForbidden, "AuthorizationFailed") // [rbac]
		return
	}
	if token := m.shim.opts.Token; token == "" || r.Header.Get("Authorization") != "Bearer "+token {
		failed(w, http.StatusUnauthorized, "InvalidAuthenticationToken")
		return
	}
	name, fake := m.operation(r)
	if fake == nil {
		failed(w, http.StatusNotImplemented, "NotImplemented")
		return
	}
	m.shim.mu.Lock()
	defer m.shim.mu.Unlock()
	resp, err := fake.Do(r.WithContext(context.WithValue(r.Context(), runtime.CtxAPINameKey{}, name)))
	var refused *azcore.ResponseError
	switch {
	case errors.As(err, &refused):
		failed(w, refused.StatusCode, refused.ErrorCode)
	case err != nil:
		failed(w, http.StatusInternalServerError, err.Error())
	default:
		defer resp.Body.Close()
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}
}

// server is what the SDK's fakes are.
type server interface {
	Do(*http.Request) (*http.Response, error)
}

func (m *management) operation(r *http.Request) (string, server) {
	_, rest, _ := strings.Cut(r.URL.Path, "/storageAccounts/")
	parts := strings.Split(rest, "/") // ACCOUNT/blobServices/default/containers/NAME/...
	get, put := r.Method == http.MethodGet, r.Method == http.MethodPut
	last := parts[len(parts)-1]
	switch {
	case len(parts) == 1 && get:
		return "AccountsClient.GetProperties", m.accounts
	case len(parts) == 3 && get:
		return "BlobServicesClient.GetServiceProperties", m.services
	case len(parts) == 5 && get:
		return "BlobContainersClient.Get", m.containers
	case len(parts) == 5 && r.Method == http.MethodDelete:
		return "BlobContainersClient.Delete", m.containers
	case len(parts) == 5 && put:
		return "BlobContainersClient.Create", m.containers
	case last == "setLegalHold":
		return "BlobContainersClient.SetLegalHold", m.containers
	case last == "clearLegalHold":
		return "BlobContainersClient.ClearLegalHold", m.containers
	case last == "lock":
		return "BlobContainersClient.LockImmutabilityPolicy", m.containers
	case last == "extend":
		return "BlobContainersClient.ExtendImmutabilityPolicy", m.containers
	case len(parts) == 7 && get:
		return "BlobContainersClient.GetImmutabilityPolicy", m.containers
	case len(parts) == 7 && put:
		return "BlobContainersClient.CreateOrUpdateImmutabilityPolicy", m.containers
	case len(parts) == 7 && r.Method == http.MethodDelete:
		return "BlobContainersClient.DeleteImmutabilityPolicy", m.containers
	}
	return "", nil
}

func failed(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("x-ms-error-code", code)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"code": code, "message": "refused: " + code}})
}

// tag gives a policy a new ETag, without which it cannot be locked, extended or removed.
func (s *Shim) tag(p *policy) {
	s.etags++
	p.etag = fmt.Sprintf(`"8d%013x"`, s.etags)
}

func (p *policy) form() armstorage.ImmutabilityPolicy {
	if p == nil {
		return armstorage.ImmutabilityPolicy{Etag: to.Ptr(`""`), Properties: &armstorage.ImmutabilityPolicyProperty{
			ImmutabilityPeriodSinceCreationInDays: to.Ptr[int32](0), State: to.Ptr(armstorage.ImmutabilityPolicyStateUnlocked)}}
	}
	state := armstorage.ImmutabilityPolicyStateUnlocked
	if p.locked {
		state = armstorage.ImmutabilityPolicyStateLocked
	}
	return armstorage.ImmutabilityPolicy{Etag: &p.etag, Properties: &armstorage.ImmutabilityPolicyProperty{
		ImmutabilityPeriodSinceCreationInDays: &p.days, State: &state}}
}

// found looks for a container, and sets the error if there is none.
func (s *Shim) found(name string, e *azfake.ErrorResponder) *containerState {
	c := s.containers[name]
	if c == nil || c.hidden {
		e.SetResponseError(http.StatusNotFound, "ContainerNotFound")
		return nil
	}
	return c
}

// stale sets the error if the ETag is not the policy's.
func stale(c *containerState, etag string, e *azfake.ErrorResponder) bool {
	switch {
	case c.policy == nil:
		e.SetResponseError(http.StatusNotFound, "ImmutabilityPolicyNotFound")
	case etag != c.policy.etag:
		e.SetResponseError(http.StatusPreconditionFailed, "UpdateImmutabilityPolicyFailed")
	default:
		return false
	}
	return true
}

func (s *Shim) armCreate(ctx context.Context, _, _, name string, body armstorage.BlobContainer, _ *armstorage.BlobContainersClientCreateOptions) (resp azfake.Responder[armstorage.BlobContainersClientCreateResponse], e azfake.ErrorResponder) {
	versionLevel := body.ContainerProperties != nil && body.ContainerProperties.ImmutableStorageWithVersioning != nil &&
		body.ContainerProperties.ImmutableStorageWithVersioning.Enabled != nil && *body.ContainerProperties.ImmutableStorageWithVersioning.Enabled
	if c := s.containers[name]; c != nil {
		e.SetResponseError(http.StatusConflict, "ContainerAlreadyExists") // [codes]; the API may answer 200 as well
		return
	}
	if err := s.create((&http.Request{}).WithContext(ctx), name, versionLevel); err != nil {
		e.SetError(err)
		return
	}
	resp.SetResponse(http.StatusCreated, armstorage.BlobContainersClientCreateResponse{BlobContainer: body}, nil)
	return
}

// armDelete removes a container with all that is in it, unless a policy that is locked, version-level
// immutability or a legal hold protects what it holds [container], [version], [hold].
func (s *Shim) armDelete(ctx context.Context, _, _, name string, _ *armstorage.BlobContainersClientDeleteOptions) (resp azfake.Responder[armstorage.BlobContainersClientDeleteResponse], e azfake.ErrorResponder) {
	c := s.found(name, &e)
	if c == nil {
		return
	}
	protects := len(c.holds) > 0 || c.versionLevel || c.policy != nil && c.policy.locked
	if protects && len(c.blobs) > 0 {
		e.SetResponseError(http.StatusConflict, "ContainerProtectedFromDeletion")
		return
	}
	if err := s.remove((&http.Request{}).WithContext(ctx), name); err != nil {
		e.SetError(err)
		return
	}
	resp.SetResponse(http.StatusOK, armstorage.BlobContainersClientDeleteResponse{}, nil)
	return
}

func (s *Shim) armGet(_ context.Context, _, _, name string, _ *armstorage.BlobContainersClientGetOptions) (resp azfake.Responder[armstorage.BlobContainersClientGetResponse], e azfake.ErrorResponder) {
	c := s.found(name, &e)
	if c == nil {
		return
	}
	props := &armstorage.ContainerProperties{
		HasImmutabilityPolicy:          to.Ptr(c.policy != nil),
		HasLegalHold:                   to.Ptr(len(c.holds) > 0),
		ImmutableStorageWithVersioning: &armstorage.ImmutableStorageWithVersioning{Enabled: &c.versionLevel},
	}
	if p := c.policy; p != nil {
		form := p.form()
		props.ImmutabilityPolicy = &armstorage.ImmutabilityPolicyProperties{Etag: form.Etag, Properties: form.Properties}
		for _, u := range p.history {
			props.ImmutabilityPolicy.UpdateHistory = append(props.ImmutabilityPolicy.UpdateHistory, &armstorage.UpdateHistoryProperty{
				Update: to.Ptr(armstorage.ImmutabilityPolicyUpdateType(u.kind)), ImmutabilityPeriodSinceCreationInDays: &u.days, Timestamp: &u.at})
		}
	}
	resp.SetResponse(http.StatusOK, armstorage.BlobContainersClientGetResponse{BlobContainer: armstorage.BlobContainer{Name: &name, ContainerProperties: props}}, nil)
	return
}

// armPutPolicy makes or changes an unlocked policy; 1 to 146000 days [period].
func (s *Shim) armPutPolicy(_ context.Context, _, _, name string, o *armstorage.BlobContainersClientCreateOrUpdateImmutabilityPolicyOptions) (resp azfake.Responder[armstorage.BlobContainersClientCreateOrUpdateImmutabilityPolicyResponse], e azfake.ErrorResponder) {
	c := s.found(name, &e)
	if c == nil {
		return
	}
	days := int32(0)
	if o != nil && o.Parameters != nil && o.Parameters.Properties != nil && o.Parameters.Properties.ImmutabilityPeriodSinceCreationInDays != nil {
		days = *o.Parameters.Properties.ImmutabilityPeriodSinceCreationInDays
	}
	switch {
	case days < 1 || days > 146_000:
		e.SetResponseError(http.StatusBadRequest, "InvalidRequestPropertyValue")
		return
	case c.policy != nil && c.policy.locked:
		e.SetResponseError(http.StatusConflict, "ContainerImmutabilityPolicyFailure")
		return
	case c.policy != nil && o.IfMatch != nil && *o.IfMatch != c.policy.etag:
		e.SetResponseError(http.StatusPreconditionFailed, "UpdateImmutabilityPolicyFailed")
		return
	}
	if c.policy == nil {
		c.policy = &policy{}
	}
	s.change(c.policy, "put", days)
	resp.SetResponse(http.StatusOK, armstorage.BlobContainersClientCreateOrUpdateImmutabilityPolicyResponse{ImmutabilityPolicy: c.policy.form(), ETag: &c.policy.etag}, nil)
	return
}

// change notes a change of a policy.
func (s *Shim) change(p *policy, kind string, days int32) {
	p.days = days
	p.history = append(p.history, update{kind, days, s.Now().Truncate(time.Second)})
	s.tag(p)
}

func (s *Shim) armGetPolicy(_ context.Context, _, _, name string, _ *armstorage.BlobContainersClientGetImmutabilityPolicyOptions) (resp azfake.Responder[armstorage.BlobContainersClientGetImmutabilityPolicyResponse], e azfake.ErrorResponder) {
	if c := s.found(name, &e); c != nil {
		form := c.policy.form()
		resp.SetResponse(http.StatusOK, armstorage.BlobContainersClientGetImmutabilityPolicyResponse{ImmutabilityPolicy: form, ETag: form.Etag}, nil)
	}
	return
}

func (s *Shim) armLock(_ context.Context, _, _, name, etag string, _ *armstorage.BlobContainersClientLockImmutabilityPolicyOptions) (resp azfake.Responder[armstorage.BlobContainersClientLockImmutabilityPolicyResponse], e azfake.ErrorResponder) {
	c := s.found(name, &e)
	if c == nil || stale(c, etag, &e) {
		return
	}
	c.policy.locked = true
	s.change(c.policy, "lock", c.policy.days)
	resp.SetResponse(http.StatusOK, armstorage.BlobContainersClientLockImmutabilityPolicyResponse{ImmutabilityPolicy: c.policy.form(), ETag: &c.policy.etag}, nil)
	return
}

// armExtend raises the period of a locked policy, at most five times [period].
func (s *Shim) armExtend(_ context.Context, _, _, name, etag string, o *armstorage.BlobContainersClientExtendImmutabilityPolicyOptions) (resp azfake.Responder[armstorage.BlobContainersClientExtendImmutabilityPolicyResponse], e azfake.ErrorResponder) {
	c := s.found(name, &e)
	if c == nil || stale(c, etag, &e) {
		return
	}
	days := *o.Parameters.Properties.ImmutabilityPeriodSinceCreationInDays
	if !c.policy.locked || days <= c.policy.days || c.policy.extensions() == maxExtensions {
		e.SetResponseError(http.StatusConflict, "ContainerImmutabilityPolicyFailure")
		return
	}
	s.change(c.policy, "extend", days)
	resp.SetResponse(http.StatusOK, armstorage.BlobContainersClientExtendImmutabilityPolicyResponse{ImmutabilityPolicy: c.policy.form(), ETag: &c.policy.etag}, nil)
	return
}

// armDeletePolicy removes an unlocked policy.
func (s *Shim) armDeletePolicy(_ context.Context, _, _, name, etag string, _ *armstorage.BlobContainersClientDeleteImmutabilityPolicyOptions) (resp azfake.Responder[armstorage.BlobContainersClientDeleteImmutabilityPolicyResponse], e azfake.ErrorResponder) {
	c := s.found(name, &e)
	if c == nil || stale(c, etag, &e) {
		return
	}
	if c.policy.locked {
		e.SetResponseError(http.StatusConflict, "ContainerImmutabilityPolicyFailure")
		return
	}
	c.policy = nil
	resp.SetResponse(http.StatusOK, armstorage.BlobContainersClientDeleteImmutabilityPolicyResponse{ImmutabilityPolicy: c.policy.form()}, nil)
	return
}

// armSetHold adds tags of a legal hold, ten at most, each of 3 to 23 letters and digits [hold].
func (s *Shim) armSetHold(_ context.Context, _, _, name string, hold armstorage.LegalHold, _ *armstorage.BlobContainersClientSetLegalHoldOptions) (resp azfake.Responder[armstorage.BlobContainersClientSetLegalHoldResponse], e azfake.ErrorResponder) {
	c := s.found(name, &e)
	if c == nil {
		return
	}
	for _, tag := range hold.Tags {
		if len(*tag) < 3 || len(*tag) > 23 || len(c.holds) == 10 {
			e.SetResponseError(http.StatusBadRequest, "InvalidRequestPropertyValue")
			return
		}
		c.holds = append(c.holds, *tag)
	}
	resp.SetResponse(http.StatusOK, armstorage.BlobContainersClientSetLegalHoldResponse{LegalHold: armstorage.LegalHold{Tags: to.SliceOfPtrs(c.holds...)}}, nil)
	return
}

func (s *Shim) armClearHold(_ context.Context, _, _, name string, hold armstorage.LegalHold, _ *armstorage.BlobContainersClientClearLegalHoldOptions) (resp azfake.Responder[armstorage.BlobContainersClientClearLegalHoldResponse], e azfake.ErrorResponder) {
	c := s.found(name, &e)
	if c == nil {
		return
	}
	var rest []string
	for _, held := range c.holds {
		cleared := false
		for _, tag := range hold.Tags {
			cleared = cleared || held == *tag
		}
		if !cleared {
			rest = append(rest, held)
		}
	}
	c.holds = rest
	resp.SetResponse(http.StatusOK, armstorage.BlobContainersClientClearLegalHoldResponse{LegalHold: armstorage.LegalHold{Tags: to.SliceOfPtrs(c.holds...)}}, nil)
	return
}

// armService denies versions: only containers with version-level immutability have them here.
func (s *Shim) armService(context.Context, string, string, *armstorage.BlobServicesClientGetServicePropertiesOptions) (resp azfake.Responder[armstorage.BlobServicesClientGetServicePropertiesResponse], e azfake.ErrorResponder) {
	resp.SetResponse(http.StatusOK, armstorage.BlobServicesClientGetServicePropertiesResponse{BlobServiceProperties: armstorage.BlobServiceProperties{
		BlobServiceProperties: &armstorage.BlobServicePropertiesProperties{IsVersioningEnabled: to.Ptr(false)},
	}}, nil)
	return
}

func (s *Shim) armAccount(_ context.Context, _, account string, _ *armstorage.AccountsClientGetPropertiesOptions) (resp azfake.Responder[armstorage.AccountsClientGetPropertiesResponse], e azfake.ErrorResponder) {
	resp.SetResponse(http.StatusOK, armstorage.AccountsClientGetPropertiesResponse{Account: armstorage.Account{Name: &account, Properties: &armstorage.AccountProperties{}}}, nil)
	return
}
