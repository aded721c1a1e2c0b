package s3

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// uploadsRule is the name of our lifecycle rule.
const uploadsRule = "druid-abort-incomplete-uploads"

// lifecycle is the bucket's rules as the SDK understands them, and as they were sent.
type lifecycle struct {
	rules   []types.LifecycleRule
	minimum types.TransitionDefaultMinimumObjectSize
	sent    []byte
}

// lifecycle reads them. A bucket without is no error.
func (a *Admin) lifecycle(ctx context.Context) (lifecycle, error) {
	var l lifecycle
	out, err := a.s.client.GetBucketLifecycleConfiguration(ctx, &awss3.GetBucketLifecycleConfigurationInput{Bucket: a.bucket()}, func(o *awss3.Options) {
		o.APIOptions = append(slices.Clone(o.APIOptions), keepBody(&l.sent))
	})
	switch {
	case codeOf(err) == "NoSuchLifecycleConfiguration":
		return lifecycle{}, nil
	case err != nil:
		return l, a.s.classify(ctx, err)
	}
	l.rules, l.minimum = out.Rules, out.TransitionDefaultMinimumObjectSize
	return l, nil
}

// keepBody copies the body of an answer.
func keepBody(to *[]byte) func(*middleware.Stack) error {
	return func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("KeepBody", func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
			out, meta, err := next.HandleDeserialize(ctx, in)
			resp, ok := out.RawResponse.(*smithyhttp.Response)
			if err != nil || !ok {
				return out, meta, err
			}
			body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
			resp.Body.Close()
			*to, resp.Body = body, io.NopCloser(bytes.NewReader(body))
			return out, meta, err
		}), middleware.After)
	}
}

// understood are the elements that survive being read and written by the SDK.
var understood = []string{"LifecycleConfiguration", "Rule", "ID", "Status", "Prefix", "Filter", "And", "Tag", "Key", "Value", "ObjectSizeGreaterThan",
	"ObjectSizeLessThan", "AbortIncompleteMultipartUpload", "DaysAfterInitiation", "Expiration", "Date", "Days", "ExpiredObjectDeleteMarker",
	"NoncurrentVersionExpiration", "NoncurrentDays", "NewerNoncurrentVersions", "NoncurrentVersionTransition", "Transition", "StorageClass"}

// foreign is the first element that would be lost if the rules were written again, or "".
func (l lifecycle) foreign() (string, error) {
	d := xml.NewDecoder(bytes.NewReader(l.sent))
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("the lifecycle rules cannot be understood: %w", err)
		}
		if e, is := t.(xml.StartElement); is && !slices.Contains(understood, e.Name.Local) {
			return e.Name.Local, nil
		}
	}
}

// aborts says whether a rule removes what is left of interrupted uploads, of all keys.
func aborts(r types.LifecycleRule) bool {
	if r.Status != types.ExpirationStatusEnabled || r.AbortIncompleteMultipartUpload == nil || aws.ToString(r.Prefix) != "" { //nolint:staticcheck // rules of old have it
		return false
	}
	f := r.Filter
	return f == nil || aws.ToString(f.Prefix) == "" && f.And == nil && f.Tag == nil && f.ObjectSizeGreaterThan == nil && f.ObjectSizeLessThan == nil
}

// readLifecycle notes what rules there are.
func (a *Admin) readLifecycle(ctx context.Context, b *immutability.Bucket) error {
	l, err := a.lifecycle(ctx)
	if err != nil {
		if errors.Is(err, store.ErrForbidden) {
			b.Notes = append(b.Notes, "the lifecycle rules are unknown: this identity lacks s3:GetLifecycleConfiguration")
		}
		return a.unlessUntold(ctx, err)
	}
	for _, r := range l.rules {
		b.AbortsUploads = b.AbortsUploads || aborts(r)
		if r.Status != types.ExpirationStatusEnabled {
			continue
		}
		name := aws.ToString(r.ID)
		if e := r.Expiration; e != nil && !aws.ToBool(e.ExpiredObjectDeleteMarker) {
			b.Notes = append(b.Notes, fmt.Sprintf("the lifecycle rule %q expires objects: with versions that leaves markers, which hide nothing here; locks are kept to", name))
		}
		if r.NoncurrentVersionExpiration != nil {
			b.Notes = append(b.Notes, fmt.Sprintf("the lifecycle rule %q deletes versions that are hidden or overwritten, once they are not locked", name))
		}
	}
	return nil
}

// addRule adds our lifecycle rule to those that are there. The server takes all rules or none, so
// they are sent again, and not at all where some of it would be lost on the way.
func (a *Admin) addRule(ctx context.Context) error {
	l, err := a.lifecycle(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(l.rules, aborts) {
		return nil
	}
	if name, err := l.foreign(); err != nil || name != "" {
		return fmt.Errorf("the rules that are there have something of this server's own (%s), which would be lost: add a rule by hand that aborts incomplete uploads (%w)", name, errors.Join(store.ErrUnsupported, err))
	}
	if slices.ContainsFunc(l.rules, func(r types.LifecycleRule) bool { return aws.ToString(r.ID) == uploadsRule }) {
		return fmt.Errorf("somebody has changed the rule %q: remove it, or add another that aborts incomplete uploads (%w)", uploadsRule, store.ErrUnsupported)
	}
	rule := types.LifecycleRule{
		ID: aws.String(uploadsRule), Status: types.ExpirationStatusEnabled, Filter: &types.LifecycleRuleFilter{Prefix: aws.String("")},
		AbortIncompleteMultipartUpload: &types.AbortIncompleteMultipartUpload{DaysAfterInitiation: aws.Int32(immutability.AbortUploadsAfter)},
	}
	_, err = a.s.client.PutBucketLifecycleConfiguration(ctx, &awss3.PutBucketLifecycleConfigurationInput{
		Bucket: a.bucket(), TransitionDefaultMinimumObjectSize: l.minimum,
		LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: append(l.rules, rule)},
	})
	if codeOf(err) == "MalformedXML" {
		return &store.Failure{Kind: store.ErrUnsupported, Said: "the server does not take such a lifecycle rule", Cause: err}
	}
	return a.s.classify(ctx, err)
}
