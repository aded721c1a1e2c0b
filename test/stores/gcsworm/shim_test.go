package gcsworm_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"druid.internal/druid/test/stores"
)

// world is a server and what a test asks it.
type world struct {
	*testing.T
	*stores.GCS
	client *http.Client
	bucket string
}

var buckets atomic.Int64

func newWorld(t *testing.T, g *stores.GCS, b stores.GCSBucket) world {
	t.Helper()
	w := world{T: t, GCS: g, bucket: fmt.Sprintf("bucket-%d", buckets.Add(1)),
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: g.CA.ClientTLS()}}}
	if err := g.CreateBucket(t.Context(), w.bucket, b); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.CloseIdleConnections)
	return w
}

// answer is a status, the reason of a refusal, and the body.
type answer struct {
	status int
	reason string
	body   map[string]any
	header http.Header
}

// ask makes a request; headers are pairs.
func (w world) ask(method, path string, body []byte, headers ...string) answer {
	w.Helper()
	if !strings.HasPrefix(path, "https://") {
		path = w.Endpoint + path
	}
	req, err := http.NewRequestWithContext(w.Context(), method, path, bytes.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := w.client.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header}
	if json.Unmarshal(text, &a.body) != nil {
		a.body = map[string]any{"text": string(text)}
	}
	if e, ok := a.body["error"].(map[string]any); ok {
		a.reason = e["errors"].([]any)[0].(map[string]any)["reason"].(string)
	}
	return a
}

func (w world) path(key, query string) string {
	return "/storage/v1/b/" + w.bucket + "/o/" + url.PathEscape(key) + "?" + query
}

// insert writes an object by one request; q are further parameters.
func (w world) insert(key, body, q string) answer {
	w.Helper()
	return w.ask(http.MethodPost, "/upload/storage/v1/b/"+w.bucket+"/o?uploadType=media&name="+url.QueryEscape(key)+"&"+q, []byte(body))
}

func (w world) patch(key, q string, change any) answer {
	w.Helper()
	b, err := json.Marshal(change)
	if err != nil {
		w.Fatal(err)
	}
	return w.ask(http.MethodPatch, w.path(key, q), b)
}

func (w world) patchBucket(q string, change any) answer {
	w.Helper()
	b, err := json.Marshal(change)
	if err != nil {
		w.Fatal(err)
	}
	return w.ask(http.MethodPatch, "/storage/v1/b/"+w.bucket+"?"+q, b)
}

func (w world) want(what string, a answer, status int, reason string) answer {
	w.Helper()
	if a.status != status || a.reason != reason {
		w.Errorf("%s: %d %s %v, want %d %s", what, a.status, a.reason, a.body, status, reason)
	}
	return a
}

type object = map[string]any

func retention(mode string, until time.Time) object {
	return object{"retention": object{"mode": mode, "retainUntilTime": until.Format(time.RFC3339)}}
}

const (
	met  = "retentionPolicyNotMet"
	hold = "objectUnderActiveHold"
)

