package oss

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	osssdk "github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss"
	"github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss/signer"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/admin"
)

// Admin administers one bucket. It shares connections, identity and words with [Store].
type Admin struct {
	s     *Store
	rules immutability.BucketRules
}

var _ admin.Bucket = (*Admin)(nil)

// NewAdmin connects to the service; the bucket need not exist. Where it is made the endpoint says.
func NewAdmin(_ context.Context, o Options, _ admin.Creation) (*Admin, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	client, httpClient, err := connect(o)
	if err != nil {
		return nil, fmt.Errorf("OSS: %w", err)
	}
	rules, _ := immutability.RulesOf("OSS")
	return &Admin{s: &Store{opts: o, client: client, http: httpClient, caps: store.Capabilities{Provider: "OSS", Location: o.location()}}, rules: rules}, nil
}

// Rules implements admin.Bucket.
func (a *Admin) Rules() immutability.BucketRules { return a.rules }

// Location implements admin.Bucket.
func (a *Admin) Location() string { return a.s.caps.Location }

func (a *Admin) bucket() *string { return &a.s.opts.Bucket }

// Read implements admin.Bucket.
func (a *Admin) Read(ctx context.Context) (immutability.Bucket, error) {
	b, err := a.read(ctx)
	if err != nil {
		return immutability.Bucket{}, fmt.Errorf("inspect %s: %w", a.s.caps.Location, err)
	}
	return b, nil
}

func (a *Admin) read(ctx context.Context) (immutability.Bucket, error) {
	b := immutability.Bucket{Mode: immutability.ModeNone}
	_, err := a.s.client.GetBucketInfo(ctx, &osssdk.GetBucketInfoRequest{Bucket: a.bucket()})
	err = a.s.classify(ctx, err)
	if errors.Is(err, store.ErrNoBucket) && !errors.Is(err, store.ErrBucketName) {
		return b, nil
	}
	denied := errors.Is(err, store.ErrForbidden)
	if err != nil && !denied {
		return b, err
	}
	if b.Owner, err = a.foreignOwner(ctx, err); err != nil {
		return b, err
	}
	if b.Exists = true; b.Owner != "" {
		return b, nil
	}
	status, err := a.s.versioning(ctx)
	if err != nil {
		return b, err
	}
	b.Versioned = status == string(osssdk.VersionEnabled)
	w, now, err := a.worm(ctx)
	if err != nil {
		return b, err
	}
	if w != nil {
		b.Mode, b.Period, b.Locked = immutability.ModeGovernance, w.period, w.locked
		if w.locked {
			b.Mode = immutability.ModeCompliance
		} else if b.Lapses = w.lapses; !b.Lapses.After(now) {
			b.Mode, b.Period, b.Lapses = immutability.ModeNone, 0, time.Time{}
			b.Notes = append(b.Notes, fmt.Sprintf("a retention policy of %s was begun and not locked in time: it has ended", w.period))
		}
	}
	rules, err := a.lifecycle(ctx)
	if err != nil {
		return b, err
	}
	b.AbortsUploads = rules.abort()
	return b, nil
}

// foreignOwner says that the bucket is none of ours. Names are of all of OSS. denied is why we may not
// look at the bucket, nil if we may; it is returned where the bucket is ours, or that is not told.
func (a *Admin) foreignOwner(ctx context.Context, denied error) (string, error) {
	out, err := a.s.client.ListBuckets(ctx, &osssdk.ListBucketsRequest{Prefix: a.bucket()})
	if err != nil {
		err = a.s.classify(ctx, err)
		if errors.Is(err, store.ErrForbidden) || errors.Is(err, store.ErrUnsupported) {
			return "", denied
		}
		return "", err
	}
	for _, own := range out.Buckets { // names ascend, so it would be the first
		if osssdk.ToString(own.Name) == a.s.opts.Bucket {
			return "", denied
		}
	}
	whose := "this account"
	if out.Owner != nil && osssdk.ToString(out.Owner.DisplayName) != "" {
		whose = *out.Owner.DisplayName
	}
	return fmt.Sprintf("somebody else (it is not among the buckets of %s)", whose), nil
}

// wormNow is the bucket's retention policy at this moment.
type wormNow struct {
	id     string
	period immutability.Period
	locked bool
	lapses time.Time
}

