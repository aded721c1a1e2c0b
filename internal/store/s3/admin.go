package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/admin"
)

// Admin administers one bucket. It shares connections, identity and words with [Store].
type Admin struct {
	s     *Store
	made  admin.Creation
	rules immutability.BucketRules
}

var _ admin.Bucket = (*Admin)(nil)

// NewAdmin connects to the server; the bucket need not exist.
func NewAdmin(ctx context.Context, o Options, c admin.Creation) (*Admin, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if c.Region != "" && o.Region == "" {
		o.Region = c.Region
	}
	client, httpClient, err := connect(ctx, o)
	if err != nil {
		return nil, err
	}
	o.Region = client.Options().Region
	s := &Store{opts: o, client: client, http: httpClient, sse: newSSE(o), trusted: o.trusted()}
	s.caps = store.Capabilities{Provider: o.Provider, Location: o.location(), Tags: true}
	rules, _ := immutability.RulesOf(o.Provider)
	return &Admin{s: s, made: c, rules: rules}, nil
}

// Rules implements admin.Bucket.
func (a *Admin) Rules() immutability.BucketRules { return a.rules }

// Location implements admin.Bucket.
func (a *Admin) Location() string { return a.s.caps.Location }

func (a *Admin) bucket() *string { return &a.s.opts.Bucket }

func (a *Admin) failed(what string, err error) error {
	return fmt.Errorf("%s %s: %w", what, a.s.caps.Location, err)
}

// Read implements admin.Bucket.
func (a *Admin) Read(ctx context.Context) (immutability.Bucket, error) {
	b, err := a.read(ctx)
	if err != nil {
		return immutability.Bucket{}, a.failed("inspect", err)
	}
	return b, nil
}

func (a *Admin) read(ctx context.Context) (immutability.Bucket, error) {
	b := immutability.Bucket{Mode: immutability.ModeNone}
	out, err := a.s.client.HeadBucket(ctx, &awss3.HeadBucketInput{Bucket: a.bucket()})
	server := ""
	switch {
	case err == nil:
		server = header(out.ResultMetadata, "Server")
	default:
		server = serverOf(err)
	}
	a.limits(&b, server)
	switch status := statusOf(err); {
	case err == nil:
	case status == http.StatusNotFound:
		return b, nil
	case status == http.StatusForbidden: // it is there, and we may not look at it
		denied := err
		if b.Owner, err = a.foreignOwner(ctx, server); err != nil || b.Owner == "" {
			return b, a.why(ctx, denied)
		}
	default:
		return b, a.why(ctx, err)
	}
	b.Exists = true
	if b.Owner == "" {
		b.Owner, err = a.foreignOwner(ctx, server)
	}
	if err != nil || b.Owner != "" {
		return b, err
	}
	if err := a.s.discover(ctx); err != nil {
		return b, err
	}
	v, err := a.s.versioning(ctx)
	if err != nil {
		return b, err
	}
	b.Versioned = v.status == string(types.BucketVersioningStatusEnabled)
	lock, err := a.s.lockConfiguration(ctx)
	if err != nil {
		return b, err
	}
	b.ObjectLock, b.Mode, b.Period = lock.enabled, lock.mode, immutability.Period(lock.period)
	inspected, err := a.s.Inspect(ctx)
	if err != nil {
		return b, err
	}
	b.Notes = append(b.Notes, inspected.Notes...)
	if err := a.readPolicy(ctx, &b); err != nil {
		return b, err
	}
	if i := slices.Index(b.Notes, shortened); i >= 0 && b.LockedByStatement() {
		b.Notes[i] = shortenedAfter
	}
	return b, a.readLifecycle(ctx, &b)
}

// why is the error of a HEAD with what the server has to say: its answer has no body, so a wrong secret looks like a
// missing right, and a session that is over or a name that no bucket can have like nothing in particular.
func (a *Admin) why(ctx context.Context, head error) error {
	if statusOf(head) != 0 {
		if _, err := a.s.versioning(ctx); err != nil && !errors.Is(err, store.ErrForbidden) {
			return err
		}
	}
	return a.s.classify(ctx, head)
}

// isMinIO tells by the name that a server gives itself.
func (a *Admin) isMinIO(server string) bool { return !a.s.opts.ofAWS() && honoursConditions(server) }

// limits notes what this server cannot or must not have.
func (a *Admin) limits(b *immutability.Bucket, server string) {
	b.NoGuards = map[immutability.Guard]string{}
	if a.isMinIO(server) {
		b.AbortsUploads = true
		b.NoGuards[immutability.GuardOldTLS] = "MinIO has no such condition, and takes TLS from 1.2 on only"
		b.NoGuards[immutability.GuardMarkers] = "MinIO asks for s3:DeleteObject for deletions of versions as well, so nothing could be collected any more"
	}
	if strings.HasPrefix(a.s.opts.Endpoint, "http://") {
		for _, g := range []immutability.Guard{immutability.GuardPlainHTTP, immutability.GuardOldTLS} {
			b.NoGuards[g] = "this program reaches the bucket without TLS itself, and would be locked out"
		}
	}
}

