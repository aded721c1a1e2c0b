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

// modeOf translates the server's word.
func modeOf(mode string) immutability.Mode {
	switch mode {
	case string(types.ObjectLockModeCompliance):
		return immutability.ModeCompliance
	case string(types.ObjectLockModeGovernance):
		return immutability.ModeGovernance
	case "":
		return immutability.ModeNone
	}
	return immutability.ModeUnknown
}

// lockHeaders are the headers that lock a new version. Nil is not sent, so that the bucket's
// default applies.
type lockHeaders struct {
	mode  types.ObjectLockMode
	until *time.Time
	hold  types.ObjectLockLegalHoldStatus
}

// lockFor translates what a caller asks for. A lock that the bucket cannot give is refused
// here, not by leaving it away.
func (s *Store) lockFor(r *immutability.Retention) (lockHeaders, error) {
	if r == nil {
		return lockHeaders{}, nil
	}
	var h lockHeaders
	switch r.Mode {
	case immutability.ModeCompliance:
		h.mode = types.ObjectLockModeCompliance
	case immutability.ModeGovernance:
		h.mode = types.ObjectLockModeGovernance
	case immutability.ModeNone, "":
	default:
		return h, fmt.Errorf("a lock of mode %s: %w", r.Mode, store.ErrUnsupported)
	}
	if h.mode != "" {
		if r.Until.IsZero() {
			return h, fmt.Errorf("a lock of mode %s needs a date", r.Mode)
		}
		until := wholeSecond(r.Until)
		h.until = &until
	}
	if r.Hold {
		h.hold = types.ObjectLockLegalHoldStatusOn
	}
	if (h.mode != "" || r.Hold) && !s.caps.ObjectLock && !s.lockUnknown {
		return h, fmt.Errorf("the bucket was created without object lock: %w", store.ErrUnsupported)
	}
	return h, nil
}

// wholeSecond rounds up: the server keeps seconds, and a lock must not end earlier than asked.
func wholeSecond(t time.Time) time.Time {
	if whole := t.UTC().Truncate(time.Second); !whole.Equal(t) {
		return whole.Add(time.Second)
	}
	return t.UTC()
}

// askRetention reads the lock of a version; none is ModeNone. Holds are not in the answer.
func (s *Store) askRetention(ctx context.Context, v store.Version) (immutability.Retention, error) {
	out, err := s.client.GetObjectRetention(ctx, &awss3.GetObjectRetentionInput{Bucket: &s.opts.Bucket, Key: &v.Key, VersionId: versionID(v)})
	switch {
	case err == nil && out.Retention != nil && out.Retention.Mode != "":
		return immutability.Retention{Mode: modeOf(string(out.Retention.Mode)), Until: aws.ToTime(out.Retention.RetainUntilDate)}, nil
	case err == nil, codeOf(err) == "NoSuchObjectLockConfiguration",
		codeOf(err) == "ObjectLockConfigurationNotFoundError": // Ceph says it of objects too
		return immutability.Retention{Mode: immutability.ModeNone}, nil
	}
	return immutability.Retention{}, s.classify(ctx, err)
}

// Extend implements store.Extender. It keeps the mode: S3 would let a governance lock become
// a compliance lock, which nobody could undo.
func (s *Store) Extend(ctx context.Context, v store.Version, until time.Time) (immutability.Retention, error) {
	r, err := s.extend(ctx, v, until)
	if err != nil {
		return immutability.Retention{}, fmt.Errorf("extend the lock of %s in %s: %w", v, s.caps.Location, err)
	}
	return r, nil
}

func (s *Store) extend(ctx context.Context, v store.Version, until time.Time) (immutability.Retention, error) {
	if !s.caps.ObjectLock && !s.lockUnknown {
		return immutability.Retention{}, fmt.Errorf("the bucket was created without object lock: %w", store.ErrUnsupported)
	}
	head, err := s.head(ctx, v)
	if err != nil {
		return immutability.Retention{}, s.whyMissing(ctx, err)
	}
	v.ID = aws.ToString(head.VersionId)
	current, err := s.retention(ctx, v, head)
	switch {
	case err != nil:
		return immutability.Retention{}, err
	case current == nil || current.Mode == immutability.ModeUnknown:
		return immutability.Retention{}, fmt.Errorf("its lock cannot be read, grant s3:GetObjectRetention: %w", store.ErrForbidden)
	case current.Mode == immutability.ModeNone:
		return immutability.Retention{}, fmt.Errorf("it has no lock that could be extended: %w", store.ErrUnsupported)
	}
	until = wholeSecond(until)
	switch {
	case until.Before(current.Until):
		return immutability.Retention{}, &store.ImmutableError{Version: v, Until: current.Until, Err: errors.New("a lock can only become longer")}
	case until.Equal(current.Until):
		return *current, nil
	}
	mode := types.ObjectLockRetentionModeCompliance
	if current.Mode == immutability.ModeGovernance {
		mode = types.ObjectLockRetentionModeGovernance
	}
	_, err = s.client.PutObjectRetention(ctx, &awss3.PutObjectRetentionInput{
		Bucket: &s.opts.Bucket, Key: &v.Key, VersionId: versionID(v),
		Retention: &types.ObjectLockRetention{Mode: mode, RetainUntilDate: &until},
	})
	if err != nil {
		return immutability.Retention{}, s.classify(ctx, err)
	}
	got, err := s.askRetention(ctx, v)
	if err != nil {
		return immutability.Retention{}, fmt.Errorf("read back: %w", err)
	}
	got.Hold = current.Hold
	if got.Mode != current.Mode || got.Until.Before(until) {
		return got, fmt.Errorf("the server accepted it but the lock reads %s until %s, not %s until %s", got.Mode, got.Until.UTC().Format(time.RFC3339), current.Mode, until.Format(time.RFC3339))
	}
	return got, nil
}

