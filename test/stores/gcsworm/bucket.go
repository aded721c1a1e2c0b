package gcsworm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// bucket is what is known of one. The fake has one of the same name that keeps all versions,
// so that every generation's bytes can be had; which of them exist is decided here.
type bucket struct {
	name           string
	project        string
	metageneration int64
	created        time.Time
	versioned      bool
	defaultHold    bool // new objects get an event-based hold
	objectLock     bool // single objects can be retained
	period         time.Duration
	effective      time.Time // of the policy
	locked         bool      // the policy
	other          fields    // what is only kept: labels, lifecycle, softDeletePolicy

	objects map[string][]*version // oldest first; never an empty slice
}

// The bounds of a period, page "Bucket Lock".
const (
	minPeriod = time.Second
	maxPeriod = 3_155_760_000 * time.Second
)

func (s *Shim) serveBuckets(w http.ResponseWriter, r *http.Request, body []byte) {
	if r.Method != http.MethodPost {
		// Page "Buckets: list": those of one project, whose names begin with the prefix.
		q := r.URL.Query()
		s.mu.Lock()
		var items []fields
		for _, b := range s.buckets {
			if b.project == q.Get("project") && strings.HasPrefix(b.name, q.Get("prefix")) {
				items = append(items, b.describe())
			}
		}
		s.mu.Unlock()
		s.answer(w, fields{"kind": "storage#buckets", "items": items})
		return
	}
	var req fields
	if json.Unmarshal(body, &req) != nil {
		s.refuse(w, invalid("Parse Error"))
		return
	}
	s.mu.Lock()
	made, refused := s.createBucket(req, r.URL.Query().Get("project"), r.URL.Query().Get("enableObjectRetention") == "true")
	s.mu.Unlock()
	s.reply(w, made, refused)
}

func (s *Shim) createBucket(req fields, project string, objectLock bool) (fields, *fault) {
	name, _ := req["name"].(string)
	if name == "" {
		return nil, &fault{http.StatusBadRequest, "required", "Required"}
	}
	if project == "" {
		return nil, &fault{http.StatusBadRequest, "required", "Required parameter: project"}
	}
	// Page "HTTP status and error codes for JSON", 409 conflict: names are of all projects.
	if b := s.buckets[name]; b != nil && b.project != project {
		return nil, &fault{http.StatusConflict, "conflict", "The requested bucket name is not available. The bucket namespace is shared by all users of the system. Please select a different name and try again."}
	}
	if s.buckets[name] != nil {
		return nil, &fault{http.StatusConflict, "conflict", "Your previous request to create the named bucket succeeded and you already own it."}
	}
	b := &bucket{name: name, project: project, created: s.now(), objectLock: objectLock, other: fields{}, objects: map[string][]*version{}}
	if refused := b.set(req, s.now()); refused != nil {
		return nil, refused
	}
	payload, _ := json.Marshal(fields{"name": name, "versioning": fields{"enabled": true}})
	if err := s.toFake(http.MethodPost, "/storage/v1/b?project=test", "application/json", bytes.NewReader(payload), nil); err != nil {
		return nil, err
	}
	s.buckets[name] = b
	return b.describe(), nil
}

func (s *Shim) serveBucket(w http.ResponseWriter, r *http.Request, name string, body []byte) {
	s.mu.Lock()
	result, refused := s.bucketMethod(r, name, body)
	s.mu.Unlock()
	s.reply(w, result, refused)
}

func (s *Shim) bucketMethod(r *http.Request, name string, body []byte) (fields, *fault) {
	b := s.buckets[name]
	if b == nil {
		return nil, noBucket()
	}
	if refused := metaCondition(r.URL.Query(), b.metageneration); refused != nil {
		return nil, refused
	}
	switch r.Method {
	case http.MethodGet:
		return b.describe(), nil
	case http.MethodPatch:
		var req fields
		if json.Unmarshal(body, &req) != nil {
			return nil, invalid("Parse Error")
		}
		if refused := b.set(req, s.now()); refused != nil {
			return nil, refused
		}
		return b.describe(), nil
	case http.MethodDelete:
		// Page "Bucket Lock": a bucket with a locked policy can be deleted when it is empty.
		if len(b.objects) > 0 {
			return nil, &fault{http.StatusConflict, "conflict", "The bucket you tried to delete is not empty."}
		}
		delete(s.buckets, name)
		return nil, s.toFake(http.MethodDelete, "/storage/v1/b/"+url.PathEscape(name), "", nil, nil)
	}
	return nil, invalid("method not supported")
}

// set applies a creation or a patch. Page "Bucket Lock": the period can always become longer;
// shorter, or nothing at all, only while the policy is not locked.
func (b *bucket) set(req fields, now time.Time) *fault {
	if v, given := req["retentionPolicy"]; given {
		period, err := periodOf(v)
		switch {
		case err != nil:
			return invalid(err.Error())
		case b.locked && period < b.period:
			return forbidden(fmt.Sprintf("Cannot reduce retention duration of a locked Retention Policy for bucket '%s'.", b.name))
		case period != b.period:
			b.period, b.effective = period, now
		}
	}
	if v, ok := req["defaultEventBasedHold"].(bool); ok {
		b.defaultHold = v
	}
	if v, ok := req["versioning"].(fields); ok {
		b.versioned, _ = v["enabled"].(bool)
	}
	for _, name := range []string{"labels", "lifecycle", "softDeletePolicy", "iamConfiguration"} {
		if v, ok := req[name]; ok {
			b.other[name] = v
		}
	}
	b.metageneration++
	return nil
}

