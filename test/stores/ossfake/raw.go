package ossfake

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"druid.internal/druid/test/stores"
)

// Raw is a bucket in the hands of whoever has the access key.
func (r *Running) Raw(bucket string) stores.Raw { return raw{r, bucket} }

type raw struct {
	r      *Running
	bucket string
}

func (x raw) ask(ctx context.Context, method, key string, query url.Values, body []byte) ([]byte, error) {
	u := url.URL{Path: "/" + x.bucket + "/" + key, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, x.r.Endpoint+u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "OSS "+x.r.AccessKeyID+":") // which is not verified
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: x.r.CA.ClientTLS(), DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %s", method, key, resp.Status, answer)
	}
	return answer, err
}

// Unlock removes the retention policy of a bucket.
func (r *Running) Unlock(ctx context.Context, bucket string) error {
	_, err := raw{r, bucket}.ask(ctx, http.MethodDelete, "", url.Values{"worm": {""}}, nil)
	return err
}

func (x raw) Overwrite(ctx context.Context, key string, body []byte) error {
	_, err := x.ask(ctx, http.MethodPut, key, nil, body)
	return err
}

func (x raw) Hide(ctx context.Context, key string) error {
	return x.Delete(ctx, stores.RawVersion{Key: key})
}

func (x raw) Delete(ctx context.Context, v stores.RawVersion) error {
	_, err := x.ask(ctx, http.MethodDelete, v.Key, of(v), nil)
	return err
}

func (x raw) Read(ctx context.Context, v stores.RawVersion) ([]byte, error) {
	return x.ask(ctx, http.MethodGet, v.Key, of(v), nil)
}

func of(v stores.RawVersion) url.Values {
	if v.ID == "" {
		return nil
	}
	return url.Values{"versionId": {v.ID}}
}

func (x raw) Versions(ctx context.Context) ([]stores.RawVersion, error) {
	var all []stores.RawVersion
	next := url.Values{"versions": {""}, "max-keys": {"1000"}}
	for {
		answer, err := x.ask(ctx, http.MethodGet, "", next, nil)
		if err != nil {
			return nil, err
		}
		var page struct {
			IsTruncated                        bool
			NextKeyMarker, NextVersionIdMarker string
			Items                              []struct {
				XMLName        xml.Name
				Key, VersionId string
				IsLatest       bool
				Size           int64
			} `xml:",any"`
		}
		if err := xml.Unmarshal(answer, &page); err != nil {
			return nil, fmt.Errorf("%w in %s", err, answer)
		}
		for _, i := range page.Items {
			if i.XMLName.Local == "Version" || i.XMLName.Local == "DeleteMarker" {
				all = append(all, stores.RawVersion{Key: i.Key, ID: i.VersionId, Size: i.Size, Current: i.IsLatest, Marker: i.XMLName.Local == "DeleteMarker"})
			}
		}
		if !page.IsTruncated {
			return all, nil
		}
		next.Set("key-marker", page.NextKeyMarker)
		next.Set("version-id-marker", page.NextVersionIdMarker)
	}
}
