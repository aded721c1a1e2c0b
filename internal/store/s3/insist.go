package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// insist makes sure that a new version has the lock and the tags that were asked for. Ceph's
// gateway takes both with a multipart upload, and with the copies that are made by one, and
// forgets them; so they are read back, on every server alike, and set if they are missing. The
// time without them is the pause between two requests.
//
// It wraps the call that writes: insist(ctx)(write(...)). What cannot be read, for lack of a
// permission, is left as it is. If what is missing cannot be set, the object exists but is not
// what was asked for, which is store.ErrUnknownOutcome.
func (w *write) insist(ctx context.Context) func(store.Object, error) (store.Object, error) {
	return func(o store.Object, err error) (store.Object, error) {
		if err != nil || w.asked.Retention == nil && len(w.asked.Tags) == 0 {
			return o, err
		}
		// What is written is written: that the caller gives up now must not leave it unlocked.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		head, err := w.s.head(ctx, o.Version)
		if errors.Is(err, store.ErrForbidden) {
			return o, nil
		}
		if err == nil {
			err = w.insistOnLock(ctx, o.Version, head)
		}
		if err == nil {
			err = w.insistOnTags(ctx, o.Version, head)
		}
		if err != nil {
			return store.Object{}, fmt.Errorf("%w: it was written, but not with the lock and tags that were asked for, as far as is known: %w", store.ErrUnknownOutcome, err)
		}
		return o, nil
	}
}

func (w *write) insistOnLock(ctx context.Context, v store.Version, head *awss3.HeadObjectOutput) error {
	want := w.asked.Retention
	if want == nil {
		return nil
	}
	got, err := w.s.retention(ctx, v, head)
	if err != nil || got.Covers(*want) {
		return err
	}
	if w.lock.mode != "" && (immutability.Compare(got.Mode, want.Mode) < 0 || got.Until.Before(*w.lock.until)) {
		_, err := w.s.client.PutObjectRetention(ctx, &awss3.PutObjectRetentionInput{
			Bucket: &w.s.opts.Bucket, Key: &v.Key, VersionId: versionID(v),
			Retention: &types.ObjectLockRetention{Mode: types.ObjectLockRetentionMode(w.lock.mode), RetainUntilDate: w.lock.until},
		}, untilSettled)
		if err != nil {
			return fmt.Errorf("lock it: %w", w.s.classify(ctx, err))
		}
	}
	if want.Hold && !got.Hold {
		if err := w.s.SetHold(ctx, v, true); err != nil {
			return err
		}
	}
	head, err = w.s.head(ctx, v)
	if err != nil {
		return err
	}
	got, err = w.s.retention(ctx, v, head)
	if err == nil && !got.Covers(*want) {
		return fmt.Errorf("the server accepted a lock of mode %s until %s and does not have it: it reads %s until %s",
			want.Mode, want.Until.UTC().Format(time.RFC3339), got.Mode, got.Until.UTC().Format(time.RFC3339))
	}
	return err
}

// untilSettled repeats a request about what was written a moment ago also when it is refused or not
// found: on an eventually consistent server both may pass.
func untilSettled(o *awss3.Options) { o.Retryer = settling{o.Retryer} }

// settling is a retryer that repeats after 403 and 404.
type settling struct{ aws.Retryer }

func (r settling) IsErrorRetryable(err error) bool {
	status := statusOf(err)
	return status == http.StatusForbidden || status == http.StatusNotFound || r.Retryer.IsErrorRetryable(err)
}

func (w *write) insistOnTags(ctx context.Context, v store.Version, head *awss3.HeadObjectOutput) error {
	if len(w.asked.Tags) == 0 {
		return nil
	}
	got, err := w.s.tagsOf(ctx, v, head, v.ID != "")
	if err != nil || got == nil || len(got) == len(w.asked.Tags) {
		return err
	}
	if err := w.s.writeTags(ctx, v, w.asked.Tags); err != nil {
		return fmt.Errorf("tag it: %w", err)
	}
	return nil
}