// The rules of the pages "Bucket Lock", "Object Retention Lock", "Object holds", "Object
// Versioning" and "Request preconditions", one test each.
func TestTheRules(t *testing.T) {
	g := stores.RunGCS(t)
	rules := map[string]struct {
		bucket stores.GCSBucket
		rule   func(w world)
	}{
		"a policy protects until the object is old enough": {stores.GCSBucket{Policy: time.Hour}, func(w world) {
			made := w.want("insert", w.insert("k", "x", ""), 200, "")
			w.want("delete", w.ask(http.MethodDelete, w.path("k", ""), nil), 403, met)
			w.want("delete the generation", w.ask(http.MethodDelete, w.path("k", "generation="+made.body["generation"].(string)), nil), 403, met)
			w.want("replace", w.insert("k", "y", ""), 403, met)
			w.Shim.Advance(time.Hour)
			w.want("replace when it is old", w.insert("k", "y", ""), 200, "")
			w.Shim.Advance(time.Hour)
			w.want("delete when it is old", w.ask(http.MethodDelete, w.path("k", ""), nil), 204, "")
		}},
		"a policy counts for what was there before": {stores.GCSBucket{}, func(w world) {
			w.insert("k", "x", "")
			w.want("set", w.patchBucket("", object{"retentionPolicy": object{"retentionPeriod": "3600"}}), 200, "")
			w.want("delete", w.ask(http.MethodDelete, w.path("k", ""), nil), 403, met)
			w.want("remove", w.patchBucket("", object{"retentionPolicy": nil}), 200, "")
			w.want("delete without it", w.ask(http.MethodDelete, w.path("k", ""), nil), 204, "")
		}},
		"a locked policy only becomes longer": {stores.GCSBucket{Policy: time.Hour}, func(w world) {
			lock := "/storage/v1/b/" + w.bucket + "/lockRetentionPolicy"
			w.want("lock without a condition", w.ask(http.MethodPost, lock, nil), 400, "required")
			w.want("lock another state", w.ask(http.MethodPost, lock+"?ifMetagenerationMatch=7", nil), 412, "conditionNotMet")
			w.want("shorten while it is not locked", w.patchBucket("", object{"retentionPolicy": object{"retentionPeriod": "1800"}}), 200, "")
			locked := w.want("lock", w.ask(http.MethodPost, lock+"?ifMetagenerationMatch=2", nil), 200, "")
			if locked.body["retentionPolicy"].(object)["isLocked"] != true {
				w.Errorf("the policy is %v", locked.body)
			}
			w.want("shorten", w.patchBucket("", object{"retentionPolicy": object{"retentionPeriod": "60"}}), 403, "forbidden")
			w.want("remove", w.patchBucket("", object{"retentionPolicy": nil}), 403, "forbidden")
			w.want("lengthen", w.patchBucket("", object{"retentionPolicy": object{"retentionPeriod": "7200"}}), 200, "")
		}},
		"a policy has bounds, and a lock needs one": {stores.GCSBucket{}, func(w world) {
			for _, seconds := range []string{"0", "3155760001", "x"} {
				w.want("a period of "+seconds, w.patchBucket("", object{"retentionPolicy": object{"retentionPeriod": seconds}}), 400, "invalid")
			}
			w.want("lock nothing", w.ask(http.MethodPost, "/storage/v1/b/"+w.bucket+"/lockRetentionPolicy?ifMetagenerationMatch=1", nil), 400, "invalid")
		}},
		"a policy keeps versions from becoming noncurrent": {stores.GCSBucket{Policy: time.Hour, Versioned: true}, func(w world) {
			w.insert("k", "x", "")
			w.want("hide", w.ask(http.MethodDelete, w.path("k", ""), nil), 403, met)
			w.want("overwrite", w.insert("k", "y", ""), 403, met)
		}},
		"an object's own retention needs a bucket that has it": {stores.GCSBucket{}, func(w world) {
			w.insert("k", "x", "")
			w.want("retain", w.patch("k", "", retention("Locked", w.Shim.Now().Add(time.Hour))), 400, "invalid")
		}},
		"a locked retention of its own only becomes longer": {stores.GCSBucket{ObjectLock: true}, func(w world) {
			w.insert("k", "x", "")
			end := w.Shim.Now().Add(time.Hour).Truncate(time.Second)
			w.want("in the past", w.patch("k", "", retention("Locked", w.Shim.Now().Add(-time.Hour))), 400, "invalid")
			w.want("of no mode", w.patch("k", "", retention("Firm", end)), 400, "invalid")
			w.want("retain", w.patch("k", "", retention("Locked", end)), 200, "")
			for what, change := range map[string]any{"shorten": retention("Locked", end.Add(-time.Minute)), "unlock": retention("Unlocked", end.Add(time.Hour)), "remove": object{"retention": nil}} {
				w.want(what, w.patch("k", "overrideUnlockedRetention=true", change), 403, "forbidden")
			}
			w.want("lengthen", w.patch("k", "", retention("Locked", end.Add(time.Hour))), 200, "")
			w.Shim.Advance(time.Hour + time.Minute)
			w.want("delete", w.ask(http.MethodDelete, w.path("k", ""), nil), 403, met)
			w.Shim.Advance(time.Hour)
			w.want("delete when it has ended", w.ask(http.MethodDelete, w.path("k", ""), nil), 204, "")
		}},
		"an unlocked retention becomes less by an override": {stores.GCSBucket{ObjectLock: true}, func(w world) {
			w.insert("k", "x", "")
			end := w.Shim.Now().Add(time.Hour)
			w.want("retain", w.patch("k", "", retention("Unlocked", end)), 200, "")
			w.want("lengthen", w.patch("k", "", retention("Unlocked", end.Add(time.Hour))), 200, "")
			w.want("replace", w.insert("k", "y", ""), 403, met)
			for what, change := range map[string]any{"shorten": retention("Unlocked", end), "lock": retention("Locked", end.Add(2*time.Hour)), "remove": object{"retention": nil}} {
				w.want(what, w.patch("k", "", change), 403, "forbidden")
			}
			w.want("remove by an override", w.patch("k", "overrideUnlockedRetention=true", object{"retention": nil}), 200, "")
			w.want("delete", w.ask(http.MethodDelete, w.path("k", ""), nil), 204, "")
		}},
		"what is retained can be made noncurrent, and stays": {stores.GCSBucket{ObjectLock: true, Versioned: true}, func(w world) {
			made := w.insert("k", "x", "")
			generation := "generation=" + made.body["generation"].(string)
			w.patch("k", "", retention("Locked", w.Shim.Now().Add(time.Hour)))
			w.want("hide", w.ask(http.MethodDelete, w.path("k", ""), nil), 204, "")
			w.want("the live one", w.ask(http.MethodGet, w.path("k", ""), nil), 404, "notFound")
			hidden := w.want("the noncurrent one", w.ask(http.MethodGet, w.path("k", generation), nil), 200, "")
			if hidden.body["timeDeleted"] == nil {
				w.Errorf("it is not told to be noncurrent: %v", hidden.body)
			}
			w.want("delete it", w.ask(http.MethodDelete, w.path("k", generation), nil), 403, met)
			if got := w.ask(http.MethodGet, w.path("k", "alt=media&"+generation), nil); got.body["text"] != "x" {
				w.Errorf("it holds %v", got.body)
			}
		}},
		"deleting a version promotes no other": {stores.GCSBucket{Versioned: true}, func(w world) {
			w.insert("k", "1", "")
			second := w.insert("k", "2", "")
			w.want("delete the live one", w.ask(http.MethodDelete, w.path("k", "generation="+second.body["generation"].(string)), nil), 204, "")
			w.want("the live one", w.ask(http.MethodGet, w.path("k", ""), nil), 404, "notFound")
			w.want("write again", w.insert("k", "3", "ifGenerationMatch=0"), 200, "")
			all := w.ask(http.MethodGet, "/storage/v1/b/"+w.bucket+"/o?versions=true", nil).body["items"].([]any)
			if len(all) != 2 || all[0].(object)["timeDeleted"] == nil || all[1].(object)["timeDeleted"] != nil {
				w.Errorf("the versions are %v", all)
			}
		}},
		"a hold protects until it is released": {stores.GCSBucket{Versioned: true}, func(w world) {
			for _, kind := range []string{"temporaryHold", "eventBasedHold"} {
				w.insert(kind, "x", "")
				w.want("hold", w.patch(kind, "", object{kind: true}), 200, "")
				w.want("hide", w.ask(http.MethodDelete, w.path(kind, ""), nil), 403, hold)
				w.want("overwrite", w.insert(kind, "y", ""), 403, hold)
				w.want("edit", w.patch(kind, "", object{"metadata": object{"a": "b"}}), 200, "")
				w.want("release", w.patch(kind, "", object{kind: false}), 200, "")
				w.want("hide", w.ask(http.MethodDelete, w.path(kind, ""), nil), 204, "")
			}
		}},
		"an event-based hold and a retention exclude each other": {stores.GCSBucket{ObjectLock: true}, func(w world) {
			w.insert("k", "x", "")
			w.patch("k", "", object{"eventBasedHold": true})
			w.want("retain", w.patch("k", "", retention("Unlocked", w.Shim.Now().Add(time.Hour))), 400, "invalid")
			w.insert("l", "x", "")
			w.patch("l", "", retention("Unlocked", w.Shim.Now().Add(time.Hour)))
			w.want("hold", w.patch("l", "", object{"eventBasedHold": true}), 400, "invalid")
			w.want("hold for a time", w.patch("l", "", object{"temporaryHold": true}), 200, "")
		}},
		"the end is not told under an event-based hold, and is a period after it": {stores.GCSBucket{Policy: time.Hour, DefaultHold: true}, func(w world) {
			made := w.insert("k", "x", "")
			if made.body["eventBasedHold"] != true || made.body["retentionExpirationTime"] != nil {
				w.Errorf("it is made as %v", made.body)
			}
			w.Shim.Advance(10 * time.Hour)
			released := w.patch("k", "", object{"eventBasedHold": false, "temporaryHold": true})
			end, err := time.Parse(time.RFC3339, fmt.Sprint(released.body["retentionExpirationTime"]))
			if left := end.Sub(w.Shim.Now()); err != nil || left < 59*time.Minute || left > time.Hour {
				w.Errorf("after the release it is %v", released.body)
			}
		}},
		"preconditions hold for reading, changing, deleting and writing": {stores.GCSBucket{}, func(w world) {
			made := w.want("make", w.insert("k", "x", "ifGenerationMatch=0"), 200, "")
			generation := made.body["generation"].(string)
			w.want("make again", w.insert("k", "y", "ifGenerationMatch=0"), 412, "conditionNotMet")
			w.want("replace another", w.insert("k", "y", "ifGenerationMatch=5"), 412, "conditionNotMet")
			w.want("edit another state", w.patch("k", "ifMetagenerationMatch=5", object{}), 412, "conditionNotMet")
			edited := w.want("edit", w.patch("k", "ifMetagenerationMatch=1", object{"metadata": object{"a": "1", "b": "2"}}), 200, "")
			if edited.body["generation"] != generation || edited.body["metageneration"] != "2" {
				w.Errorf("edited it is %v", edited.body)
			}
			merged := w.patch("k", "", object{"metadata": object{"a": nil, "c": "3"}})
			if got := fmt.Sprint(merged.body["metadata"]); got != "map[b:2 c:3]" {
				w.Errorf("the metadata are %s", got)
			}
			w.want("delete another state", w.ask(http.MethodDelete, w.path("k", "ifMetagenerationMatch=1"), nil), 412, "conditionNotMet")
			w.want("read what has not changed", w.ask(http.MethodGet, w.path("k", "ifGenerationNotMatch="+generation), nil), 304, "")
			w.want("delete", w.ask(http.MethodDelete, w.path("k", "ifMetagenerationMatch=3&generation="+generation), nil), 204, "")
		}},
		"a checksum that does not fit leaves nothing": {stores.GCSBucket{}, func(w world) {
			path := "/upload/storage/v1/b/" + w.bucket + "/o?uploadType=media&name=k"
			w.want("a wrong one", w.ask(http.MethodPost, path, []byte("x"), "X-Goog-Hash", "crc32c=AAAAAA=="), 400, "invalid")
			w.want("nothing is there", w.ask(http.MethodGet, w.path("k", ""), nil), 404, "notFound")
			sum := crc32.Checksum([]byte("x"), crc32.MakeTable(crc32.Castagnoli))
			right := base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
			w.want("the right one", w.ask(http.MethodPost, path, []byte("x"), "X-Goog-Hash", "crc32c="+right), 200, "")
		}},
		"what is missing is named": {stores.GCSBucket{}, func(w world) {
			missing := w.want("an object", w.ask(http.MethodGet, w.path("k", ""), nil), 404, "notFound")
			if said := missing.body["error"].(object)["message"]; said != "No such object: "+w.bucket+"/k" {
				w.Errorf("it says %v", said)
			}
			none := w.want("a bucket", w.ask(http.MethodGet, "/storage/v1/b/nowhere/o", nil), 404, "notFound")
			if said := none.body["error"].(object)["message"]; said != "The specified bucket does not exist." {
				w.Errorf("it says %v", said)
			}
			w.insert("k", "x", "")
			w.want("a bucket that is not empty", w.ask(http.MethodDelete, "/storage/v1/b/"+w.bucket, nil), 409, "conflict")
		}},
		"all that is told is by one clock": {stores.GCSBucket{}, func(w world) {
			w.want("advance", w.ask(http.MethodPost, "/_worm/advance?d=1000h", nil), 200, "")
			made := w.insert("k", "x", "")
			created, err := time.Parse(time.RFC3339, fmt.Sprint(made.body["timeCreated"]))
			date, dateErr := http.ParseTime(made.header.Get("Date"))
			if err != nil || dateErr != nil || created.Sub(date).Abs() > 5*time.Second || time.Until(created) < 999*time.Hour {
				w.Errorf("created %v, Date %v", created, date)
			}
		}},
		"an upload goes on where it was": {stores.GCSBucket{}, aResumableUpload},
		"the page after a page":          {stores.GCSBucket{Versioned: true}, pages},
	}
	for name, r := range rules {
		t.Run(name, func(t *testing.T) { r.rule(newWorld(t, g, r.bucket)) })
	}
}