// foreignOwner is whose the bucket is if it is none of ours; empty also where the server does not tell.
// MinIO has one owner of everything, and lists to each what he may use.
func (a *Admin) foreignOwner(ctx context.Context, server string) (string, error) {
	if a.isMinIO(server) {
		return "", nil
	}
	own, err := a.s.client.ListBuckets(ctx, &awss3.ListBucketsInput{Prefix: a.bucket()})
	if err != nil {
		return "", a.unlessUntold(ctx, err)
	}
	for _, o := range own.Buckets {
		if aws.ToString(o.Name) == a.s.opts.Bucket {
			return "", nil
		}
	}
	whose := "somebody else"
	if acl, err := a.s.client.GetBucketAcl(ctx, &awss3.GetBucketAclInput{Bucket: a.bucket()}); err == nil && acl.Owner != nil {
		whose = nameOf(acl.Owner)
	}
	return fmt.Sprintf("%s (it is not among the buckets of %s)", whose, nameOf(own.Owner)), nil
}

func nameOf(o *types.Owner) string {
	switch {
	case o == nil:
		return "this identity"
	case aws.ToString(o.DisplayName) != "":
		return *o.DisplayName
	}
	return aws.ToString(o.ID)
}

// unlessUntold is the error, unless it is only that one may not ask or that there is no answer.
func (a *Admin) unlessUntold(ctx context.Context, err error) error {
	classified := a.s.classify(ctx, err)
	if errors.Is(classified, store.ErrForbidden) || errors.Is(classified, store.ErrUnsupported) {
		return nil
	}
	return classified
}

// Do implements admin.Bucket.
func (a *Admin) Do(ctx context.Context, step immutability.BucketStep) (string, error) {
	said, err := a.do(ctx, step)
	if err != nil {
		return "", a.failed(string(step.Do)+" of", err)
	}
	return said, nil
}

func (a *Admin) do(ctx context.Context, step immutability.BucketStep) (string, error) {
	switch step.Do {
	case immutability.BucketCreate:
		return a.create(ctx, step)
	case immutability.BucketVersions:
		return "", a.keepVersions(ctx)
	case immutability.BucketSuspend:
		return "", a.setVersioning(ctx, types.BucketVersioningStatusSuspended)
	case immutability.BucketObjectLock:
		return "", a.allowLocks(ctx)
	case immutability.BucketPolicy:
		return "", a.setDefault(ctx, step)
	case immutability.BucketLengthen:
		return a.lengthen(ctx, step)
	case immutability.BucketUploads:
		return "", a.addRule(ctx)
	case immutability.BucketGuard:
		return "", a.changePolicy(ctx, step.Guard, true)
	case immutability.BucketLift:
		return "", a.changePolicy(ctx, step.Guard, false)
	}
	return "", fmt.Errorf("%s: %w", step.Do, store.ErrUnsupported)
}

// create makes the bucket. One of ours that is there already is taken as it is: what it lacks is
// planned when it is read.
func (a *Admin) create(ctx context.Context, step immutability.BucketStep) (string, error) {
	in := &awss3.CreateBucketInput{Bucket: a.bucket()}
	if step.ObjectLock {
		in.ObjectLockEnabledForBucket = aws.Bool(true)
	}
	region := a.made.Region
	if region == "" && a.s.opts.ofAWS() {
		region = a.s.opts.Region
	}
	if region != "" && region != "us-east-1" { // whose buckets are made without naming it
		in.CreateBucketConfiguration = &types.CreateBucketConfiguration{LocationConstraint: types.BucketLocationConstraint(region)}
	}
	_, err := a.s.client.CreateBucket(ctx, in)
	switch codeOf(err) {
	case "BucketAlreadyOwnedByYou":
		return "it was there already", nil
	case "BucketAlreadyExists":
		return "", &store.Failure{Kind: admin.ErrForeign, Said: fmt.Sprintf("the name %q is taken", a.s.opts.Bucket), Remedy: "choose another name", Cause: err}
	}
	return "", a.s.classify(ctx, err)
}

// setVersioning switches versions on or off again. Servers refuse the latter where objects can be locked.
func (a *Admin) setVersioning(ctx context.Context, status types.BucketVersioningStatus) error {
	_, err := a.s.client.PutBucketVersioning(ctx, &awss3.PutBucketVersioningInput{Bucket: a.bucket(),
		VersioningConfiguration: &types.VersioningConfiguration{Status: status}})
	return a.s.classify(ctx, err)
}

