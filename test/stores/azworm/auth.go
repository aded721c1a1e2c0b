package azworm

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
)

// maxSkew is how far the date of a request may be from the service's clock [sharedkey].
const maxSkew = 15 * time.Minute

// problem is an answer that refuses.
type problem struct {
	status       int
	code, detail string
}

func unauthenticated(format string, args ...any) *problem {
	return &problem{http.StatusForbidden, "AuthenticationFailed", fmt.Sprintf(format, args...)}
}

// right is what an operation takes of who is not the account's owner: of a SAS its letters, and that of the account to be for
// that type of resource (c: containers, o: objects) [sas]; of an identity all of the actions [actions], which are below
// Microsoft.Storage/storageAccounts/blobServices/containers/.
type right struct {
	resource rune
	letters  string
	actions  []string
}

// setPolicies is the action of who sets immutability policies of blobs [actions].
const setPolicies = "blobs/immutableStorage/runAsSuperUser/action"

// Identify makes an identity known and says what it may do with blobs: actions as in [right]. Its assertion, which is its name, is
// taken for a token of the blob service. Nothing permitted makes it one that may do nothing.
func (s *Shim) Identify(name string, actions ...string) {
	s.identitiesMu.Lock()
	defer s.identitiesMu.Unlock()
	s.identities[name] = actions
}

// identity is the name of whose token it is. Those of this service are made by [Shim.authority].
func (s *Shim) identity(token string) (actions []string, known bool) {
	s.identitiesMu.Lock()
	defer s.identitiesMu.Unlock()
	name, ours := strings.CutPrefix(token, identityToken)
	actions, known = s.identities[name]
	return actions, ours && known
}

const identityToken = "of-the-identity-"

// TokenOf is the token of an identity.
func TokenOf(name string) Token { return Token(identityToken + name) }

// authenticate says why a request must not be answered; nil: it may.
func (s *Shim) authenticate(r *http.Request, t target, need right) *problem {
	query := r.URL.Query()
	header := r.Header.Get("Authorization")
	switch {
	case strings.HasPrefix(header, "SharedKey "):
		return s.sharedKey(r, header)
	case strings.HasPrefix(header, "Bearer "):
		if s.opts.Token != "" && header == "Bearer "+s.opts.Token {
			return nil
		}
		actions, known := s.identity(strings.TrimPrefix(header, "Bearer "))
		if !known {
			return &problem{http.StatusUnauthorized, "InvalidAuthenticationInfo", ""}
		}
		for _, action := range need.actions {
			if !slices.Contains(actions, action) {
				return &problem{http.StatusForbidden, "AuthorizationPermissionMismatch", ""}
			}
		}
		return nil
	case query.Has("sig"):
		return s.signature(query, t, need)
	}
	return &problem{http.StatusUnauthorized, "NoAuthenticationInformation", ""}
}

// sharedKey checks the signature of a request [sharedkey].
func (s *Shim) sharedKey(r *http.Request, header string) *problem {
	account, got, _ := strings.Cut(strings.TrimPrefix(header, "SharedKey "), ":")
	date := r.Header.Get("x-ms-date")
	at, err := http.ParseTime(date)
	if now := time.Now().Add(s.clockError()); err != nil || now.Sub(at).Abs() > maxSkew {
		return unauthenticated("Request date header too old: '%s'", date)
	}
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(stringToSign(r, s.opts.Account)))
	if account != s.opts.Account || got != base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
		return unauthenticated("The MAC signature found in the HTTP request '%s' is not the same as any computed signature.", got)
	}
	return nil
}

func stringToSign(r *http.Request, account string) string {
	length := r.Header.Get("Content-Length")
	if r.ContentLength > 0 {
		length = fmt.Sprint(r.ContentLength)
	}
	if length == "0" {
		length = ""
	}
	lines := []string{r.Method, r.Header.Get("Content-Encoding"), r.Header.Get("Content-Language"), length,
		r.Header.Get("Content-MD5"), r.Header.Get("Content-Type"), "",
		r.Header.Get("If-Modified-Since"), r.Header.Get("If-Match"), r.Header.Get("If-None-Match"), r.Header.Get("If-Unmodified-Since"), r.Header.Get("Range")}
	var names []string
	for name := range r.Header {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-ms-") {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { // hyphens weigh nothing
		return strings.Compare(strings.ReplaceAll(a, "-", ""), strings.ReplaceAll(b, "-", ""))
	})
	for _, name := range names {
		lines = append(lines, name+":"+strings.Join(r.Header.Values(name), ","))
	}
	resource := "/" + account + r.URL.EscapedPath()
	query := r.URL.Query()
	var params []string
	for name := range query {
		params = append(params, name)
	}
	slices.Sort(params)
	for _, name := range params {
		values := slices.Sorted(slices.Values(query[name]))
		resource += "\n" + strings.ToLower(name) + ":" + strings.Join(values, ",")
	}
	return strings.Join(append(lines, resource), "\n")
}

// signature checks a SAS of the account, of a container or of a blob by signing the same again.
func (s *Shim) signature(query url.Values, t target, need right) *problem {
	p := sas.NewQueryParameters(query, false)
	now := s.Now()
	if now.After(p.ExpiryTime()) || !p.StartTime().IsZero() && now.Before(p.StartTime()) {
		return unauthenticated("Signature not valid in the specified time frame: Start [%s] - Expiry [%s] - Current [%s]",
			p.StartTime().Format(http.TimeFormat), p.ExpiryTime().Format(http.TimeFormat), now.Format(http.TimeFormat))
	}
	var again sas.QueryParameters
	var err error
	if p.Services() != "" || p.ResourceTypes() != "" {
		again, err = sas.AccountSignatureValues{Version: p.Version(), Protocol: p.Protocol(), StartTime: p.StartTime(), ExpiryTime: p.ExpiryTime(),
			Permissions: p.Permissions(), ResourceTypes: p.ResourceTypes()}.SignWithSharedKey(s.cred)
	} else {
		if t.blob == "" && !strings.HasPrefix(need.letters, "l") { // only a SAS of the account reaches the container itself
			return &problem{http.StatusForbidden, "AuthorizationResourceTypeMismatch", ""}
		}
		values := sas.BlobSignatureValues{Version: p.Version(), Protocol: p.Protocol(), StartTime: p.StartTime(), ExpiryTime: p.ExpiryTime(),
			Permissions: p.Permissions(), ContainerName: t.container}
		if p.Resource() == "b" {
			values.BlobName = t.blob
		}
		again, err = values.SignWithSharedKey(s.cred)
	}
	if err != nil || again.Signature() != p.Signature() {
		return unauthenticated("Signature did not match.")
	}
	if p.ResourceTypes() != "" && !strings.ContainsRune(p.ResourceTypes(), need.resource) {
		return &problem{http.StatusForbidden, "AuthorizationResourceTypeMismatch", ""}
	}
	for _, letter := range need.letters {
		if !strings.ContainsRune(p.Permissions(), letter) {
			return &problem{http.StatusForbidden, "AuthorizationPermissionMismatch", ""}
		}
	}
	return nil
}