// aResumableUpload follows the page "Resumable uploads".
func aResumableUpload(w world) {
	const quantum = 256 << 10
	content := bytes.Repeat([]byte("0123456789abcdef"), 3*quantum/16)
	begin := func() string {
		a := w.want("begin", w.ask(http.MethodPost, "/upload/storage/v1/b/"+w.bucket+"/o?uploadType=resumable&name=k&ifGenerationMatch=0", nil), 200, "")
		return a.header.Get("Location")
	}
	send := func(session string, first, last int, total string) answer {
		return w.ask(http.MethodPut, session, content[first:last], "Content-Range", fmt.Sprintf("bytes %d-%d/%s", first, last-1, total))
	}
	wantHave := func(what string, a answer, have string) {
		w.Helper()
		if a.status != http.StatusPermanentRedirect || a.header.Get("Range") != have {
			w.Errorf("%s: %d with %q, want %q", what, a.status, a.header.Get("Range"), have)
		}
	}
	session := begin()
	wantHave("at the beginning", w.ask(http.MethodPut, session, nil, "Content-Range", "bytes */*"), "")
	wantHave("one chunk", send(session, 0, quantum, "*"), "bytes=0-262143")
	w.want("a gap", send(session, 2*quantum, 3*quantum, "*"), 400, "invalid")
	w.want("a chunk of an odd size", send(session, quantum, quantum+1, "*"), 400, "invalid")
	wantHave("the same again, and more", send(session, 0, 2*quantum, "*"), "bytes=0-524287")
	wantHave("what is there", w.ask(http.MethodPut, session, nil, "Content-Range", "bytes */*"), "bytes=0-524287")
	made := w.want("the end", send(session, 2*quantum, 3*quantum, fmt.Sprint(3*quantum)), 200, "")
	again := w.want("the end again", send(session, 2*quantum, 3*quantum, fmt.Sprint(3*quantum)), 200, "")
	if made.body["size"] != fmt.Sprint(3*quantum) || again.body["generation"] != made.body["generation"] {
		w.Errorf("made %v, again %v", made.body, again.body)
	}
	if got := w.ask(http.MethodGet, w.path("k", "alt=media"), nil); got.body["text"] != string(content) {
		w.Error("the content differs")
	}
	w.want("begin what exists", w.ask(http.MethodPost, "/upload/storage/v1/b/"+w.bucket+"/o?uploadType=resumable&name=k&ifGenerationMatch=0", nil), 412, "conditionNotMet")

	w.ask(http.MethodDelete, w.path("k", ""), nil)
	session = begin()
	w.insert("k", "somebody else's", "")
	w.want("the end, when it exists", send(session, 0, quantum, fmt.Sprint(quantum)), 412, "conditionNotMet")
	w.ask(http.MethodDelete, w.path("k", ""), nil)
	session = begin()
	send(session, 0, quantum, "*")
	before := w.Shim.Uploads(w.bucket)
	w.want("cancel", w.ask(http.MethodDelete, session, nil), 499, "canceled")
	w.want("go on", send(session, quantum, 2*quantum, fmt.Sprint(2*quantum)), 499, "canceled")
	if w.Shim.Uploads(w.bucket) != before-1 {
		w.Errorf("%d uploads are under way, before %d", w.Shim.Uploads(w.bucket), before)
	}
	w.want("nothing is there", w.ask(http.MethodGet, w.path("k", ""), nil), 404, "notFound")
	session = begin()
	w.Shim.Advance(8 * 24 * time.Hour)
	w.want("after a week", send(session, 0, quantum, fmt.Sprint(quantum)), 410, "gone")
}

