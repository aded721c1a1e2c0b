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
	needed := needs(r)
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
	if within && (slices.Contains(permitted, "*") || slices.Contains(permitted, needed)) {
		return nil
	}
	return forbidden(fmt.Sprintf("%s does not have %s access to the Google Cloud Storage object. Permission '%s' denied on resource (or it may not exist).", t.email, needed, needed))
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

// needs is the permission of a request, page "IAM permissions for JSON methods".
func needs(r *http.Request) string {
	path := r.URL.EscapedPath()
	rest := strings.Trim(strings.TrimPrefix(path, "/storage/v1/b"), "/")
	_, rest, _ = strings.Cut(rest, "/")
	switch {
	case strings.HasPrefix(path, "/upload/"), strings.Contains(rest, "/rewriteTo/"), strings.HasSuffix(rest, "/compose"):
		return "storage.objects.create"
	case rest == "o":
		return "storage.objects.list"
	case strings.HasPrefix(rest, "o/"):
		return "storage.objects." + map[string]string{http.MethodGet: "get", http.MethodPatch: "update", http.MethodDelete: "delete"}[r.Method]
	case path == "/storage/v1/b" && r.Method == http.MethodGet:
		return "storage.buckets.list"
	case r.Method == http.MethodGet:
		return "storage.buckets.get"
	case r.Method == http.MethodDelete:
		return "storage.buckets.delete"
	case path == "/storage/v1/b" && r.Method == http.MethodPost:
		return "storage.buckets.create"
	}
	return "storage.buckets.update"
}
