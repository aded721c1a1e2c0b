package s3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// sids are the names of our statements.
var sids = map[immutability.Guard]string{
	immutability.GuardPlainHTTP: "DruidDenyPlainHTTP",
	immutability.GuardOldTLS:    "DruidDenyOldTLS",
	immutability.GuardMarkers:   "DruidDenyMarkers",
	immutability.GuardSettings:  "DruidDenySettings",
}

// statement is what a guard says. Conditions of one statement must all be met, so plain HTTP and old
// TLS are two.
func statement(g immutability.Guard, arn string) map[string]any {
	s := map[string]any{"Sid": sids[g], "Effect": "Deny", "Principal": "*", "Resource": []any{arn, arn + "/*"}}
	switch g {
	case immutability.GuardPlainHTTP:
		s["Action"] = []any{"s3:*"}
		s["Condition"] = map[string]any{"Bool": map[string]any{"aws:SecureTransport": "false"}}
	case immutability.GuardOldTLS:
		s["Action"] = []any{"s3:*"}
		s["Condition"] = map[string]any{"NumericLessThan": map[string]any{"s3:TlsVersion": "1.2"}}
	case immutability.GuardMarkers:
		s["Action"] = []any{"s3:DeleteObject"}
		s["Resource"] = []any{arn + "/*"}
	case immutability.GuardSettings:
		s["Action"] = []any{"s3:BypassGovernanceRetention", "s3:PutBucketObjectLockConfiguration", "s3:PutBucketVersioning", "s3:PutLifecycleConfiguration"}
	}
	return s
}

// arn names the bucket in policies.
func (o Options) arn() string {
	partition := "aws"
	switch {
	case !o.ofAWS():
	case strings.HasPrefix(o.Region, "cn-"):
		partition = "aws-cn"
	case strings.HasPrefix(o.Region, "us-gov-"):
		partition = "aws-us-gov"
	}
	return "arn:" + partition + ":s3:::" + o.Bucket
}

// document is a bucket's policy. What is not ours stays as it was sent.
type document struct {
	rest       map[string]json.RawMessage
	statements []json.RawMessage
}

// parseDocument reads a policy; of none, an empty one.
func parseDocument(text string) (document, error) {
	d := document{rest: map[string]json.RawMessage{"Version": json.RawMessage(`"2012-10-17"`)}}
	if strings.TrimSpace(text) == "" {
		return d, nil
	}
	d.rest = nil
	if err := json.Unmarshal([]byte(text), &d.rest); err != nil {
		return d, fmt.Errorf("the bucket's policy cannot be understood: %w", err)
	}
	raw := d.rest["Statement"]
	delete(d.rest, "Statement")
	if len(raw) > 0 && raw[0] != '[' { // one alone may stand without brackets
		d.statements = []json.RawMessage{raw}
		return d, nil
	}
	if err := json.Unmarshal(raw, &d.statements); err != nil {
		return d, fmt.Errorf("the bucket's policy cannot be understood: %w", err)
	}
	return d, nil
}

// String is the policy; empty without statements, of which there must be one.
func (d document) String() string {
	if len(d.statements) == 0 {
		return ""
	}
	all := map[string]any{"Statement": d.statements}
	for name, v := range d.rest {
		all[name] = v
	}
	b, err := json.Marshal(all)
	if err != nil {
		panic(err) // it was JSON
	}
	return string(b)
}

// has says whether the guard is there and says what it shall; somebody may have changed it.
func (d document) has(g immutability.Guard, arn string) bool {
	want := normal("", statement(g, arn))
	return slices.ContainsFunc(d.statements, func(raw json.RawMessage) bool {
		var s map[string]any
		return json.Unmarshal(raw, &s) == nil && reflect.DeepEqual(normal("", s), want)
	})
}

// without is the document less every statement of the guard's name.
func (d document) without(g immutability.Guard) document {
	d.statements = slices.DeleteFunc(slices.Clone(d.statements), func(raw json.RawMessage) bool {
		var s struct{ Sid string }
		return json.Unmarshal(raw, &s) == nil && s.Sid == sids[g]
	})
	return d
}

func (d document) with(g immutability.Guard, arn string) document {
	b, err := json.Marshal(statement(g, arn))
	if err != nil {
		panic(err) // it is text and lists
	}
	d = d.without(g)
	d.statements = append(d.statements, b)
	return d
}