// pages follows the page "Objects: list".
func pages(w world) {
	for _, key := range []string{"a/2", "a/1", "a/1", "a/1", "b", "a-1", "a/10"} {
		w.insert(key, "x", "")
	}
	var got []string
	token := ""
	for range 20 {
		page := w.ask(http.MethodGet, "/storage/v1/b/"+w.bucket+"/o?versions=true&prefix=a/&maxResults=2&pageToken="+url.QueryEscape(token), nil)
		items, _ := page.body["items"].([]any)
		if len(items) > 2 {
			w.Fatalf("a page has %d objects", len(items))
		}
		for _, item := range items {
			o := item.(object)
			got = append(got, fmt.Sprint(o["name"], o["timeDeleted"] == nil))
		}
		next, more := page.body["nextPageToken"].(string)
		if !more {
			break
		}
		token = next
	}
	if want := "a/1false a/1false a/1true a/10true a/2true"; strings.Join(got, " ") != want {
		w.Errorf("the pages are %s, want %s", strings.Join(got, " "), want)
	}
}

func TestOnceIdentitiesAreKnownNobodyIsServedWithoutAToken(t *testing.T) {
	w := newWorld(t, stores.RunGCS(t), stores.GCSBucket{})
	w.insert("k", "x", "")
	w.insert("below/k", "x", "")
	w.Shim.Identify("reader@test", "storage.objects.get", "storage.objects.create", "storage.objects.list")
	assertion := func(email string) string {
		claims, _ := json.Marshal(object{"iss": email})
		return "assertion=" + url.QueryEscape("e30."+base64.RawURLEncoding.EncodeToString(claims)+".x")
	}
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	if a := w.ask(http.MethodPost, "/_worm/token", []byte(assertion("nobody@test")), form...); a.status != 400 || a.body["error"] != "invalid_grant" {
		t.Errorf("a token for nobody: %d %v", a.status, a.body)
	}
	token := "Bearer " + fmt.Sprint(w.ask(http.MethodPost, "/_worm/token", []byte(assertion("reader@test")), form...).body["access_token"])
	w.want("without a token", w.ask(http.MethodGet, w.path("k", ""), nil), 401, "required")
	w.want("with another", w.ask(http.MethodGet, w.path("k", ""), nil, "Authorization", "Bearer x"), 401, "authError")
	w.want("with it", w.ask(http.MethodGet, w.path("k", ""), nil, "Authorization", token), 200, "")
	w.want("what is not permitted", w.ask(http.MethodDelete, w.path("k", ""), nil, "Authorization", token), 403, "forbidden")
	w.Shim.Confine("reader@test", "below/")
	for key, status := range map[string]int{"k": 403, "below/k": 200} {
		reason := map[int]string{403: "forbidden"}[status]
		w.want("confined", w.ask(http.MethodGet, w.path(key, ""), nil, "Authorization", token), status, reason)
		w.want("confined, by a copy", w.ask(http.MethodPost, "/storage/v1/b/"+w.bucket+"/o/below%2Fk/rewriteTo/b/"+w.bucket+"/o/"+url.PathEscape(key+"2"), nil, "Authorization", token), status, reason)
		w.want("confined, by an upload", w.ask(http.MethodPost, "/upload/storage/v1/b/"+w.bucket+"/o?uploadType=media&name="+url.QueryEscape(key+"3"), []byte("x"), "Authorization", token), status, reason)
	}
	w.want("a listing is of the bucket", w.ask(http.MethodGet, "/storage/v1/b/"+w.bucket+"/o", nil, "Authorization", token), 200, "")
	w.Shim.Advance(61 * time.Minute)
	w.want("when it has ended", w.ask(http.MethodGet, w.path("k", ""), nil, "Authorization", token), 401, "authError")
}

