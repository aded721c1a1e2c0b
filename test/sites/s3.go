package sites

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"druid.internal/druid/examples/policies"
	"druid.internal/druid/test/stores"
)

// The kinds of bucket of S3.
var (
	// Lockable has object lock without a default. It is none of the [Site.Kinds].
	Lockable   = Kind{Name: "lockable", Versions: true, Markers: true}
	Versioned  = Kind{Name: "versioned", Versions: true, Markers: true}
	Governance = Kind{Name: "governance", Versions: true, Locks: true, Markers: true, Loose: true}
	Compliance = Kind{Name: "compliance", Versions: true, Locks: true, Markers: true}
)

// The kinds of bucket of S3 that lock nothing by themselves. They are none of the [Site.Kinds]: what is in them is locked by who wrote it.
var (
	ObjectGovernance = Kind{Name: "object-governance", Versions: true, Locks: true, Markers: true, Loose: true, Each: "governance"}
	ObjectCompliance = Kind{Name: "object-compliance", Versions: true, Locks: true, Markers: true, Each: "compliance"}
)

// ofS3 is a server that speaks S3.
type ofS3 struct {
	*stores.S3
	name string
}

func (s ofS3) Name() string { return s.name }

func (ofS3) Kinds() []Kind { return []Kind{Plain, Versioned, Governance, Compliance} }

func (s ofS3) Create(ctx context.Context, bucket string, k Kind) error {
	p := stores.Protection(k.Name)
	switch {
	case k == Plain:
		p = stores.Unversioned
	case k.Each != "":
		p = stores.Lockable
	}
	return s.CreateBucket(ctx, bucket, p, 1)
}

// Lift removes the locks of governance mode.
func (s ofS3) Lift(ctx context.Context, bucket string) error {
	client := s.Client(s.Root)
	all, err := s.S3.Raw(s.Root, bucket).Versions(ctx)
	if err != nil {
		return err
	}
	for _, v := range all {
		if v.Marker {
			continue
		}
		if _, err := client.PutObjectRetention(ctx, &s3.PutObjectRetentionInput{Bucket: &bucket, Key: &v.Key, VersionId: &v.ID,
			BypassGovernanceRetention: aws.Bool(true), Retention: &types.ObjectLockRetention{}}); err != nil {
			return err
		}
	}
	return nil
}

// S3Way is how a program reaches a bucket of a server that speaks S3, with the given keys.
func S3Way(s *stores.S3, bucket, endpoint string, keys stores.Keys) Way {
	files := map[string]string{
		"accessKeyID": keys.AccessKeyID, "secretAccessKey": keys.SecretAccessKey, "region": s.Region,
		CAFile: string(s.CA.PEM), "s3ForcePathStyle": "true",
	}
	if keys.SessionToken != "" {
		files["sessionToken"] = keys.SessionToken
	}
	return Way{Provider: "S3", Container: bucket, Endpoint: endpoint, Variable: "AWS_APPLICATION_CREDENTIALS", Files: files}
}

// keys are those of whom every server has.
func (s ofS3) keys(who Who) (stores.Keys, bool) {
	switch who {
	case Owner:
		return s.Root, true
	case Impostor:
		return stores.Keys{AccessKeyID: s.Root.AccessKeyID, SecretAccessKey: "not-the-secret-of-this-key"}, true
	case Nobody:
		return stores.Keys{AccessKeyID: "NOBODYKNOWSTHISKEY", SecretAccessKey: "whatever-it-may-be"}, true
	}
	return stores.Keys{}, false
}

// policyOf is what somebody may do, below [Prefix], as the files of policies or their form for Ceph have it.
func policyOf(policy func(r policies.Role, bucket, prefix string) string, bucket string, who Who) string {
	if who == Stranger {
		return policy(policies.Reader, "another-"+bucket, "")
	}
	return policy(map[Who]policies.Role{Writer: policies.Writer, Locker: policies.ObjectWriter, Reader: policies.Reader,
		Collector: policies.Collector, Extender: policies.Extender, Excluder: policies.Excluder}[who], bucket, Prefix)
}

// Request reads the operation from method and query.
func (ofS3) Request(r *http.Request) Request {
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	q := r.URL.Query()
	does := Other
	switch {
	case r.Method == http.MethodGet && (q.Has("versions") || q.Has("list-type")):
		return Request{Does: List}
	case key == "":
		return Request{Does: Inspect}
	case r.Method == http.MethodPut && q.Has("partNumber"):
		does = Part
	case r.Method == http.MethodPut && r.Header.Get("X-Amz-Copy-Source") != "":
		does = Copy
	case r.Method == http.MethodPut && len(q) <= 1: // x-id
		does = Put
	case r.Method == http.MethodPost && q.Has("uploads"):
		does = Begin
	case r.Method == http.MethodPost && q.Has("uploadId"):
		does = Finish
	case r.Method == http.MethodDelete && q.Has("uploadId"):
		does = Cancel
	case r.Method == http.MethodDelete:
		does = Delete
	case r.Method == http.MethodHead:
		does = Stat
	case r.Method == http.MethodGet && !q.Has("tagging") && !q.Has("retention") && !q.Has("legal-hold"):
		does = Read
	}
	return Request{does, key}
}