// normal is a value of a policy in one of the ways in which it can be written: servers make lists
// of single values and put them into another order.
func normal(name string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for k, x := range v {
			m[k] = normal(k, x)
		}
		return m
	case []any:
		list := make([]string, 0, len(v))
		for _, x := range v {
			list = append(list, fmt.Sprint(x))
		}
		slices.Sort(list)
		return list
	}
	if name == "Principal" {
		return map[string]any{"AWS": []string{fmt.Sprint(v)}}
	}
	return []string{fmt.Sprint(v)}
}

// policy reads the bucket's; one without is no error.
func (a *Admin) policy(ctx context.Context) (document, error) {
	out, err := a.s.client.GetBucketPolicy(ctx, &awss3.GetBucketPolicyInput{Bucket: a.bucket()})
	switch {
	case codeOf(err) == "NoSuchBucketPolicy":
		return parseDocument("")
	case err != nil:
		return document{}, a.s.classify(ctx, err)
	}
	return parseDocument(aws.ToString(out.Policy))
}

// readPolicy notes which guards are there.
func (a *Admin) readPolicy(ctx context.Context, b *immutability.Bucket) error {
	d, err := a.policy(ctx)
	if err != nil {
		if errors.Is(err, store.ErrForbidden) {
			b.Notes = append(b.Notes, "the bucket's policy is unknown: this identity lacks s3:GetBucketPolicy")
		}
		return a.unlessUntold(ctx, err)
	}
	for _, g := range immutability.Guards() {
		if d.has(g, a.s.opts.arn()) {
			b.Guards = append(b.Guards, g)
		}
	}
	return nil
}

// changePolicy adds or removes a guard and leaves everything else in the policy.
func (a *Admin) changePolicy(ctx context.Context, g immutability.Guard, wanted bool) error {
	before, err := a.policy(ctx)
	if err != nil {
		return err
	}
	if before.has(g, a.s.opts.arn()) && wanted {
		return nil
	}
	after := before.without(g)
	if wanted {
		after = before.with(g, a.s.opts.arn())
	}
	if len(after.statements) == 0 {
		_, err := a.s.client.DeleteBucketPolicy(ctx, &awss3.DeleteBucketPolicyInput{Bucket: a.bucket()})
		return a.s.classify(ctx, err)
	}
	_, err = a.s.client.PutBucketPolicy(ctx, &awss3.PutBucketPolicyInput{Bucket: a.bucket(), Policy: aws.String(after.String())})
	switch codeOf(err) {
	case "MalformedPolicy", "MalformedXML", "InvalidArgument":
		return &store.Failure{Kind: store.ErrUnsupported, Said: "the server does not take this statement: " + serverSaid(err), Cause: err}
	}
	if err != nil {
		return a.s.classify(ctx, err)
	}
	return a.stillIn(ctx, before, g, wanted)
}

// stillIn looks whether we can still get in. A server behind a proxy may take TLS for plain HTTP, and
// everybody would be kept out; while this connection lasts there may be a way back.
func (a *Admin) stillIn(ctx context.Context, before document, g immutability.Guard, wanted bool) error {
	if g != immutability.GuardPlainHTTP && g != immutability.GuardOldTLS || !wanted {
		return nil
	}
	_, err := a.s.client.HeadBucket(ctx, &awss3.HeadBucketInput{Bucket: a.bucket()})
	if err == nil || !errors.Is(a.s.classify(ctx, err), store.ErrForbidden) {
		return nil
	}
	var back error
	if text := before.String(); text == "" {
		_, back = a.s.client.DeleteBucketPolicy(ctx, &awss3.DeleteBucketPolicyInput{Bucket: a.bucket()})
	} else {
		_, back = a.s.client.PutBucketPolicy(ctx, &awss3.PutBucketPolicyInput{Bucket: a.bucket(), Policy: &text})
	}
	if back != nil {
		return fmt.Errorf("the server takes this connection for one that the statement %s denies, and the policy cannot be put back: its owner has to remove it (%w)", sids[g], a.s.classify(ctx, back))
	}
	return fmt.Errorf("the server takes this connection for one that the statement %s denies, so it was taken back: %w", sids[g], store.ErrUnsupported)
}
