package gcs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"cloud.google.com/go/storage"
	"google.golang.org/api/iterator"

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

// NewAdmin connects to the service; the bucket need not exist.
func NewAdmin(ctx context.Context, o Options, c admin.Creation) (*Admin, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	s := &Store{opts: o}
	if err := s.connect(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", provider, err)
	}
	s.caps = store.Capabilities{Provider: provider, Location: o.location()}
	if c.Project == "" && o.Credentials != nil {
		if held, err := o.Credentials(); err == nil {
			c.Project = held.project()
		}
	}
	rules, _ := immutability.RulesOf(provider)
	return &Admin{s: s, made: c, rules: rules}, nil
}

// project is the one that a service account belongs to, or "".
func (c Credentials) project() string {
	var held struct {
		Project string `json:"project_id"`
	}
	if json.Unmarshal(c.json, &held) != nil {
		return ""
	}
	return held.Project
}

// Rules implements admin.Bucket.
func (a *Admin) Rules() immutability.BucketRules { return a.rules }

// Location implements admin.Bucket.
func (a *Admin) Location() string { return a.s.caps.Location }

func (a *Admin) handle() *storage.BucketHandle { return a.s.client.Bucket(a.s.opts.Bucket) }

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
	attrs, err := a.s.bucketAttrs(ctx)
	if errors.Is(err, store.ErrNoBucket) || errors.Is(err, store.ErrNotFound) {
		return b, nil
	}
	denied := errors.Is(err, store.ErrForbidden)
	if err != nil && !denied {
		return b, err
	}
	var listed error
	if b.Owner, listed = a.foreignOwner(ctx); listed != nil {
		return b, listed
	}
	if denied && b.Owner == "" {
		return b, err
	}
	if b.Exists = true; b.Owner != "" {
		return b, nil
	}
	b.Versioned, b.ObjectLock = attrs.VersioningEnabled, attrs.ObjectRetentionMode == objectRetentionEnabled
	if p := attrs.RetentionPolicy; p != nil && p.RetentionPeriod > 0 {
		b.Mode, b.Period, b.Locked = immutability.ModeGovernance, immutability.Period(p.RetentionPeriod), p.IsLocked
		if p.IsLocked {
			b.Mode = immutability.ModeCompliance
		}
	}
	b.Notes = notes(attrs, store.Bucket{Versioned: b.Versioned, Default: b.Mode, Period: b.Period.Duration(), Locked: b.Locked})
	for _, r := range attrs.Lifecycle.Rules {
		if r.Action.Type == storage.DeleteAction {
			b.Notes = append(b.Notes, "a lifecycle rule deletes objects; it waits until they are no longer retained")
		}
	}
	return b, nil
}

// foreignOwner says that the bucket is none of our project's. Names are of all of Google, and a
// bucket tells its project by a number only, so the project's own buckets are asked for. Empty also
// where the project is not known or its buckets may not be listed.
func (a *Admin) foreignOwner(ctx context.Context) (string, error) {
	if a.made.Project == "" {
		return "", nil
	}
	own := a.s.client.Buckets(ctx, a.made.Project)
	own.Prefix = a.s.opts.Bucket
	for {
		attrs, err := own.Next()
		if errors.Is(err, iterator.Done) {
			return "somebody else (it is not among the buckets of the project " + a.made.Project + ")", nil
		}
		if err != nil {
			err = a.s.classify(ctx, err)
			if errors.Is(err, store.ErrForbidden) || errors.Is(err, store.ErrNotFound) {
				return "", nil
			}
			return "", err
		}
		if attrs.Name == a.s.opts.Bucket {
			return "", nil
		}
	}
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
		return a.create(ctx, step)
	case immutability.BucketPolicy, immutability.BucketExtend:
		return "", a.change(ctx, func(h *storage.BucketHandle, now *storage.RetentionPolicy) error {
			if now != nil && now.RetentionPeriod == step.Period.Duration() {
				return nil
			}
			if now != nil && now.RetentionPeriod > step.Period.Duration() {
				return fmt.Errorf("the retention policy is %s by now: %w", immutability.Period(now.RetentionPeriod), admin.ErrWeaker)
			}
			_, err := h.Update(ctx, storage.BucketAttrsToUpdate{RetentionPolicy: &storage.RetentionPolicy{RetentionPeriod: step.Period.Duration()}})
			return err
		})
	case immutability.BucketLock:
		return "", a.change(ctx, func(h *storage.BucketHandle, now *storage.RetentionPolicy) error {
			switch {
			case now != nil && now.IsLocked:
				return nil
			case now == nil || now.RetentionPeriod != step.Period.Duration():
				return fmt.Errorf("the retention policy is no longer %s, and only that was to be locked: %w", step.Period, admin.ErrWeaker)
			}
			return h.LockRetentionPolicy(ctx)
		})
	}
	return "", fmt.Errorf("%s: %w", step.Do, store.ErrUnsupported)
}