// minIO has roles.
type minIO struct {
	ofS3
	server *stores.MinIO
}

func startMinIO(ctx context.Context, f *Fleet) (Site, error) {
	m, err := stores.StartMinIO(ctx, stores.MinIOOptions{Host: f.Host})
	if err != nil {
		return nil, err
	}
	return &minIO{ofS3{&m.S3, "MinIO"}, m}, nil
}

// S3Of is the server of a site that speaks S3, for what only those can do.
func S3Of(s Site) *stores.S3 {
	if m, is := s.(*minIO); is {
		return m.S3
	}
	return s.(*ceph).S3
}

// MinIOOf is the server of a site, for what only it can do.
func MinIOOf(s Site) *stores.MinIO { return s.(*minIO).server }

func (m *minIO) as(ctx context.Context, bucket string, who Who) (stores.Keys, error) {
	if keys, ok := m.keys(who); ok {
		return keys, nil
	}
	return m.server.Assume(ctx, policyOf(policies.S3, bucket, who))
}

func (m *minIO) Way(ctx context.Context, bucket, endpoint string, who Who) (Way, error) {
	keys, err := m.as(ctx, bucket, who)
	return S3Way(m.S3, bucket, endpoint, keys), err
}

func (m *minIO) Raw(ctx context.Context, bucket string, who Who) (stores.Raw, error) {
	keys, err := m.as(ctx, bucket, who)
	return m.S3.Raw(keys, bucket), err
}

func (m *minIO) stop() error { return m.server.Stop() }

// ceph has users, to whom the owner of a bucket gives rights by its policy.
type ceph struct {
	ofS3
	server *stores.Ceph

	mu     sync.Mutex
	users  map[Who]stores.Keys
	policy map[string]bool // buckets that have theirs
}

func startCeph(ctx context.Context, f *Fleet) (Site, error) {
	c, err := stores.StartCeph(ctx, stores.CephOptions{Host: f.Host})
	if err != nil {
		return nil, err
	}
	return &ceph{ofS3: ofS3{&c.S3, "Ceph"}, server: c, users: map[Who]stores.Keys{}, policy: map[string]bool{}}, nil
}

// Kinds leaves out governance mode: of this server its owner cannot even lift that.
func (*ceph) Kinds() []Kind { return []Kind{Plain, Versioned, Compliance} }

func (c *ceph) as(ctx context.Context, bucket string, who Who) (stores.Keys, error) {
	if keys, ok := c.keys(who); ok {
		return keys, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var statements []string
	for _, role := range []Who{Writer, Locker, Reader, Collector, Extender, Excluder, Stranger} {
		name := fmt.Sprintf("role%d", role)
		if _, known := c.users[role]; !known {
			keys, err := c.server.NewUser(ctx, name)
			if err != nil {
				return keys, err
			}
			c.users[role] = keys
		}
		if role == Stranger {
			continue
		}
		p := strings.ReplaceAll(policyOf(policies.Ceph, bucket, role), `"Effect":"Allow",`, `"Effect":"Allow","Principal":{"AWS":["arn:aws:iam:::user/`+name+`"]},`)
		_, p, _ = strings.Cut(p, `"Statement":[`)
		statements = append(statements, strings.TrimSuffix(p, "]}"))
	}
	if c.policy[bucket] {
		return c.users[who], nil
	}
	policy := `{"Version":"2012-10-17","Statement":[` + strings.Join(statements, ",") + `]}`
	_, err := c.Client(c.Root).PutBucketPolicy(ctx, &s3.PutBucketPolicyInput{Bucket: &bucket, Policy: &policy})
	c.policy[bucket] = err == nil
	return c.users[who], err
}

func (c *ceph) Way(ctx context.Context, bucket, endpoint string, who Who) (Way, error) {
	keys, err := c.as(ctx, bucket, who)
	return S3Way(c.S3, bucket, endpoint, keys), err
}

func (c *ceph) Raw(ctx context.Context, bucket string, who Who) (stores.Raw, error) {
	keys, err := c.as(ctx, bucket, who)
	return c.S3.Raw(keys, bucket), err
}

func (c *ceph) stop() error { return c.server.Stop() }
