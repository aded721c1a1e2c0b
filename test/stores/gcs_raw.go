package stores

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// Identity is a service account that the shim lets in, see [gcsworm.Shim.Identify].
type Identity struct {
	Email string
	Key   []byte // its key file

	g *GCS
}

// Identify makes a service account known, which may do what is named. From the first on nobody
// is served without a token.
func (g *GCS) Identify(email string, permissions ...string) (Identity, error) {
	key, err := g.ServiceAccount(email)
	if err != nil {
		return Identity{}, err
	}
	g.Shim.Identify(email, permissions...)
	return Identity{email, key, g}, nil
}

// Confine is [gcsworm.Shim.Confine] of this identity.
func (i Identity) Confine(prefix string) { i.g.Shim.Confine(i.Email, prefix) }

// Do is [GCS.Do] as this identity.
func (i Identity) Do(ctx context.Context, method, path string, body any) ([]byte, error) {
	// The shim does not verify the signature of an assertion.
	claims, err := json.Marshal(map[string]string{"iss": i.Email})
	if err != nil {
		return nil, err
	}
	form := url.Values{"assertion": {"e30." + base64.RawURLEncoding.EncodeToString(claims) + ".e30"}}
	answer, err := i.g.Do(ctx, http.MethodPost, "/_worm/token?"+form.Encode(), nil)
	if err != nil {
		return nil, err
	}
	var token struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal(answer, &token); err != nil {
		return nil, err
	}
	return i.g.ask(ctx, token.Token, method, path, body)
}

// CreateBucket is [GCS.CreateBucket] as this identity.
func (i Identity) CreateBucket(ctx context.Context, name string, b GCSBucket) error {
	return createGCSBucket(ctx, i.Do, name, b)
}

// Raw is a bucket in the hands of this identity.
func (i Identity) Raw(bucket string) Raw { return gcsRaw{i.Do, bucket} }

// Raw is a bucket in the hands of somebody without an identity.
func (g *GCS) Raw(bucket string) Raw { return gcsRaw{g.Do, bucket} }

type gcsRaw struct {
	do     func(ctx context.Context, method, path string, body any) ([]byte, error)
	bucket string
}

func (r gcsRaw) Overwrite(ctx context.Context, key string, body []byte) error {
	_, err := r.do(ctx, http.MethodPost, "/upload/storage/v1/b/"+r.bucket+"/o?uploadType=media&name="+url.QueryEscape(key), body)
	return err
}

func (r gcsRaw) Hide(ctx context.Context, key string) error {
	return r.Delete(ctx, RawVersion{Key: key})
}

func (r gcsRaw) Delete(ctx context.Context, v RawVersion) error {
	path := r.path(v)
	if v.ID != "" {
		path += "?generation=" + v.ID
	}
	_, err := r.do(ctx, http.MethodDelete, path, nil)
	return err
}

// Shorten changes the policy of the bucket.
func (r gcsRaw) Shorten(ctx context.Context, _ RawVersion) error {
	_, err := r.do(ctx, http.MethodPatch, "/storage/v1/b/"+r.bucket, map[string]any{"retentionPolicy": map[string]any{"retentionPeriod": "60"}})
	return err
}

func (r gcsRaw) Read(ctx context.Context, v RawVersion) ([]byte, error) {
	path := r.path(v) + "?alt=media"
	if v.ID != "" {
		path += "&generation=" + v.ID
	}
	return r.do(ctx, http.MethodGet, path, nil)
}

func (r gcsRaw) path(v RawVersion) string {
	return "/storage/v1/b/" + r.bucket + "/o/" + url.PathEscape(v.Key)
}

func (r gcsRaw) Versions(ctx context.Context) ([]RawVersion, error) {
	var all []RawVersion
	for token := ""; ; {
		answer, err := r.do(ctx, http.MethodGet, "/storage/v1/b/"+r.bucket+"/o?versions=true&pageToken="+url.QueryEscape(token), nil)
		if err != nil {
			return nil, err
		}
		var page struct {
			Items []struct{ Name, Generation, Size, TimeDeleted string }
			Next  string `json:"nextPageToken"`
		}
		if err := json.Unmarshal(answer, &page); err != nil {
			return nil, fmt.Errorf("%w in %s", err, answer)
		}
		for _, o := range page.Items {
			size, err := strconv.ParseInt(o.Size, 10, 64)
			if err != nil {
				return nil, err
			}
			all = append(all, RawVersion{Key: o.Name, ID: o.Generation, Size: size, Current: o.TimeDeleted == ""})
		}
		if token = page.Next; token == "" {
			return all, nil
		}
	}
}