// keepVersions switches versions on, which is only ever done for locks. Those are asked for before: a server that will never allow
// them says so, and nothing was changed. Most want versions first, each in its own words, and are asked again after that.
func (a *Admin) keepVersions(ctx context.Context) error {
	asked := a.askForLocks(ctx)
	if asked != nil {
		classified := a.s.classify(ctx, asked)
		switch {
		case onlyNew(asked):
			return noLocks(asked)
		case statusOf(asked) == 0, errors.Is(classified, store.ErrUnreachable), errors.Is(classified, store.ErrThrottled),
			errors.Is(classified, store.ErrForbidden), errors.Is(classified, store.ErrUnsupported):
			return classified
		}
	}
	err := a.setVersioning(ctx, types.BucketVersioningStatusEnabled)
	if err != nil && asked == nil {
		err = fmt.Errorf("object lock is on now, which cannot be taken back, and versions are not: %w", err)
	}
	return err
}

// allowLocks switches object lock on for a bucket that keeps versions.
func (a *Admin) allowLocks(ctx context.Context) error {
	err := a.askForLocks(ctx)
	switch {
	case err == nil:
		return nil
	case statusOf(err) == http.StatusConflict, codeOf(err) == "InvalidBucketState", onlyNew(err):
		return noLocks(err)
	}
	return a.s.classify(ctx, err)
}

func (a *Admin) askForLocks(ctx context.Context) error {
	_, err := a.s.client.PutObjectLockConfiguration(ctx, &awss3.PutObjectLockConfigurationInput{Bucket: a.bucket(),
		ObjectLockConfiguration: &types.ObjectLockConfiguration{ObjectLockEnabled: types.ObjectLockEnabledEnabled}})
	return err
}

// onlyNew: the server allows locks in no bucket that is there, with versions or without, as MinIO up to 2026 says: "Object Lock
// configuration cannot be enabled on existing buckets".
func onlyNew(err error) bool { return strings.Contains(serverSaid(err), "existing buckets") }

// noLocks is what to do about a bucket in which no locks can be allowed.
func noLocks(err error) error {
	return &immutability.BucketRefusal{Reason: strings.TrimSpace("the server allows locks only in buckets that were created with them. " + serverSaid(err)),
		Remedy: "make a new bucket with etcdbrctl bucket ensure and copy the backups into it (etcdbrctl copy)"}
}

// setDefault sets the lock that the bucket stamps on what asks for none. S3 would shorten and weaken
// it as well, and has no condition for such a change, so it is looked at just before.
func (a *Admin) setDefault(ctx context.Context, step immutability.BucketStep) error {
	now, err := a.s.lockConfiguration(ctx)
	if err != nil {
		return err
	}
	want := step.Period.Duration()
	if now.period > want || now.period > 0 && immutability.Compare(now.mode, step.Mode) > 0 {
		return fmt.Errorf("the default lock is %s (%s) by now: %w", immutability.Period(now.period), now.mode, admin.ErrWeaker)
	}
	_, err = a.s.client.PutObjectLockConfiguration(ctx, &awss3.PutObjectLockConfigurationInput{Bucket: a.bucket(),
		ObjectLockConfiguration: &types.ObjectLockConfiguration{
			ObjectLockEnabled: types.ObjectLockEnabledEnabled,
			Rule: &types.ObjectLockRule{DefaultRetention: &types.DefaultRetention{
				Mode: types.ObjectLockRetentionMode(lockMode(step.Mode)), Days: aws.Int32(int32(want / day)),
			}},
		}})
	return a.s.classify(ctx, err)
}

// lockMode is the server's word.
func lockMode(m immutability.Mode) types.ObjectLockRetentionMode {
	if m == immutability.ModeCompliance {
		return types.ObjectLockRetentionModeCompliance
	}
	return types.ObjectLockRetentionModeGovernance
}

// Delete implements admin.Bucket. S3 itself refuses where there is any version, marker or part.
func (a *Admin) Delete(ctx context.Context) error {
	_, err := a.s.client.DeleteBucket(ctx, &awss3.DeleteBucketInput{Bucket: a.bucket()})
	switch codeOf(err) {
	case "":
	case "NoSuchBucket":
		return nil
	case "BucketNotEmpty":
		return a.failed("delete", &store.Failure{Kind: admin.ErrNotEmpty, Said: serverSaid(err), Cause: err})
	}
	if err != nil {
		return a.failed("delete", a.s.classify(ctx, err))
	}
	return nil
}

// serverSaid is the message of the server's answer, or "".
func serverSaid(err error) string {
	var api interface{ ErrorMessage() string }
	if errors.As(err, &api) && api.ErrorMessage() != unknownMessage {
		return api.ErrorMessage()
	}
	return ""
}

// serverOf is the name that a server gave itself with a refusal.
func serverOf(err error) string {
	var resp *awshttp.ResponseError
	if errors.As(err, &resp) && resp.Response != nil {
		return resp.Response.Header.Get("Server")
	}
	return ""
}

// CloseIdle drops connections that nobody uses at this moment.
func (a *Admin) CloseIdle() { a.s.CloseIdle() }
