package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/storage/armstorage"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/admin"
)

// Admin administers one container through the management API, which alone makes and tells policies.
type Admin struct {
	s     *Store
	rules immutability.BucketRules
}

var _ admin.Bucket = (*Admin)(nil)

// NewAdmin connects to the management API; the container need not exist, its account must.
func NewAdmin(_ context.Context, o Options, _ admin.Creation) (*Admin, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if o.Management == nil {
		return nil, errors.New("ABS: containers are administered through the management API: add the fields subscriptionID and resourceGroup to the credentials, and run where an identity is ambient that may use it")
	}
	c, err := connect(o)
	if err != nil {
		var creds *credentialsError
		if errors.As(err, &creds) {
			err = fmt.Errorf("open %s: %w", o.location(), &store.Failure{Kind: store.ErrCredentials, Said: creds.Error(), Cause: err})
		}
		return nil, err
	}
	s := &Store{opts: o, client: c, caps: store.Capabilities{Provider: "ABS", Location: o.location()}}
	if s.management, err = newManagement(o, c); err != nil {
		return nil, fmt.Errorf("open %s: %w", o.location(), err)
	}
	rules, _ := immutability.RulesOf("ABS")
	return &Admin{s: s, rules: rules}, nil
}

// Rules implements admin.Bucket.
func (a *Admin) Rules() immutability.BucketRules { return a.rules }

// Location implements admin.Bucket.
func (a *Admin) Location() string { return a.s.caps.Location }

// Read implements admin.Bucket. A container belongs to its account, so nobody else's can be met.
func (a *Admin) Read(ctx context.Context) (immutability.Bucket, error) {
	b := immutability.Bucket{Mode: immutability.ModeNone}
	told := a.s.management.ask(ctx)
	switch {
	case errors.Is(told.err, store.ErrNoBucket) && !errors.Is(told.err, store.ErrBucketName):
		return b, nil
	case told.err != nil:
		return b, fmt.Errorf("inspect %s: %w", a.s.caps.Location, told.err)
	case ctx.Err() != nil:
		return b, ctx.Err()
	}
	b.Exists, b.Versioned, b.ObjectLock = true, told.versions || told.versionLevel, told.versionLevel
	note := func(format string, args ...any) { b.Notes = append(b.Notes, fmt.Sprintf(format, args...)) }
	if told.policy && told.mode.Locks() {
		b.Mode, b.Period, b.Locked, b.Extensions = told.mode, immutability.Period(told.period), told.mode == immutability.ModeCompliance, told.extensions
		protection{mode: told.mode, versionLevel: told.versionLevel, extensions: told.extensions}.describe(note)
	}
	if told.hold {
		note("the container is under a legal hold: nothing in it can be deleted until that is cleared, and it can be cleared by whoever manages the container")
	}
	if told.softDelete > 0 {
		note("deleted versions are kept, and paid for, for %d more days (soft delete)", int(told.softDelete/day))
	}
	return b, nil
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
	m := a.s.management
	switch step.Do {
	case immutability.BucketCreate:
		return a.create(ctx, step)
	case immutability.BucketPolicy:
		return "", a.change(ctx, step, func(now policyNow) error {
			o := &armstorage.BlobContainersClientCreateOrUpdateImmutabilityPolicyOptions{Parameters: policyOf(step.Period)}
			if now.period > 0 {
				o.IfMatch = &now.etag
			}
			_, err := m.containers.CreateOrUpdateImmutabilityPolicy(ctx, m.group, m.account, m.container, o)
			return err
		})
	case immutability.BucketExtend:
		return "", a.change(ctx, step, func(now policyNow) error {
			_, err := m.containers.ExtendImmutabilityPolicy(ctx, m.group, m.account, m.container, now.etag,
				&armstorage.BlobContainersClientExtendImmutabilityPolicyOptions{Parameters: policyOf(step.Period)})
			return err
		})
	case immutability.BucketLock:
		now, err := a.policy(ctx)
		switch {
		case err != nil:
			return "", err
		case now.locked:
			return "", nil
		case now.period != step.Period:
			return "", fmt.Errorf("the policy is no longer %s, and only that was to be locked: %w", step.Period, admin.ErrWeaker)
		}
		_, err = m.containers.LockImmutabilityPolicy(ctx, m.group, m.account, m.container, now.etag, nil)
		return "", m.classify(ctx, err)
	}
	return "", fmt.Errorf("%s: %w", step.Do, store.ErrUnsupported)
}

