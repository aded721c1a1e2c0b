package sites

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"druid.internal/druid/test/stores"
)

// The kinds of bucket of Google.
var (
	// Generations are versions without markers.
	Generations = Kind{Name: "generations", Versions: true}
	// Policy is a bucket with a retention policy that is locked.
	Policy = Kind{Name: "policy", Locks: true, Whole: true}
	// PolicyGenerations is one that keeps versions besides.
	PolicyGenerations = Kind{Name: "policy-generations", Versions: true, Locks: true, Whole: true}
	// LoosePolicy is one with a retention policy that is not locked.
	LoosePolicy = Kind{Name: "loose-policy", Versions: true, Locks: true, Whole: true, Loose: true}
)

type gcs struct {
	server *stores.GCS

	mu    sync.Mutex
	known map[Who]stores.Identity
}

// permissions are what the documentation recommends for each role.
var permissions = map[Who][]string{
	Owner:     {"*"},
	Writer:    {"storage.objects.create", "storage.objects.get", "storage.objects.list", "storage.buckets.get"},
	Reader:    {"storage.objects.get", "storage.objects.list", "storage.buckets.get"},
	Collector: {"storage.objects.get", "storage.objects.list", "storage.objects.delete", "storage.buckets.get"},
	Extender:  {"storage.objects.get", "storage.objects.list", "storage.objects.update", "storage.buckets.get"},
	Excluder:  {"storage.objects.get", "storage.objects.list", "storage.objects.update", "storage.buckets.get"},
	Stranger:  {"storage.buckets.list"},
	Impostor:  {}, // an account that was deleted
}

// GooglePermissions are what the documentation recommends for a role.
func GooglePermissions(who Who) []string { return slices.Clone(permissions[who]) }

func startGCS(ctx context.Context, f *Fleet) (Site, error) {
	server, err := stores.StartGCS(ctx, stores.GCSOptions{Host: f.Host})
	if err != nil {
		return nil, err
	}
	g := &gcs{server: server, known: map[Who]stores.Identity{}}
	_, err = g.identity(Owner) // from now on nobody is served without a token
	return g, err
}

func (g *gcs) Name() string { return "GCS" }

func (g *gcs) Kinds() []Kind {
	return []Kind{Plain, Generations, LoosePolicy, Policy, PolicyGenerations}
}

func (g *gcs) Reach() (string, *stores.CA) { return g.server.Reach() }

func (g *gcs) identity(who Who) (stores.Identity, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i, ok := g.known[who]; ok {
		return i, nil
	}
	i, err := g.server.Identify(fmt.Sprintf("role%d@test.iam.gserviceaccount.com", who), permissions[who]...)
	if err == nil {
		g.known[who] = i
		if who != Owner {
			i.Confine(Prefix + "/")
		}
	}
	return i, err
}

func (g *gcs) Create(ctx context.Context, bucket string, k Kind) error {
	owner, err := g.identity(Owner)
	if err != nil {
		return err
	}
	b := stores.GCSBucket{Versioned: k.Versions}
	if k.Locks {
		b.Policy, b.Locked = 24*time.Hour, !k.Loose
	}
	return owner.CreateBucket(ctx, bucket, b)
}

func (g *gcs) Way(_ context.Context, bucket, endpoint string, who Who) (Way, error) {
	const file = "serviceaccount.json"
	w := Way{Provider: "GCS", Container: bucket, Endpoint: endpoint, Variable: "GOOGLE_APPLICATION_CREDENTIALS", File: file,
		Files: map[string]string{CAFile: string(g.server.CA.PEM)}}
	if who == Nobody {
		w.File, w.Files["anonymous"] = "", "true"
		return w, nil
	}
	i, err := g.identity(who)
	w.Files[file] = string(i.Key)
	return w, err
}

func (g *gcs) Raw(_ context.Context, bucket string, who Who) (stores.Raw, error) {
	if who == Nobody {
		return g.server.Raw(bucket), nil
	}
	i, err := g.identity(who)
	return i.Raw(bucket), err
}

// Request reads the operation from method, path and query.
func (g *gcs) Request(r *http.Request) Request {
	path, q := r.URL.EscapedPath(), r.URL.Query()
	if strings.HasPrefix(path, "/_worm/token") {
		return Request{Does: LogIn}
	}
	if strings.HasPrefix(path, "/upload/") {
		return g.upload(r, q)
	}
	_, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(path, "/download"), "/storage/v1/b/"), "/")
	key, about := strings.CutPrefix(rest, "o/")
	key, copying, _ := strings.Cut(key, "/rewriteTo/")
	if plain, err := url.PathUnescape(key); err == nil {
		key = plain
	}
	switch {
	case rest == "o":
		return Request{Does: List}
	case !about:
		return Request{Does: Inspect}
	case copying != "":
		return Request{Copy, key}
	case r.Method == http.MethodGet && q.Get("alt") == "media":
		return Request{Read, key}
	case r.Method == http.MethodGet:
		return Request{Stat, key}
	case r.Method == http.MethodDelete:
		return Request{Delete, key}
	}
	return Request{Other, key}
}

// upload tells the requests of uploads apart. Only the first of a resumable one may name the
// object: the others are told by the upload they belong to.
func (g *gcs) upload(r *http.Request, q url.Values) Request {
	key := q.Get("name")
	switch {
	case r.Method == http.MethodDelete:
		return Request{Cancel, key}
	case q.Get("uploadType") == "multipart":
		return Request{Put, key}
	case q.Get("upload_id") == "":
		return Request{Begin, key}
	case strings.HasSuffix(r.Header.Get("Content-Range"), "/*"):
		return Request{Part, key}
	}
	return Request{Finish, key}
}

// Lift removes the policy of the bucket.
func (g *gcs) Lift(ctx context.Context, bucket string) error { return g.Unlock(ctx, bucket, Owner) }

func (g *gcs) stop() error { return g.server.Stop() }
