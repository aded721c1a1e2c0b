package s3

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// lengthenWorkers is how many versions are asked about at once.
const lengthenWorkers = 8

// stamping is by how much sooner than creation and period a lock may end that the default lock gave: servers keep whole
// seconds of it, and some count it from the beginning of an upload and call the end its creation. Default locks are of
// whole days, so a former one is shorter by more.
const stamping = time.Minute

// walk counts what was done about the versions that are there.
type walk struct {
	mu                       sync.Mutex
	over, enough, lengthened int
	err                      error
}

// lengthen makes the locks of what is there what they would be had the default lock always been of
// the step: S3 stamps locks when something is written, and a longer default changes none of them. It
// looks at every version that is younger than the period, since no mark could tell after an
// interruption which of them were done; older ones would not be locked any more anyway.
func (a *Admin) lengthen(ctx context.Context, step immutability.BucketStep) (string, error) {
	a.s.caps.Versions, a.s.caps.ObjectLock = true, true
	head, err := a.s.client.HeadBucket(ctx, &awss3.HeadBucketInput{Bucket: a.bucket()})
	if err != nil {
		return "", a.s.classify(ctx, err)
	}
	now := immutability.Clock{Server: serverTime(head.ResultMetadata), Local: time.Now()}.ForDeletion()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		w        walk
		versions = make(chan store.Object)
		workers  sync.WaitGroup
	)
	for range lengthenWorkers {
		workers.Go(func() {
			for o := range versions {
				changed, err := a.lengthenOne(ctx, o, step)
				w.mu.Lock()
				switch {
				case err != nil && w.err == nil:
					w.err = fmt.Errorf("%s: %w", o.Version, err)
					cancel()
				case changed:
					w.lengthened++
				case err == nil:
					w.enough++
				}
				w.mu.Unlock()
			}
		})
	}
	err = a.s.list(ctx, "", func(o store.Object) error {
		if o.Marker {
			return nil
		}
		if !o.Modified.Add(step.Period.Duration()).After(now) {
			w.over++
			return nil
		}
		select {
		case versions <- o:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	close(versions)
	workers.Wait()
	if w.err != nil {
		return "", w.err
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d versions lengthened, %d were locked for long enough, %d are older than the period", w.lengthened, w.enough, w.over), nil
}

// lengthenOne locks one version until its creation and the period, but for what stamping makes of that, in the stronger
// mode of what it has and what the step says. A version that is gone needs nothing.
func (a *Admin) lengthenOne(ctx context.Context, o store.Object, step immutability.BucketStep) (changed bool, err error) {
	head, err := a.s.head(ctx, o.Version)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	has, err := a.s.retention(ctx, o.Version, head)
	switch {
	case err != nil:
		return false, err
	case has == nil || has.Mode == immutability.ModeUnknown:
		return false, fmt.Errorf("its lock cannot be read, grant s3:GetObjectRetention: %w", store.ErrForbidden)
	}
	until, mode := wholeSecond(o.Modified.Add(step.Period.Duration())), step.Mode
	if immutability.Compare(has.Mode, mode) > 0 {
		mode = has.Mode
	}
	if until.Add(-stamping).Before(has.Until) {
		if immutability.Compare(has.Mode, mode) == 0 {
			return false, nil
		}
		until = wholeSecond(has.Until) // no server keeps less of what it is told, though some do of their default
	}
	in := &awss3.PutObjectRetentionInput{
		Bucket: a.bucket(), Key: &o.Key, VersionId: aws.String(o.ID),
		Retention: &types.ObjectLockRetention{Mode: lockMode(mode), RetainUntilDate: &until},
	}
	// The mode of a lock is changed by nobody but who may bypass it, for the better as well. Neither the end
	// nor the mode that is asked for here is less than what was read a moment ago.
	harden := has.Mode == immutability.ModeGovernance && mode == immutability.ModeCompliance
	if harden {
		in.BypassGovernanceRetention = aws.Bool(true)
	}
	if _, err := a.s.client.PutObjectRetention(ctx, in); err != nil {
		err = a.s.classify(ctx, err)
		if harden {
			err = fmt.Errorf("its lock of mode governance cannot be made one of mode compliance, which takes s3:BypassGovernanceRetention: %w", err)
		}
		return false, err
	}
	got, err := a.s.askRetention(ctx, o.Version)
	if err != nil {
		return false, fmt.Errorf("read back: %w", err)
	}
	if got.Until.Before(until) || immutability.Compare(got.Mode, mode) < 0 {
		return false, fmt.Errorf("the server accepted it but the lock reads %s until %s, not %s until %s", got.Mode, got.Until.UTC().Format(time.RFC3339), mode, until.Format(time.RFC3339))
	}
	return true, nil
}
