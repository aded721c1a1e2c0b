package swift

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/admin"
)

// Admin makes and removes one container. There is nothing else to administer: Swift locks nothing.
type Admin struct {
	s     *Store
	rules immutability.BucketRules
}

var _ admin.Bucket = (*Admin)(nil)

// NewAdmin prepares for the container, which need not exist.
func NewAdmin(_ context.Context, o Options, _ admin.Creation) (*Admin, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	rules, _ := immutability.RulesOf(s.caps.Provider)
	return &Admin{s: s, rules: rules}, nil
}

// Rules implements admin.Bucket.
func (a *Admin) Rules() immutability.BucketRules { return a.rules }

// Location implements admin.Bucket.
func (a *Admin) Location() string { return a.s.caps.Location }

// Read implements admin.Bucket. A container belongs to its project, so nobody else's can be met.
func (a *Admin) Read(ctx context.Context) (immutability.Bucket, error) {
	b := immutability.Bucket{Mode: immutability.ModeNone}
	_, err := a.s.container(ctx)
	switch {
	case errors.Is(err, store.ErrNoBucket):
		return b, nil
	case err != nil:
		return b, fmt.Errorf("inspect %s: %w", a.s.caps.Location, err)
	}
	told, err := a.s.Inspect(ctx)
	b.Exists, b.Notes = true, told.Notes
	return b, err
}

// Do implements admin.Bucket.
func (a *Admin) Do(ctx context.Context, step immutability.BucketStep) (string, error) {
	err := fmt.Errorf("%s: %w", step.Do, store.ErrUnsupported)
	if step.Do == immutability.BucketCreate { // of one that is there it changes nothing
		_, err = a.s.done(ctx, request{method: http.MethodPut, container: a.s.opts.Container})
	}
	if err != nil {
		return "", fmt.Errorf("%s of %s: %w", step.Do, a.s.caps.Location, a.s.classify(ctx, err))
	}
	return "", nil
}

// Delete implements admin.Bucket. Swift itself refuses where there is any object or segment.
func (a *Admin) Delete(ctx context.Context) error {
	_, err := a.s.done(ctx, request{method: http.MethodDelete, container: a.s.opts.Container})
	switch statusOf(err) {
	case http.StatusNotFound:
		return nil
	case http.StatusConflict:
		err = &store.Failure{Kind: admin.ErrNotEmpty, Said: "Swift refuses: " + err.Error(), Cause: err}
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", a.s.caps.Location, a.s.classify(ctx, err))
	}
	return nil
}

// CloseIdle drops connections that nobody uses at this moment.
func (a *Admin) CloseIdle() { a.s.CloseIdle() }