// Page "IAM permissions for JSON methods", and what the reference of each method says of requests that ask for more.
func TestWhoReplacesOrLocksAnObjectNeedsMoreThanWhoMakesOne(t *testing.T) {
	w := newWorld(t, stores.RunGCS(t), stores.GCSBucket{ObjectLock: true})
	w.insert("k", "x", "")
	as := func(permissions ...string) []string {
		w.Shim.Identify("somebody@test", permissions...)
		claims, _ := json.Marshal(object{"iss": "somebody@test"})
		form := "assertion=" + url.QueryEscape("e30."+base64.RawURLEncoding.EncodeToString(claims)+".x")
		token := w.ask(http.MethodPost, "/_worm/token", []byte(form), "Content-Type", "application/x-www-form-urlencoded").body["access_token"]
		return []string{"Authorization", fmt.Sprint("Bearer ", token), "Content-Type", "application/json"}
	}
	upload := func(key, more string) string {
		return "/upload/storage/v1/b/" + w.bucket + "/o?uploadType=media&name=" + key + more
	}
	writer := as("storage.objects.create", "storage.objects.get")
	w.want("a new object", w.ask(http.MethodPost, upload("new", ""), []byte("x"), writer...), 200, "")
	w.want("one in the place of another", w.ask(http.MethodPost, upload("k", ""), []byte("y"), writer...), 403, "forbidden")
	w.want("one if there is none", w.ask(http.MethodPost, upload("k", "&ifGenerationMatch=0"), []byte("y"), writer...), 412, "conditionNotMet")
	w.want("an upload that would replace it", w.ask(http.MethodPost, "/upload/storage/v1/b/"+w.bucket+"/o?uploadType=resumable&name=k", nil, writer...), 403, "forbidden")
	rewrite := "/storage/v1/b/" + w.bucket + "/o/k/rewriteTo/b/" + w.bucket + "/o/"
	w.want("a copy", w.ask(http.MethodPost, rewrite+"copied", nil, writer...), 200, "")
	w.want("a copy over it", w.ask(http.MethodPost, rewrite+"k", nil, writer...), 403, "forbidden")
	w.want("a copy of what may not be read", w.ask(http.MethodPost, rewrite+"copied2", nil, as("storage.objects.create")...), 403, "forbidden")
	w.want("replacing with the right to delete", w.ask(http.MethodPost, upload("k", ""), []byte("y"), as("storage.objects.create", "storage.objects.delete")...), 200, "")

	retention := []byte(`{"retention":{"mode":"Unlocked","retainUntilTime":"` + w.Shim.Now().Add(time.Hour).Format(time.RFC3339) + `"}}`)
	sooner := []byte(`{"retention":{"mode":"Unlocked","retainUntilTime":"` + w.Shim.Now().Add(time.Minute).Format(time.RFC3339) + `"}}`)
	w.want("a retention", w.ask(http.MethodPatch, w.path("k", ""), retention, as("storage.objects.update", "storage.objects.get")...), 403, "forbidden")
	extender := as("storage.objects.update", "storage.objects.get", "storage.objects.setRetention")
	w.want("with the right to it", w.ask(http.MethodPatch, w.path("k", ""), retention, extender...), 200, "")
	w.want("overriding it", w.ask(http.MethodPatch, w.path("k", "overrideUnlockedRetention=true"), sooner, extender...), 403, "forbidden")
}

// Behind the shim is a server that protects nothing by itself: this is what the shim is for.
func TestTheServerBehindIsReachedByNobodyElse(t *testing.T) {
	w := newWorld(t, stores.RunGCS(t), stores.GCSBucket{Policy: time.Hour})
	w.want("another method", w.ask(http.MethodPost, "/_internal/delete_all", nil), 404, "notFound")
	w.want("the XML API", w.ask(http.MethodGet, "/"+w.bucket+"/k", nil), 404, "notFound")
}
