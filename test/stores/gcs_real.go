package stores

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/api/option"
	ghttp "google.golang.org/api/transport/http"
)

// RealGCS is a bucket of Google's own in the hands of the service account of a key file.
func RealGCS(ctx context.Context, key []byte, bucket string) (Raw, error) {
	do, err := realGCS(ctx, key)
	return gcsRaw{do, bucket}, err
}

// UnlockRealGCS takes the retention policy off.
func UnlockRealGCS(ctx context.Context, key []byte, bucket string) error {
	do, err := realGCS(ctx, key)
	if err == nil {
		_, err = do(ctx, http.MethodPatch, "/storage/v1/b/"+bucket, map[string]any{"retentionPolicy": nil})
	}
	return err
}

func realGCS(ctx context.Context, key []byte) (func(ctx context.Context, method, path string, body any) ([]byte, error), error) {
	client, _, err := ghttp.NewClient(ctx, option.WithAuthCredentialsJSON(option.ServiceAccount, key), option.WithScopes("https://www.googleapis.com/auth/cloud-platform"))
	return func(ctx context.Context, method, path string, body any) ([]byte, error) {
		payload, raw := body.([]byte)
		if body != nil && !raw {
			var err error
			if payload, err = json.Marshal(body); err != nil {
				return nil, err
			}
		}
		req, err := http.NewRequestWithContext(ctx, method, "https://storage.googleapis.com"+path, bytes.NewReader(payload))
		if err != nil {
			return nil, err
		}
		if !raw {
			req.Header.Set("Content-Type", "application/json")
		}
		resp, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode/100 != 2 {
			err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
		}
		return answer, err
	}, err
}
