package sites

import (
	"context"
	"net/http"
	"strings"

	"druid.internal/druid/test/stores"
	"druid.internal/druid/test/stores/ossfake"
)

// The kinds of bucket of OSS.
var (
	// Worm is a bucket with a retention policy that is completed.
	Worm = Kind{Name: "worm", Locks: true, Whole: true}
	// Begun is one with a retention policy that is not completed and ends by itself. It is none of the [Site.Kinds].
	Begun = Kind{Name: "begun", Locks: true, Whole: true, Loose: true}
	// WormVersioned is one that keeps versions besides.
	WormVersioned = Kind{Name: "worm-versioned", Versions: true, Locks: true, Markers: true}
)

type oss struct{ server *ossfake.Running }

func startOSS(_ context.Context, f *Fleet) (Site, error) {
	server, err := ossfake.Start(ossfake.Options{Host: f.Host})
	if err != nil {
		return nil, err
	}
	return &oss{server}, nil
}

func (o *oss) Name() string { return "OSS" }

func (o *oss) Kinds() []Kind { return []Kind{Plain, Versioned, Worm, WormVersioned} }

func (o *oss) Reach() (string, *stores.CA) { return o.server.Endpoint, o.server.CA }

func (o *oss) Create(_ context.Context, bucket string, k Kind) error {
	return o.server.CreateBucket(bucket, map[Kind]ossfake.Kind{
		Plain: ossfake.Plain, Versioned: ossfake.Versioned, Begun: ossfake.Begun, Worm: ossfake.Locked, WormVersioned: ossfake.VersionedLocked,
	}[k], 1)
}

// Way knows one access key, which may do everything. The fake does not verify signatures, so
// there is no wrong secret either.
func (o *oss) Way(_ context.Context, bucket, endpoint string, who Who) (Way, error) {
	id, secret := o.server.AccessKeyID, o.server.AccessKeySecret
	if who == Impostor || who == Nobody {
		id, secret = "LTAINobodyKnowsThisKey", "whatever-it-may-be"
	}
	if who == Stranger {
		id = o.server.OtherKeyID
	}
	return Way{Provider: "OSS", Container: bucket, Endpoint: endpoint, Variable: "ALICLOUD_APPLICATION_CREDENTIALS",
		Files: map[string]string{"storageEndpoint": endpoint, "accessKeyID": id, "accessKeySecret": secret, "region": "eu-central-1", CAFile: string(o.server.CA.PEM)}}, nil
}

func (o *oss) Raw(_ context.Context, bucket string, _ Who) (stores.Raw, error) {
	return o.server.Raw(bucket), nil
}

// Request reads the operation from method and query.
func (o *oss) Request(r *http.Request) Request {
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	q := r.URL.Query()
	does := Other
	switch {
	case key == "" && q.Has("versions"):
		return Request{Does: List}
	case key == "":
		return Request{Does: Inspect}
	case r.Method == http.MethodPost && q.Has("uploads"):
		does = Begin
	case r.Method == http.MethodPut && q.Has("partNumber"):
		does = Part
	case r.Method == http.MethodPost && q.Has("uploadId"):
		does = Finish
	case r.Method == http.MethodDelete && q.Has("uploadId"):
		does = Cancel
	case r.Method == http.MethodPut && r.Header.Get("x-oss-copy-source") != "":
		does = Copy
	case r.Method == http.MethodPut && !q.Has("tagging"):
		does = Put
	case r.Method == http.MethodDelete:
		does = Delete
	case r.Method == http.MethodHead:
		does = Stat
	case r.Method == http.MethodGet && !q.Has("tagging"):
		does = Read
	}
	return Request{does, key}
}

func (o *oss) stop() error { return o.server.Stop() }

// OSSOf is the fake of a site, for what only it can do.
func OSSOf(s Site) *ossfake.Running { return s.(*oss).server }
