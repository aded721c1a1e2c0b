package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"druid.internal/druid/test/stores"
)

// vault is a bucket seen with the eyes of its owner, who may do anything.
type vault struct {
	t      *testing.T
	client *s3.Client
	bucket string
}

func newVault(t *testing.T, m *stores.MinIO, bucket string) vault {
	return vault{t, m.Client(m.Root), bucket}
}

func (v vault) put(key string, content []byte) {
	v.t.Helper()
	if _, err := v.client.PutObject(context.Background(), &s3.PutObjectInput{Bucket: &v.bucket, Key: &key, Body: bytes.NewReader(content)}); err != nil {
		v.t.Fatal(err)
	}
}

func (v vault) get(key string) []byte {
	v.t.Helper()
	out, err := v.client.GetObject(context.Background(), &s3.GetObjectInput{Bucket: &v.bucket, Key: &key})
	if err != nil {
		v.t.Fatal(err)
	}
	defer out.Body.Close()
	b, err := io.ReadAll(out.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return b
}

// hide deletes without naming a version, which leaves a marker.
func (v vault) hide(key string) {
	v.t.Helper()
	if _, err := v.client.DeleteObject(context.Background(), &s3.DeleteObjectInput{Bucket: &v.bucket, Key: &key}); err != nil {
		v.t.Fatal(err)
	}
}

// destroy deletes all versions that are there.
func (v vault) destroy(key string) {
	v.t.Helper()
	out, err := v.client.ListObjectVersions(context.Background(), &s3.ListObjectVersionsInput{Bucket: &v.bucket, Prefix: &key})
	if err != nil {
		v.t.Fatal(err)
	}
	for _, x := range out.Versions {
		if *x.Key != key {
			continue
		}
		if _, err := v.client.DeleteObject(context.Background(), &s3.DeleteObjectInput{Bucket: &v.bucket, Key: &key, VersionId: x.VersionId}); err != nil {
			v.t.Fatal(err)
		}
	}
}

// replace leaves nothing but the new content.
func (v vault) replace(key string, content []byte) {
	v.t.Helper()
	v.destroy(key)
	v.put(key, content)
}

func (v vault) keys() []string {
	v.t.Helper()
	out, err := v.client.ListObjectsV2(context.Background(), &s3.ListObjectsV2Input{Bucket: &v.bucket})
	if err != nil {
		v.t.Fatal(err)
	}
	var keys []string
	for _, o := range out.Contents {
		keys = append(keys, *o.Key)
	}
	return keys
}

// find is the key of the n-th object, in the order of names, whose name begins with the word.
func (v vault) find(word string, n int) string {
	v.t.Helper()
	for _, k := range v.keys() {
		if strings.HasPrefix(path.Base(k), word) {
			if n == 0 {
				return k
			}
			n--
		}
	}
	v.t.Fatalf("bucket %s has too few objects %s", v.bucket, word)
	return ""
}

// TestPropertyDamageInARealBucketIsNamedAndNeverRestoredWrongly does to the objects of a
// versioned bucket what attackers, operators and broken disks do.
func TestPropertyDamageInARealBucketIsNamedAndNeverRestoredWrongly(t *testing.T) {
	t.Parallel()
	m := sharedMinIO(t)
	origin := newBucket(t, m, stores.Versioned)
	w := newWorld(t, 21, 60)
	w.useS3(m, m.Endpoint, origin)
	last := w.backup(120)
	source := newVault(t, m, origin)
	deltas := w.list().all("Incr")
	if len(deltas) < 4 {
		t.Fatalf("only %d deltas", len(deltas))
	}
	original := map[string][]byte{}
	for _, k := range source.keys() {
		original[k] = source.get(k)
	}
	ransom := []byte("your backups are encrypted, pay")

	for name, c := range map[string]struct {
		do      func(v vault)
		finding string // its code
		about   string // part of the key
		code    int    // exit code of restoring the latest
		reaches int64  // with the loss accepted, where that is possible
	}{
		"every object is hidden by a delete marker": {func(v vault) {
			for k := range original {
				v.hide(k)
			}
		}, "marker", "Full-", 0, 0},
		"every object is overwritten by a ransom note": {func(v vault) {
			for k := range original {
				v.put(k, ransom)
			}
		}, "versions", "Incr-", 0, 0},
		"every object is hidden and then overwritten": {func(v vault) {
			for k := range original {
				v.hide(k)
				v.put(k, ransom)
			}
		}, "marker", "Incr-", 0, 0},
		"manifests have a second version": {func(v vault) { v.put(v.find("Manifest-", 0), ransom) }, "many-manifests", "Full-", 0, 0},
		"newer versions are truncated": {func(v vault) {
			for k, b := range original {
				v.put(k, b[:len(b)/2])
			}
		}, "versions", "Full-", 0, 0},
		"newer versions have the right size and another content": {func(v vault) {
			for k, b := range original {
				v.put(k, bytes.Repeat([]byte{'x'}, len(b)))
			}
		}, "versions", "Full-", 0, 0},
		"foreign objects lie among them": {func(v vault) {
			v.put(prefix+"/v2/README.md", ransom)
			v.put(prefix+"/v2/Incr-00000009-00000002-1700000000.gz", ransom)
		}, "foreign", "README.md", 0, 0},
		"another cluster's prefix begins with ours": {func(v vault) {
			v.put(prefix+"-2/v2/Full-00000000-09999999-1999999999.gz", ransom)
			v.put(prefix+"-2/v2/README.md", ransom)
		}, "", "", 0, 0},
		"a delta in the middle is missing": {func(v vault) { v.destroy(v.find("Incr-", 1)) }, "gap", "Incr-", 3, deltas[0].To},
		"a delta in the middle is truncated": {func(v vault) {
			k := v.find("Incr-", 1)
			v.replace(k, original[k][:len(original[k])/2])
		}, "", "", 3, deltas[0].To},
		"a delta in the middle is empty":   {func(v vault) { v.replace(v.find("Incr-", 1), nil) }, "", "", 3, deltas[0].To},
		"a delta in the middle is garbage": {func(v vault) { v.replace(v.find("Incr-", 1), ransom) }, "gap", "Incr-", 3, deltas[0].To},
		"a bit in a delta is flipped": {func(v vault) {
			k := v.find("Incr-", 1)
			b := bytes.Clone(original[k])
			b[len(b)*3/4] ^= 4
			v.replace(k, b)
		}, "", "", 3, deltas[0].To},
		"two deltas have changed their names": {func(v vault) {
			a, b := v.find("Incr-", 1), v.find("Incr-", 2)
			v.replace(a, original[b])
			v.replace(b, original[a])
		}, "header-mismatch", "Incr-", 3, deltas[0].To},
		"a delta claims to reach farther": {func(v vault) {
			k := v.find("Incr-", len(deltas)-1)
			v.destroy(k)
			v.put(strings.Replace(k, fmt.Sprintf("-%08d-", last), fmt.Sprintf("-%08d-", last+7), 1), original[k])
		}, "header-mismatch", "Incr-", 3, deltas[len(deltas)-2].To},
		"the full is missing":   {func(v vault) { v.destroy(v.find("Full-", 0)) }, "missing-snapshot", "Full-", 4, 0},
		"the full is truncated": {func(v vault) { k := v.find("Full-", 0); v.replace(k, original[k][:len(original[k])-9]) }, "digest-mismatch", "Full-", 4, 0},
		"the full is garbage of the same size": {func(v vault) {
			k := v.find("Full-", 0)
			v.replace(k, bytes.Repeat([]byte{'x'}, len(original[k])))
		}, "", "", 4, 0}, // a listing cannot know, verify does
		"the manifest is garbage": {func(v vault) { v.replace(v.find("Manifest-", 0), ransom) }, "bad-manifest", "Full-", 3, 0},
		"the manifest is missing": {func(v vault) { v.destroy(v.find("Manifest-", 0)) }, "orphan", "", 3, 0},
		"of the full only a marker is left": {func(v vault) {
			k := v.find("Full-", 0)
			v.hide(k)
			v.destroy(k)
		}, "gone", "Full-", 4, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bucket := newBucket(t, m, stores.Versioned)
			v := newVault(t, m, bucket)
			for k, b := range original {
				v.put(k, b)
			}
			c.do(v)
			p := inS3(t, m, m.Endpoint, bucket, m.Root)
			if l := p.list(); c.finding != "" && !l.found(c.finding, c.about) {
				t.Errorf("no finding %s about %s among\n%+v", c.finding, c.about, l.Findings)
			} else if c.finding == "" && c.code == 0 && len(l.Findings) > 0 {
				t.Errorf("findings about nothing: %+v", l.Findings)
			}
			dir := t.TempDir() + "/restored"
			o := p.run("restore", append([]string{"--data-dir=" + dir}, alone...)...)
			if o.code != c.code {
				t.Fatalf("restore exits with %d, want %d\n%s", o.code, c.code, o.stderr)
			}
			if o.code != 0 {
				if code := p.run("verify").code; code != 3 && code != 4 {
					t.Errorf("restore is refused and verify exits with %d", code)
				}
			}
			on := *w
			on.t, on.place = t, p
			switch {
			case o.code == 0:
				on.check(dir, last)
				return
			case exists(dir):
				t.Error("it was refused and left a data directory")
			}
			o.line(t)
			if c.reaches > 0 {
				dir, err := p.restore(fmt.Sprintf("--accept-loss-to=%d", c.reaches))
				if err != nil {
					t.Fatalf("the loss was accepted: %v", err)
				}
				on.check(dir, c.reaches)
			}
		})
	}
}
