package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"time"

	gcsdk "cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	osssdk "github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss"
	osscredentials "github.com/aliyun/alibabacloud-oss-go-sdk-v2/oss/credentials"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	swiftsdk "github.com/ncw/swift/v2"
	"google.golang.org/api/option"

	"druid.internal/druid/test/stores"
)

// The SDKs doing nothing else, as their documentation shows it: default sizes and parallelism,
// but for azblob, whose default of one block of 1 MiB at a time nobody would keep.

func (r remote) transport() *http.Transport {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(r.CA)
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
}

func (r remote) s3Client() *awss3.Client {
	return awss3.New(awss3.Options{
		BaseEndpoint: &r.Endpoint, Region: r.Region, UsePathStyle: true, HTTPClient: &http.Client{Transport: r.transport()},
		Credentials: credentials.NewStaticCredentialsProvider(r.User, r.Key, ""),
	})
}

func (r remote) gcsClient(ctx context.Context) (*gcsdk.Client, error) {
	return gcsdk.NewClient(ctx, option.WithEndpoint(r.Endpoint+"/storage/v1/"), gcsdk.WithJSONReads(),
		option.WithHTTPClient(&http.Client{Transport: r.transport()}))
}

func (r remote) blobClient(key string) (*blockblob.Client, error) {
	cred, err := azblob.NewSharedKeyCredential(stores.AzuriteAccount, r.Key)
	if err != nil {
		return nil, err
	}
	return blockblob.NewClientWithSharedKeyCredential(r.Endpoint+"/"+r.Bucket+"/"+key, cred,
		&blockblob.ClientOptions{ClientOptions: policy.ClientOptions{Transport: &http.Client{Transport: r.transport()}}})
}

func (r remote) ossClient() *osssdk.Client {
	return osssdk.NewClient(&osssdk.Config{
		Endpoint: &r.Endpoint, UsePathStyle: osssdk.Ptr(true), HttpClient: &http.Client{Transport: r.transport()},
		SignatureVersion: osssdk.Ptr(osssdk.SignatureVersionV1), CredentialsProvider: osscredentials.NewStaticCredentialsProvider(r.User, r.Key),
	})
}

func (r remote) swiftClient() *swiftsdk.Connection {
	return &swiftsdk.Connection{AuthVersion: 1, AuthUrl: r.Endpoint, UserName: r.User, ApiKey: r.Key, Transport: r.transport(), Timeout: 10 * time.Minute}
}

func (r remote) sdkUpload(ctx context.Context, key string, body io.Reader) error {
	switch r.Provider {
	case "S3":
		_, err := transfermanager.New(r.s3Client()).UploadObject(ctx, &transfermanager.UploadObjectInput{Bucket: &r.Bucket, Key: &key, Body: body})
		return err
	case "GCS":
		c, err := r.gcsClient(ctx)
		if err != nil {
			return err
		}
		w := c.Bucket(r.Bucket).Object(key).If(gcsdk.Conditions{DoesNotExist: true}).NewWriter(ctx)
		if _, err := io.CopyBuffer(struct{ io.Writer }{w}, body, make([]byte, pieceBytes)); err != nil {
			return err
		}
		return w.Close()
	case "ABS":
		c, err := r.blobClient(key)
		if err != nil {
			return err
		}
		_, err = c.UploadStream(ctx, body, &blockblob.UploadStreamOptions{BlockSize: 8 << 20, Concurrency: 5})
		return err
	case "Swift":
		f, err := r.swiftClient().DynamicLargeObjectCreate(ctx, &swiftsdk.LargeObjectOpts{Container: r.Bucket, ObjectName: key, SegmentContainer: r.Bucket, SegmentPrefix: key + ".segments", CheckHash: true, NoBuffer: true, ChunkSize: 10 << 20})
		if err != nil {
			return err
		}
		if _, err := io.CopyBuffer(struct{ io.Writer }{f}, body, make([]byte, 10<<20)); err != nil {
			return err
		}
		return f.Close()
	case "OSS":
		_, err := r.ossClient().NewUploader().UploadFrom(ctx, &osssdk.PutObjectRequest{Bucket: &r.Bucket, Key: &key}, body)
		return err
	}
	return fmt.Errorf("unknown provider %q", r.Provider)
}

func (r remote) sdkDownload(ctx context.Context, key string) (io.ReadCloser, error) {
	switch r.Provider {
	case "S3":
		out, err := r.s3Client().GetObject(ctx, &awss3.GetObjectInput{Bucket: &r.Bucket, Key: aws.String(key)})
		if err != nil {
			return nil, err
		}
		return out.Body, nil
	case "GCS":
		c, err := r.gcsClient(ctx)
		if err != nil {
			return nil, err
		}
		return c.Bucket(r.Bucket).Object(key).NewReader(ctx)
	case "ABS":
		c, err := r.blobClient(key)
		if err != nil {
			return nil, err
		}
		out, err := c.DownloadStream(ctx, nil)
		if err != nil {
			return nil, err
		}
		return out.Body, nil
	case "Swift":
		f, _, err := r.swiftClient().ObjectOpen(ctx, r.Bucket, key, false, nil)
		return f, err
	case "OSS":
		out, err := r.ossClient().GetObject(ctx, &osssdk.GetObjectRequest{Bucket: &r.Bucket, Key: &key})
		if err != nil {
			return nil, err
		}
		return out.Body, nil
	}
	return nil, fmt.Errorf("unknown provider %q", r.Provider)
}