// create makes the container. One that is there already is taken as it is: what it lacks is planned
// when it is read.
func (a *Admin) create(ctx context.Context, step immutability.BucketStep) (string, error) {
	m := a.s.management
	var body armstorage.BlobContainer
	if step.ObjectLock {
		on := true
		body.ContainerProperties = &armstorage.ContainerProperties{ImmutableStorageWithVersioning: &armstorage.ImmutableStorageWithVersioning{Enabled: &on}}
	}
	_, err := m.containers.Create(ctx, m.group, m.account, m.container, body, nil)
	if codeOf(err) == "ContainerAlreadyExists" {
		return "it was there already", nil
	}
	return "", m.classify(ctx, err)
}

func policyOf(p immutability.Period) *armstorage.ImmutabilityPolicy {
	days := int32(p.Duration() / day)
	return &armstorage.ImmutabilityPolicy{Properties: &armstorage.ImmutabilityPolicyProperty{ImmutabilityPeriodSinceCreationInDays: &days}}
}

// policyNow is the container's policy at this moment. The ETag makes a change of another one fail.
type policyNow struct {
	period immutability.Period // 0: there is none
	locked bool
	etag   string
}

func (a *Admin) policy(ctx context.Context) (policyNow, error) {
	m := a.s.management
	got, err := m.containers.GetImmutabilityPolicy(ctx, m.group, m.account, m.container, nil)
	if codeOf(err) == "ImmutabilityPolicyNotFound" {
		return policyNow{}, nil
	}
	if err != nil {
		return policyNow{}, m.classify(ctx, err)
	}
	now := policyNow{etag: value(got.Etag)}
	if got.ETag != nil {
		now.etag = *got.ETag
	}
	if p := got.Properties; p != nil {
		now.period = immutability.Period(value(p.ImmutabilityPeriodSinceCreationInDays)) * immutability.Period(day)
		now.locked = value(p.State) == armstorage.ImmutabilityPolicyStateLocked
	}
	return now, nil
}

// change raises the period of the policy that is there at this moment, and of no other.
func (a *Admin) change(ctx context.Context, step immutability.BucketStep, change func(policyNow) error) error {
	now, err := a.policy(ctx)
	switch {
	case err != nil:
		return err
	case now.period == step.Period:
		return nil
	case now.period > step.Period:
		return fmt.Errorf("the policy is %s by now: %w", now.period, admin.ErrWeaker)
	}
	return a.s.management.classify(ctx, change(now))
}

// Delete implements admin.Bucket. Azure deletes a container with all that no policy protects in it, so
// it is looked into just before; what is written into it at that very moment goes along.
func (a *Admin) Delete(ctx context.Context) error {
	if err := a.remove(ctx); err != nil {
		return fmt.Errorf("delete %s: %w", a.s.caps.Location, err)
	}
	return nil
}

func (a *Admin) remove(ctx context.Context) error {
	a.s.include = container.ListBlobsInclude{Versions: true, Snapshots: true, UncommittedBlobs: true}
	first, err := a.s.firstPage(ctx)
	switch {
	case errors.Is(err, store.ErrNoBucket):
		return nil
	case err != nil:
		return err
	case len(first) > 0:
		return &store.Failure{Kind: admin.ErrNotEmpty, Said: fmt.Sprintf("it holds %q, be it a version, a snapshot or an unfinished upload", value(first[0].Name))}
	}
	m := a.s.management
	_, err = m.containers.Delete(ctx, m.group, m.account, m.container, nil)
	switch {
	case codeOf(err) == "ContainerNotFound":
		return nil
	case statusOf(err) == http.StatusConflict:
		return &store.Failure{Kind: admin.ErrNotEmpty, Said: "Azure refuses: " + serverWords(err), Cause: err}
	}
	return m.classify(ctx, err)
}

// CloseIdle drops connections that nobody uses at this moment.
func (a *Admin) CloseIdle() { a.s.CloseIdle() }