// SetHold implements store.Holder with a legal hold.
func (s *Store) SetHold(ctx context.Context, v store.Version, on bool) error {
	if !s.caps.ObjectLock && !s.lockUnknown {
		return fmt.Errorf("hold %s in %s: the bucket was created without object lock: %w", v, s.caps.Location, store.ErrUnsupported)
	}
	status := types.ObjectLockLegalHoldStatusOff
	if on {
		status = types.ObjectLockLegalHoldStatusOn
	}
	_, err := s.client.PutObjectLegalHold(ctx, &awss3.PutObjectLegalHoldInput{
		Bucket: &s.opts.Bucket, Key: &v.Key, VersionId: versionID(v),
		LegalHold: &types.ObjectLockLegalHold{Status: status},
	})
	if err != nil {
		return fmt.Errorf("hold %s in %s: %w", v, s.caps.Location, s.classifyRead(ctx, err))
	}
	return nil
}

// lockConfig is what GetObjectLockConfiguration tells.
type lockConfig struct {
	enabled bool
	mode    immutability.Mode // of the default; ModeNone without one
	period  time.Duration
}

// lockConfiguration reads it. A bucket or server without object lock is not an error.
func (s *Store) lockConfiguration(ctx context.Context) (lockConfig, error) {
	none := lockConfig{mode: immutability.ModeNone}
	out, err := s.client.GetObjectLockConfiguration(ctx, &awss3.GetObjectLockConfigurationInput{Bucket: &s.opts.Bucket})
	if err != nil {
		switch {
		case codeOf(err) == "ObjectLockConfigurationNotFoundError", codeOf(err) == "NotImplemented",
			statusOf(err) == http.StatusMethodNotAllowed, statusOf(err) == http.StatusNotImplemented:
			return none, nil
		}
		return lockConfig{mode: immutability.ModeUnknown}, s.classify(ctx, err)
	}
	// Some servers answer without content where there is no lock.
	conf := out.ObjectLockConfiguration
	if conf == nil || conf.ObjectLockEnabled != types.ObjectLockEnabledEnabled {
		return none, nil
	}
	lock := lockConfig{enabled: true, mode: immutability.ModeNone}
	if conf.Rule != nil && conf.Rule.DefaultRetention != nil {
		d := conf.Rule.DefaultRetention
		lock.mode = modeOf(string(d.Mode))
		lock.period = time.Duration(aws.ToInt32(d.Days))*day + time.Duration(aws.ToInt32(d.Years))*365*day
	}
	return lock, nil
}

const day = 24 * time.Hour

// overwrites tells what becomes of what is overwritten, where that is not simply refused.
func (s *Store) overwrites(versioned, known bool) []string {
	switch {
	case s.caps.ConditionalPut || !known:
		return nil
	case versioned:
		return []string{"this server is not known to refuse an overwrite (If-None-Match): it makes a further version, and the manifest's digest decides which of them counts"}
	}
	return []string{"this server is not known to refuse an overwrite (If-None-Match) and the bucket keeps no versions: two who write the same name destroy each other's; switch versioning on"}
}

// justFound is how long what New was told is as good as asking again.
const justFound = time.Minute

// Inspect implements store.Inspector. The first time, right after New, it tells what that was told: a program that opens a
// bucket, looks at it once and ends asks for each setting once.
func (s *Store) Inspect(ctx context.Context) (store.Bucket, error) {
	told := s.found.Swap(nil)
	if told == nil || time.Since(told.at) > justFound {
		again, err := s.settings(ctx)
		if err != nil {
			return store.Bucket{}, fmt.Errorf("inspect %s: %w", s.caps.Location, err)
		}
		told = &again
	}
	return s.describe(told), nil
}

// Who can shorten the default lock: shortened, and where a statement of the bucket's policy denies that, shortenedAfter.
const (
	shortened      = "the default lock can be shortened or removed by whoever holds s3:PutBucketObjectLockConfiguration; versions already locked are not touched by that"
	shortenedAfter = "the default lock can be shortened or removed by nobody until whoever holds s3:PutBucketPolicy has taken the statement DruidDenySettings out of the bucket's policy; versions already locked are not touched by that"
)

// describe puts settings into words.
func (s *Store) describe(told *settings) store.Bucket {
	b := store.Bucket{Default: immutability.ModeUnknown}
	v, lock := told.versions, told.lock
	switch {
	case told.noVersions:
		b.Notes = append(b.Notes, "whether versions are kept is unknown: this identity lacks s3:GetBucketVersioning")
	case v.status == string(types.BucketVersioningStatusSuspended):
		b.Notes = append(b.Notes, "versioning is suspended: an overwrite destroys what was there")
	}
	b.Versioned = v.status == string(types.BucketVersioningStatusEnabled)
	b.Notes = append(b.Notes, s.overwrites(b.Versioned, !told.noVersions)...)
	if told.noLock {
		b.Notes = append(b.Notes, "the default lock is unknown: this identity lacks s3:GetBucketObjectLockConfiguration")
		return b
	}
	b.Default, b.Period = lock.mode, lock.period
	switch {
	case !lock.enabled:
		b.Notes = append(b.Notes, "object lock is off: whoever may delete versions can delete backups")
	case lock.mode == immutability.ModeNone:
		b.Notes = append(b.Notes, "object lock is on but has no default: only objects written with an explicit lock are protected")
	default:
		b.Notes = append(b.Notes, shortened)
	}
	return b
}