// create makes the bucket with its policy in one request. One of ours that is there already is taken
// as it is: what it lacks is planned when it is read.
func (a *Admin) create(ctx context.Context, step immutability.BucketStep) (string, error) {
	if a.made.Project == "" {
		return "", &store.Failure{Kind: admin.ErrIncomplete, Said: "the project that the bucket shall belong to is not known", Remedy: "name it (--project), or give the key of a service account, which names it"}
	}
	attrs := &storage.BucketAttrs{
		Location: a.made.Region, UniformBucketLevelAccess: storage.UniformBucketLevelAccess{Enabled: true},
		PublicAccessPrevention: storage.PublicAccessPreventionEnforced,
		// What collection deletes shall be gone, and not be paid for a week longer.
		SoftDeletePolicy: &storage.SoftDeletePolicy{RetentionDuration: 0},
	}
	if step.Period > 0 {
		attrs.RetentionPolicy = &storage.RetentionPolicy{RetentionPeriod: step.Period.Duration()}
	}
	h := a.handle()
	if step.ObjectLock {
		h = h.SetObjectRetention(true)
	}
	err := h.Create(ctx, a.made.Project, attrs)
	api := apiError(err)
	if api == nil || api.Code != http.StatusConflict {
		return "", a.s.classify(ctx, err)
	}
	owner, listed := a.foreignOwner(ctx)
	if listed != nil {
		return "", listed
	}
	if owner == "" && strings.Contains(strings.ToLower(api.Message), "already own") {
		return "it was there already", nil
	}
	return "", &store.Failure{Kind: admin.ErrForeign, Said: fmt.Sprintf("the name %q is taken: %s", a.s.opts.Bucket, saidBy(api)), Remedy: "choose another name", Cause: err}
}

// change changes the policy in the very state that decide has seen; it is asked anew when somebody
// else was faster.
func (a *Admin) change(ctx context.Context, decide func(*storage.BucketHandle, *storage.RetentionPolicy) error) error {
	for attempt := 1; ; attempt++ {
		attrs, err := a.s.bucketAttrs(ctx)
		if err != nil {
			return err
		}
		err = decide(a.handle().If(storage.BucketConditions{MetagenerationMatch: attrs.MetaGeneration}), attrs.RetentionPolicy)
		if err == nil || errors.Is(err, admin.ErrWeaker) {
			return err
		}
		if err = a.s.classify(ctx, err); !errors.Is(err, store.ErrExists) || attempt == changeRetries {
			return err
		}
	}
}

// Delete implements admin.Bucket.
func (a *Admin) Delete(ctx context.Context) error {
	err := a.handle().Delete(ctx)
	if api := apiError(err); api != nil && api.Code == http.StatusConflict {
		return fmt.Errorf("delete %s: %w", a.s.caps.Location, &store.Failure{Kind: admin.ErrNotEmpty, Said: saidBy(api), Cause: err})
	}
	if err = a.s.missingBucket(a.s.classify(ctx, err)); err != nil && !errors.Is(err, store.ErrNoBucket) {
		return fmt.Errorf("delete %s: %w", a.s.caps.Location, err)
	}
	return nil
}

// CloseIdle drops connections that nobody uses at this moment.
func (a *Admin) CloseIdle() { a.s.CloseIdle() }