// worm reads it; nil without one. now is the service's clock.
func (a *Admin) worm(ctx context.Context) (w *wormNow, now time.Time, err error) {
	out, err := a.s.client.GetBucketWorm(ctx, &osssdk.GetBucketWormRequest{Bucket: a.bucket()})
	if codeOf(err) == "NoSuchWORMConfiguration" {
		return nil, now, nil
	}
	if err != nil {
		return nil, now, a.s.classify(ctx, err)
	}
	if now = serverTime(out.Headers); now.IsZero() {
		now = time.Now()
	}
	c := out.WormConfiguration
	if c == nil {
		return nil, now, nil
	}
	w = &wormNow{id: osssdk.ToString(c.WormId), period: immutability.Period(days(c.RetentionPeriodInDays)), locked: c.State == osssdk.BucketWormStateLocked}
	if w.locked {
		return w, now, nil
	}
	created, err := parseDate(osssdk.ToString(c.CreationDate))
	if err != nil || c.State != osssdk.BucketWormStateInProgress {
		return nil, now, fmt.Errorf("the retention policy is in the state %q since %q, which is not understood", c.State, osssdk.ToString(c.CreationDate))
	}
	w.lapses = created.Add(unconfirmed)
	return w, now, nil
}

// Do implements admin.Bucket.
func (a *Admin) Do(ctx context.Context, step immutability.BucketStep) (string, error) {
	said, err := a.do(ctx, step)
	if err != nil {
		return "", fmt.Errorf("%s of %s: %w", step.Do, a.s.caps.Location, err)
	}
	return said, nil
}

func (a *Admin) do(ctx context.Context, step immutability.BucketStep) (string, error) {
	switch step.Do {
	case immutability.BucketCreate:
		return a.create(ctx)
	case immutability.BucketUploads:
		return "", a.addRule(ctx)
	case immutability.BucketPolicy, immutability.BucketExtend, immutability.BucketLock:
	default:
		return "", fmt.Errorf("%s: %w", step.Do, store.ErrUnsupported)
	}
	w, now, err := a.worm(ctx)
	if err != nil {
		return "", err
	}
	if w != nil && !w.locked && !w.lapses.After(now) {
		w = nil
	}
	return "", a.s.classify(ctx, a.change(ctx, step, w))
}

// change brings the retention policy w, which is there at this moment, where the step wants it. The
// service refuses requests with the ID of another policy.
func (a *Admin) change(ctx context.Context, step immutability.BucketStep, w *wormNow) error {
	asked := int32(step.Period.Duration() / day)
	switch {
	case step.Do == immutability.BucketPolicy && w == nil:
		_, err := a.s.client.InitiateBucketWorm(ctx, &osssdk.InitiateBucketWormRequest{Bucket: a.bucket(),
			InitiateWormConfiguration: &osssdk.InitiateWormConfiguration{RetentionPeriodInDays: &asked}})
		return err
	case w == nil:
		return fmt.Errorf("the bucket has no retention policy any more: run it again (%w)", admin.ErrWeaker)
	case step.Do == immutability.BucketLock && w.locked, step.Do != immutability.BucketLock && w.period == step.Period:
		return nil
	case step.Do == immutability.BucketLock && w.period != step.Period:
		return fmt.Errorf("the retention policy is no longer %s, and only that was to be locked: %w", step.Period, admin.ErrWeaker)
	case step.Do == immutability.BucketLock:
		_, err := a.s.client.CompleteBucketWorm(ctx, &osssdk.CompleteBucketWormRequest{Bucket: a.bucket(), WormId: &w.id})
		return err
	case w.period > step.Period:
		return fmt.Errorf("the retention policy is %s by now: %w", w.period, admin.ErrWeaker)
	}
	_, err := a.s.client.ExtendBucketWorm(ctx, &osssdk.ExtendBucketWormRequest{Bucket: a.bucket(), WormId: &w.id,
		ExtendWormConfiguration: &osssdk.ExtendWormConfiguration{RetentionPeriodInDays: &asked}})
	return err
}

// create makes the bucket. One of ours that is there already is taken as it is: what it lacks is
// planned when it is read.
func (a *Admin) create(ctx context.Context) (string, error) {
	_, err := a.s.client.PutBucket(ctx, &osssdk.PutBucketRequest{Bucket: a.bucket(), Acl: osssdk.BucketACLPrivate})
	if codeOf(err) != "BucketAlreadyExists" {
		return "", a.s.classify(ctx, err)
	}
	owner, denied := a.foreignOwner(ctx, nil)
	if denied != nil {
		return "", denied
	}
	if owner != "" {
		return "", &store.Failure{Kind: admin.ErrForeign, Said: fmt.Sprintf("the name %q is taken", a.s.opts.Bucket), Remedy: "choose another name", Cause: err}
	}
	return "it was there already", nil
}

