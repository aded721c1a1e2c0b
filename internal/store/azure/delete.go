package azure

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"druid.internal/druid/internal/store"
)

// Delete implements store.Deleter.
func (s *Store) Delete(ctx context.Context, v store.Version) error {
	if v.ID == "" && s.caps.Versions {
		return fmt.Errorf("delete %s in %s: no version is named, which would only hide it: %w", v.Key, s.caps.Location, store.ErrUnsupported)
	}
	var err error
	if v.ID == "" {
		err = s.deleteBlob(ctx, v)
	} else {
		err = s.deleteVersion(ctx, v)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("delete in %s: %w", s.caps.Location, err)
	}
	return nil
}

// deleteBlob removes a blob that has no versions, and only the very one that is there now.
func (s *Store) deleteBlob(ctx context.Context, v store.Version) error {
	props, err := s.properties(ctx, v)
	if err != nil {
		return err
	}
	if props.VersionID != nil {
		return fmt.Errorf("%s has versions by now, and none is named: %w", v.Key, store.ErrUnsupported)
	}
	return s.deleteCurrent(ctx, v, props.ETag)
}

// deleteVersion removes a version. The current one cannot be removed by its ID; it first has to
// become a previous one, which Azure does when the blob is deleted by its name. It refuses that
// for a locked version, so that this hides nothing which is to stay.
func (s *Store) deleteVersion(ctx context.Context, v store.Version) error {
	err := s.remove(ctx, v, nil)
	if codeOf(err) != string(bloberror.OperationNotAllowedOnRootBlob) {
		return s.refusal(ctx, v, err)
	}
	props, err := s.properties(ctx, v)
	if err != nil {
		return err
	}
	if value(props.IsCurrentVersion) {
		if err := s.deleteCurrent(ctx, v, props.ETag); err != nil {
			return err
		}
	}
	return s.refusal(ctx, v, s.remove(ctx, v, nil))
}

// deleteCurrent deletes by name what has the ETag.
func (s *Store) deleteCurrent(ctx context.Context, v store.Version, etag *azcore.ETag) error {
	return s.refusal(ctx, v, s.remove(ctx, store.Version{Key: v.Key}, etag))
}

func (s *Store) remove(ctx context.Context, v store.Version, etag *azcore.ETag) error {
	c, err := s.blob(v)
	if err != nil {
		return err
	}
	var opts blob.DeleteOptions
	if etag != nil {
		opts.AccessConditions = &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: etag}}
	}
	_, err = c.Delete(ctx, &opts)
	return err
}

// codeLegalHold has no constant in the SDK.
const codeLegalHold = "BlobImmutableDueToLegalHold"

// refusal translates the answer to a deletion. Of a lock the service says that it is the
// reason, but not until when, so that is asked for.
func (s *Store) refusal(ctx context.Context, v store.Version, err error) error {
	switch {
	case err == nil:
		return nil
	case codeOf(err) == string(bloberror.ConditionNotMet):
		return &store.Failure{Said: "it was replaced at this moment: " + serverWords(err), Remedy: "list again before deleting", Cause: err}
	case !blamesLock(err):
		return s.classifyVersion(ctx, v, err)
	}
	refused := &store.ImmutableError{Version: v, Hold: codeOf(err) == codeLegalHold, Err: errors.New(serverWords(err))}
	if o, statErr := s.stat(ctx, v); statErr == nil && o.Retention != nil && !refused.Hold {
		refused.Until = o.Retention.Until
	}
	return refused
}

// blamesLock says whether the service refused because of a policy or a legal hold.
func blamesLock(err error) bool {
	code := codeOf(err)
	return strings.HasPrefix(code, "BlobImmutableDueTo") || code == string(bloberror.ImmutabilityPolicyDeleteOnLockedPolicy)
}