// periodOf reads a policy; null is none.
func periodOf(v any) (time.Duration, error) {
	policy, ok := v.(fields)
	if !ok {
		return 0, nil
	}
	seconds, err := strconv.ParseInt(strings.Trim(fmt.Sprint(policy["retentionPeriod"]), `"`), 10, 64)
	period := time.Duration(seconds) * time.Second
	if err != nil || period < minPeriod || seconds > int64(maxPeriod/time.Second) {
		return 0, fmt.Errorf("Retention duration must be between %d and %d seconds.", int64(minPeriod/time.Second), int64(maxPeriod/time.Second))
	}
	return period, nil
}

// serveLockPolicy locks the policy for ever. Page "Bucket Lock", and the reference of the
// method: the condition is mandatory.
func (s *Shim) serveLockPolicy(w http.ResponseWriter, r *http.Request, name string) {
	s.mu.Lock()
	result, refused := func() (fields, *fault) {
		b := s.buckets[name]
		switch {
		case b == nil:
			return nil, noBucket()
		case r.URL.Query().Get("ifMetagenerationMatch") == "":
			return nil, &fault{http.StatusBadRequest, "required", "Required parameter: ifMetagenerationMatch"}
		}
		if refused := metaCondition(r.URL.Query(), b.metageneration); refused != nil {
			return nil, refused
		}
		if b.period == 0 {
			return nil, invalid("Bucket is missing retention policy.")
		}
		b.locked = true
		b.metageneration++
		return b.describe(), nil
	}()
	s.mu.Unlock()
	s.reply(w, result, refused)
}

// describe is the resource of the page "Buckets" of the JSON API.
func (b *bucket) describe() fields {
	m := fields{
		"kind": "storage#bucket", "id": b.name, "name": b.name, "location": "EUROPE-WEST1", "storageClass": "STANDARD",
		"timeCreated": stamp(b.created), "updated": stamp(b.created), "metageneration": strconv.FormatInt(b.metageneration, 10),
		"defaultEventBasedHold": b.defaultHold, "versioning": fields{"enabled": b.versioned},
	}
	for name, v := range b.other {
		m[name] = v
	}
	if b.period > 0 {
		policy := fields{"retentionPeriod": strconv.FormatInt(int64(b.period/time.Second), 10), "effectiveTime": stamp(b.effective)}
		if b.locked {
			policy["isLocked"] = true
		}
		m["retentionPolicy"] = policy
	}
	if b.objectLock {
		m["objectRetention"] = fields{"mode": "Enabled"}
	}
	return m
}

// stamp is a time as the API writes it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// page is how many objects one answer to a listing has at most.
const page = 1000

// serveList serves the listing of objects. Page "Objects: list": names in the order of their
// bytes; with versions also noncurrent ones, in the order of their generations.
func (s *Shim) serveList(w http.ResponseWriter, r *http.Request, name string) {
	s.mu.Lock()
	result, refused := s.list(r.URL.Query(), name)
	s.mu.Unlock()
	s.reply(w, result, refused)
}

func (s *Shim) list(q url.Values, name string) (fields, *fault) {
	b := s.buckets[name]
	if b == nil {
		return nil, noBucket()
	}
	limit := page
	if n, err := strconv.Atoi(q.Get("maxResults")); err == nil && n > 0 {
		limit = min(n, page)
	}
	after, afterGeneration := parsePageToken(q.Get("pageToken"))
	var keys []string
	for key := range b.objects {
		if strings.HasPrefix(key, q.Get("prefix")) && key >= q.Get("startOffset") && (q.Get("endOffset") == "" || key < q.Get("endOffset")) && key >= after {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	result := fields{"kind": "storage#objects"}
	var items []fields
	for _, key := range keys {
		for _, v := range b.objects[key] {
			if !v.live() && q.Get("versions") != "true" || key == after && v.generation <= afterGeneration {
				continue
			}
			if len(items) == limit {
				last := items[limit-1]
				result["nextPageToken"] = pageToken(last["name"].(string), last["generation"].(string))
				result["items"] = items
				return result, nil
			}
			items = append(items, s.describe(b, v))
		}
	}
	result["items"] = items
	return result, nil
}

// A page token is where the page before ended.
func pageToken(key, generation string) string {
	return strconv.Itoa(len(generation)) + "." + generation + key
}

func parsePageToken(token string) (key string, generation int64) {
	length, rest, ok := strings.Cut(token, ".")
	n, err := strconv.Atoi(length)
	if !ok || err != nil || n > len(rest) || n < 0 {
		return "", 0
	}
	generation, _ = strconv.ParseInt(rest[:n], 10, 64)
	return rest[n:], generation
}

// toFake asks the fake-gcs-server and decodes its answer into result, if that is not nil.
func (s *Shim) toFake(method, path, contentType string, body io.Reader, result any) *fault {
	broken := func(why any) *fault {
		return &fault{http.StatusInternalServerError, "internalError", fmt.Sprintf("fake-gcs-server: %s %s: %v", method, path, why)}
	}
	req, err := http.NewRequest(method, s.target+path, body)
	if err != nil {
		return broken(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return broken(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return broken(err)
	}
	if resp.StatusCode/100 != 2 {
		return broken(fmt.Sprintf("%s: %s", resp.Status, answer))
	}
	if result != nil {
		if err := json.Unmarshal(answer, result); err != nil {
			return broken(err)
		}
	}
	return nil
}