// uploadsRule is the name of our lifecycle rule.
const uploadsRule = "druid-abort-incomplete-uploads"

// lifecycleRules are a bucket's, as they were sent: only so nothing of them is lost when ours is added.
type lifecycleRules []byte

// lifecycle reads them; none without.
func (a *Admin) lifecycle(ctx context.Context) (lifecycleRules, error) {
	in := &osssdk.OperationInput{OpName: "GetBucketLifecycle", Method: http.MethodGet, Bucket: a.bucket(), Parameters: map[string]string{"lifecycle": ""}}
	in.OpMetadata.Set(signer.SubResource, []string{"lifecycle"})
	out, err := a.s.client.InvokeOperation(ctx, in)
	if codeOf(err) == "NoSuchLifecycle" {
		return nil, nil
	}
	if err != nil {
		return nil, a.s.classify(ctx, err)
	}
	defer out.Body.Close()
	b, err := io.ReadAll(io.LimitReader(out.Body, 1<<20))
	return b, a.s.classify(ctx, err)
}

// abort says whether a rule removes what is left of interrupted uploads, of all keys.
func (l lifecycleRules) abort() bool {
	var c osssdk.LifecycleConfiguration
	if len(l) == 0 || xml.Unmarshal(l, &c) != nil {
		return false
	}
	for _, r := range c.Rules {
		if osssdk.ToString(r.Status) == "Enabled" && r.AbortMultipartUpload != nil && osssdk.ToString(r.Prefix) == "" && len(r.Tags) == 0 && r.Filter == nil {
			return true
		}
	}
	return false
}

// with is the rules and ours.
func (l lifecycleRules) with() ([]byte, error) {
	rule := fmt.Appendf(nil, "<Rule><ID>%s</ID><Prefix></Prefix><Status>Enabled</Status><AbortMultipartUpload><Days>%d</Days></AbortMultipartUpload></Rule>", uploadsRule, immutability.AbortUploadsAfter)
	const end = "</LifecycleConfiguration>"
	switch {
	case len(l) == 0:
		return fmt.Appendf(nil, "<LifecycleConfiguration>%s%s", rule, end), nil
	case bytes.Contains(l, []byte("<ID>"+uploadsRule+"</ID>")):
		return nil, fmt.Errorf("somebody has changed the rule %q: remove it, or add another that aborts incomplete uploads (%w)", uploadsRule, store.ErrUnsupported)
	}
	i := bytes.LastIndex(l, []byte(end))
	if i < 0 {
		return nil, fmt.Errorf("the lifecycle rules that are there are not understood: add one by hand that aborts incomplete uploads (%w)", store.ErrUnsupported)
	}
	return bytes.Join([][]byte{l[:i], rule, l[i:]}, nil), nil
}

// addRule adds our lifecycle rule to those that are there.
func (a *Admin) addRule(ctx context.Context) error {
	rules, err := a.lifecycle(ctx)
	if err != nil || rules.abort() {
		return err
	}
	body, err := rules.with()
	if err != nil {
		return err
	}
	sum := md5.Sum(body)
	in := &osssdk.OperationInput{OpName: "PutBucketLifecycle", Method: http.MethodPut, Bucket: a.bucket(), Parameters: map[string]string{"lifecycle": ""},
		Headers: map[string]string{"Content-Type": "application/xml", "Content-MD5": base64.StdEncoding.EncodeToString(sum[:]), "x-oss-allow-same-action-overlap": "true"},
		Body:    bytes.NewReader(body)}
	in.OpMetadata.Set(signer.SubResource, []string{"lifecycle"})
	out, err := a.s.client.InvokeOperation(ctx, in)
	if err != nil {
		return a.s.classify(ctx, err)
	}
	if out.Body != nil {
		out.Body.Close()
	}
	return nil
}

// Delete implements admin.Bucket. OSS itself refuses where there is any version, marker or part.
func (a *Admin) Delete(ctx context.Context) error {
	_, err := a.s.client.DeleteBucket(ctx, &osssdk.DeleteBucketRequest{Bucket: a.bucket()})
	switch codeOf(err) {
	case "NoSuchBucket":
		return nil
	case "BucketNotEmpty":
		err = &store.Failure{Kind: admin.ErrNotEmpty, Said: "OSS refuses: BucketNotEmpty", Cause: err}
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", a.s.caps.Location, a.s.classify(ctx, err))
	}
	return nil
}

// CloseIdle drops connections that nobody uses at this moment.
func (a *Admin) CloseIdle() { a.s.CloseIdle() }
