package azworm

import (
	"context"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
)

// Options say where Azurite is and what the shim pretends.
type Options struct {
	Backend string // URL of Azurite, without the account
	Account string
	Key     string // of the account, base64
	Token   string // a bearer token that is let in, also by the management API; empty: none

	// SilentPolicies: blobs do not tell the date that follows from their container's policy.
	// Whether Azure tells it is not documented.
	SilentPolicies bool
}

// Shim is an http.Handler for both the blob service and the management API.
type Shim struct {
	opts       Options
	key        []byte
	cred       *sas.SharedKeyCredential
	client     *http.Client
	permission string // a SAS for Azurite
	manage     *management

	// mu is held over each operation that decides and changes, so that one is whole before the
	// next begins.
	mu         sync.Mutex
	containers map[string]*containerState
	lastID     time.Time
	etags      int

	identitiesMu sync.Mutex
	identities   map[string][]string // actions by name

	clock sync.Mutex
	moved time.Duration // the clock was moved by so much
	wrong time.Duration // the clock goes wrong by so much, which is an error of the client's
}

// New makes a shim.
func New(o Options) (*Shim, error) {
	s := &Shim{opts: o, containers: map[string]*containerState{}, identities: map[string][]string{}}
	var err error
	if s.key, err = base64.StdEncoding.DecodeString(o.Key); err != nil {
		return nil, fmt.Errorf("the key of the account: %w", err)
	}
	if s.cred, err = blob.NewSharedKeyCredential(o.Account, o.Key); err != nil {
		return nil, err
	}
	permission, err := sas.AccountSignatureValues{
		ExpiryTime:    time.Now().Add(30 * day),
		Permissions:   (&sas.AccountPermissions{Read: true, Write: true, Delete: true, List: true, Add: true, Create: true, Tag: true}).String(),
		ResourceTypes: (&sas.AccountResourceTypes{Service: true, Container: true, Object: true}).String(),
	}.SignWithSharedKey(s.cred)
	if err != nil {
		return nil, err
	}
	s.permission = permission.Encode()
	s.client = &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 32}}
	s.manage = newManagement(s)
	return s, nil
}

const day = 24 * time.Hour

// Now is the clock that locks are judged by and that answers show.
func (s *Shim) Now() time.Time {
	s.clock.Lock()
	defer s.clock.Unlock()
	return time.Now().Add(s.moved + s.wrong)
}

// Advance moves the clock forward. Requests dated by the real clock are still let in.
func (s *Shim) Advance(d time.Duration) {
	s.clock.Lock()
	defer s.clock.Unlock()
	s.moved += d
}

// SetClockError makes the clocks of service and clients differ, so that signatures are refused
// when that is too much.
func (s *Shim) SetClockError(d time.Duration) {
	s.clock.Lock()
	defer s.clock.Unlock()
	s.wrong = d
}

func (s *Shim) clockError() time.Duration {
	s.clock.Lock()
	defer s.clock.Unlock()
	return s.wrong
}

// target is what a request is about.
type target struct {
	container, blob, version string
}

// ServeHTTP answers both services.
func (s *Shim) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Date", s.Now().UTC().Format(http.TimeFormat))
	if strings.HasPrefix(strings.ToLower(r.URL.Path), "/subscriptions/") {
		s.manage.ServeHTTP(w, r)
		return
	}
	if s.authority(w, r) {
		return
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/"+s.opts.Account+"/")
	if !ok {
		refuse(w, r, problem{http.StatusBadRequest, "InvalidUri", ""})
		return
	}
	t := target{version: r.URL.Query().Get("versionid")}
	t.container, t.blob, _ = strings.Cut(rest, "/")
	s.dispatch(w, r, t)
}

// refuse answers an error in the service's form [codes].
func refuse(w http.ResponseWriter, r *http.Request, p problem) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("x-ms-error-code", p.code)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(p.status)
	if r.Method == http.MethodHead {
		return
	}
	type body struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
		Detail  string `xml:"AuthenticationErrorDetail,omitempty"`
	}
	_, _ = io.WriteString(w, xml.Header)
	_ = xml.NewEncoder(w).Encode(body{Code: p.code, Message: messages[p.code] + "\nRequestId:0\nTime:" + w.Header().Get("Date"), Detail: p.detail})
}

// messages are the service's, or near to them.
var messages = map[string]string{
	"BlobImmutableDueToPolicy":        "This operation is not permitted as the blob is immutable due to a policy.",
	"BlobImmutableDueToLegalHold":     "This operation is not permitted as the blob is immutable due to one or more legal holds.",
	"AuthenticationFailed":            "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.",
	"BlobNotFound":                    "The specified blob does not exist.",
	"AuthorizationPermissionMismatch": "This request is not authorized to perform this operation using this permission.",
	"ContainerNotFound":               "The specified container does not exist.",
}

// ask sends a request to Azurite, in the shim's own name.
func (s *Shim) ask(r *http.Request, method, container, blob string, query url.Values, header http.Header, body io.Reader, length int64) (*http.Response, error) {
	path := "/" + s.opts.Account + "/" + container
	if blob != "" {
		path += "/" + url.PathEscape(blob)
	}
	clean := url.Values{}
	for name, values := range query {
		if !ofSAS[name] && name != "versionid" {
			clean[name] = values
		}
	}
	raw := clean.Encode()
	if raw != "" {
		raw += "&"
	}
	permission := s.permission
	if blob != "" && query.Get("comp") == "block" && header.Get("x-ms-copy-source") != "" {
		// By a SAS of the account, Azurite does not know this operation.
		signed, err := sas.BlobSignatureValues{ContainerName: container, Permissions: "rw", ExpiryTime: time.Now().Add(day)}.SignWithSharedKey(s.cred)
		if err != nil {
			return nil, err
		}
		permission = signed.Encode()
	}
	// What was begun is finished, even if who asked has gone: Azurite may have done it already.
	req, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), method, s.opts.Backend+path+"?"+raw+permission, body)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		if name = strings.ToLower(name); name == "authorization" || name == "x-ms-date" || strings.HasPrefix(name, "x-ms-immutability") || name == "x-ms-legal-hold" || name == "connection" {
			continue
		}
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	req.ContentLength = length
	if length == 0 {
		req.Body = http.NoBody
	}
	return s.client.Do(req)
}

// ofSAS are the parameters of a SAS.
var ofSAS = map[string]bool{"sv": true, "ss": true, "srt": true, "spr": true, "st": true, "se": true, "sip": true, "sr": true, "sp": true, "sig": true, "si": true, "ses": true, "sdd": true}

// reply passes Azurite's answer on, with headers changed.
func (s *Shim) reply(w http.ResponseWriter, resp *http.Response, change func(http.Header)) {
	defer resp.Body.Close()
	for name, values := range resp.Header {
		if name != "Date" && name != "Connection" && name != "Keep-Alive" {
			w.Header()[name] = values
		}
	}
	if change != nil {
		change(w.Header())
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

// broken ends a request whose answer could not be had.
func broken(error) { panic(http.ErrAbortHandler) }
