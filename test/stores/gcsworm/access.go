package gcsworm

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// access is who may do what. Until the first identity is made known everybody may do
// everything without a token.
type access struct {
	mu          sync.Mutex
	permissions map[string][]string // by the identity's email; "*" is all
	confined    map[string]string   // to the objects below a prefix
	tokens      map[string]token
}

type token struct {
	email string
	ends  time.Time
}

// tokenLife is how long an access token counts.
const tokenLife = time.Hour

// Identify makes a service account known and says what it may do: names like
// storage.objects.create, or * for everything. From now on nobody is served without a token;
// those are had at /_worm/token. Nothing permitted makes it unknown again.
func (s *Shim) Identify(email string, permissions ...string) {
	a := &s.access
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.permissions == nil {
		a.permissions, a.confined, a.tokens = map[string][]string{}, map[string]string{}, map[string]token{}
	}
	a.permissions[email] = permissions
}

// Confine lets what an identity may do to objects count below a prefix only. Page "Overview of IAM Conditions": by
// resource.name.startsWith("projects/_/buckets/BUCKET/objects/PREFIX"), which listings, being of the bucket, are not about.
func (s *Shim) Confine(email, prefix string) {
	s.access.mu.Lock()
	defer s.access.mu.Unlock()
	s.access.confined[email] = prefix
}

// Revoke makes all tokens invalid that were issued.
func (s *Shim) Revoke() {
	s.access.mu.Lock()
	defer s.access.mu.Unlock()
	clear(s.access.tokens)
}

// serveToken issues an access token for the assertion of a service account (page "Using OAuth
// 2.0 for Server to Server Applications"). Its signature is not verified: the account is
// believed to be who it says it is.
func (s *Shim) serveToken(w http.ResponseWriter, r *http.Request) {
	email := issuer(r.FormValue("assertion"))
	now := s.Now()
	a := &s.access
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.permissions[email]) == 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(fields{"error": "invalid_grant", "error_description": "Invalid grant: account not found"}) // who asked is gone
		return
	}
	name := "token-" + rand.Text()
	a.tokens[name] = token{email, now.Add(tokenLife)}
	s.access.answer(w, name)
}

func (*access) answer(w http.ResponseWriter, name string) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(fields{"access_token": name, "token_type": "Bearer", "expires_in": int(tokenLife / time.Second)}) // who asked is gone
}

// issuer is who made an assertion.
func issuer(assertion string) string {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return ""
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		Iss string `json:"iss"`
	}
	if json.Unmarshal(text, &claims) != nil {
		return ""
	}
	return claims.Iss
}

// check refuses a request without a valid token (401) or permission (403).
func (a *access) check(r *http.Request, now time.Time) *fault {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.permissions == nil {
		return nil
	}
	required := needs(r)
	needed := required[0]
	name, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		return &fault{http.StatusUnauthorized, "required", "Anonymous caller does not have " + needed + " access to the Google Cloud Storage bucket."}
	}
	t, known := a.tokens[name]
	if !known || !now.Before(t.ends) {
		return &fault{http.StatusUnauthorized, "authError", "Invalid Credentials"}
	}
	permitted := a.permissions[t.email]
	within := true
	for _, object := range objects(r) {
		within = within && strings.HasPrefix(object, a.confined[t.email])
	}
	for _, needed := range required {
		if !within || !slices.Contains(permitted, "*") && !slices.Contains(permitted, needed) {
			return denied(t.email, needed)
		}
	}
	return nil
}

func denied(email, needed string) *fault {
	return forbidden(fmt.Sprintf("%s does not have %s access to the Google Cloud Storage object. Permission '%s' denied on resource (or it may not exist).", email, needed, needed))
}

// permit refuses what who made a request has no permission for, beyond what the kind of request needs: that depends on what
// there is, and on what the request asks for.
type permit func(permission string) *fault

func (a *access) permit(r *http.Request) permit {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	return func(permission string) *fault {
		a.mu.Lock()
		defer a.mu.Unlock()
		permitted := a.permissions[t.email]
		if a.permissions == nil || slices.Contains(permitted, "*") || slices.Contains(permitted, permission) {
			return nil
		}
		return denied(t.email, permission)
	}
}

// objects are the names that a request is about. The parts of an upload that was begun name none.
func objects(r *http.Request) []string {
	path := r.URL.EscapedPath()
	if strings.HasPrefix(path, "/upload/") {
		if q := r.URL.Query(); !q.Has("upload_id") {
			return []string{q.Get("name")}
		}
		return nil
	}
	_, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(path, "/download"), "/storage/v1/b/"), "/")
	from, about := strings.CutPrefix(rest, "o/")
	if !about {
		return nil
	}
	from, to, copies := strings.Cut(from, "/rewriteTo/")
	names := []string{unescape(strings.TrimSuffix(from, "/compose"))}
	if copies {
		_, to, _ = strings.Cut(to, "/o/")
		names = append(names, unescape(to))
	}
	return names
}

// needs are the permissions that a kind of request always takes, page "IAM permissions for JSON methods". Whoever replaces an object
// needs storage.objects.delete as well, and who asks for a retention storage.objects.setRetention, see [permit].
func needs(r *http.Request) []string {
	path := r.URL.EscapedPath()
	rest := strings.Trim(strings.TrimPrefix(path, "/storage/v1/b"), "/")
	_, rest, _ = strings.Cut(rest, "/")
	switch {
	case strings.Contains(rest, "/rewriteTo/"), strings.HasSuffix(rest, "/compose"):
		return []string{"storage.objects.create", "storage.objects.get"}
	case strings.HasPrefix(path, "/upload/"):
		return []string{"storage.objects.create"}
	case rest == "o":
		return []string{"storage.objects.list"}
	case strings.HasPrefix(rest, "o/"):
		return []string{"storage.objects." + map[string]string{http.MethodGet: "get", http.MethodPatch: "update", http.MethodDelete: "delete"}[r.Method]}
	case path == "/storage/v1/b" && r.Method == http.MethodGet:
		return []string{"storage.buckets.list"}
	case r.Method == http.MethodGet:
		return []string{"storage.buckets.get"}
	case r.Method == http.MethodDelete:
		return []string{"storage.buckets.delete"}
	case path == "/storage/v1/b" && r.Method == http.MethodPost:
		return []string{"storage.buckets.create"}
	}
	return []string{"storage.buckets.update"}
}
