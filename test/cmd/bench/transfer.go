package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/azure"
	"druid.internal/druid/internal/store/gcs"
	"druid.internal/druid/internal/store/oss"
	"druid.internal/druid/internal/store/s3"
	"druid.internal/druid/internal/store/swift"
	"druid.internal/druid/test/stores"
)

// remote is a bucket of a server, as a child process is told.
type remote struct {
	Provider string
	Endpoint string
	CA       []byte
	Bucket   string
	Region   string
	User     string
	Key      string

	fillWith func(count int) // instead of storing objects
}

func (r remote) String() string {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and bytes always marshal
	}
	return string(b)
}

// provider is what all providers of the product are.
type provider interface {
	store.Store
	store.Deleter
	CloseIdle()
}

// open is the product's own way to the bucket.
func (r remote) open(ctx context.Context) (provider, error) {
	switch r.Provider {
	case "S3":
		return s3.New(ctx, s3.Options{Bucket: r.Bucket, Endpoint: r.Endpoint, Region: r.Region, TrustedCAs: r.CA,
			Keys: func() (s3.Keys, error) { return s3.Keys{AccessKeyID: r.User, SecretAccessKey: r.Key}, nil }})
	case "GCS":
		return gcs.New(ctx, gcs.Options{Bucket: r.Bucket, Endpoint: r.Endpoint, Anonymous: true, TrustedCAs: r.CA})
	case "ABS":
		return azure.New(ctx, azure.Options{Account: stores.AzuriteAccount, Container: r.Bucket, Endpoint: r.Endpoint, TrustedCAs: r.CA,
			Keys: func() (azure.Keys, error) { return azure.Keys{AccountKey: r.Key}, nil }})
	case "Swift":
		return swift.New(ctx, swift.Options{Container: r.Bucket, AuthURL: r.Endpoint, TrustedCAs: r.CA,
			Credentials: func() (swift.Credentials, error) { return swift.Credentials{UserName: r.User, Password: r.Key}, nil }})
	case "OSS":
		return oss.New(ctx, oss.Options{Bucket: r.Bucket, Endpoint: r.Endpoint, TrustedCAs: r.CA,
			Keys: func() (oss.Keys, error) { return oss.Keys{AccessKeyID: r.User, AccessKeySecret: r.Key}, nil }})
	}
	return nil, fmt.Errorf("unknown provider %q", r.Provider)
}

// pieceBytes is what is handed on at once.
const pieceBytes = 256 << 10

// noise is a stream of random bytes that costs next to nothing to make: the same ones again
// and again, with their position in between.
type noise struct {
	left int64
	at   int
	b    [pieceBytes]byte
}

func newNoise(size int64) *noise {
	n := &noise{left: size}
	_, _ = rand.NewChaCha8([32]byte{1}).Read(n.b[:]) // never fails
	return n
}

func (n *noise) Read(p []byte) (int, error) {
	if n.left == 0 {
		return 0, io.EOF
	}
	if n.at == len(n.b) {
		n.at = 0
		copy(n.b[:], strconv.FormatInt(n.left, 10))
	}
	k := copy(p[:min(int64(len(p)), n.left)], n.b[n.at:])
	n.at += k
	n.left -= int64(k)
	return k, nil
}

// upload stores a stream of unknown size: WHO REMOTE KEY BYTES.
func upload(ctx context.Context, args []string) error {
	if err := arguments(args, 4); err != nil {
		return err
	}
	r, size, err := parseRemote(args[1], args[3])
	if err != nil {
		return err
	}
	body := struct{ io.Reader }{newNoise(size)} // nobody may ask it for its size
	if args[0] == "sdk" {
		return r.sdkUpload(ctx, args[2], body)
	}
	s, err := r.open(ctx)
	if err != nil {
		return err
	}
	o, err := s.Put(ctx, args[2], body, store.PutOptions{})
	if err == nil && o.Size != size {
		err = fmt.Errorf("stored %d bytes of %d", o.Size, size)
	}
	return err
}

// download reads an object in one stream and forgets it: WHO REMOTE KEY BYTES.
func download(ctx context.Context, args []string) error {
	if err := arguments(args, 4); err != nil {
		return err
	}
	r, size, err := parseRemote(args[1], args[3])
	if err != nil {
		return err
	}
	var body io.ReadCloser
	if args[0] == "sdk" {
		body, err = r.sdkDownload(ctx, args[2])
	} else {
		var s store.Store
		if s, err = r.open(ctx); err == nil {
			body, err = s.Open(ctx, store.Version{Key: args[2]}, 0, -1)
		}
	}
	if err != nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{body}, make([]byte, pieceBytes))
	if err == nil && n != size {
		err = fmt.Errorf("read %d bytes of %d", n, size)
	}
	return errors.Join(err, body.Close())
}

// listing lists everything: REMOTE COUNT.
func listing(ctx context.Context, args []string) error {
	if err := arguments(args, 2); err != nil {
		return err
	}
	r, count, err := parseRemote(args[0], args[1])
	if err != nil {
		return err
	}
	s, err := r.open(ctx)
	if err != nil {
		return err
	}
	n := int64(0)
	if err := s.List(ctx, "", func(store.Object) error { n++; return nil }); err != nil {
		return err
	}
	if n != count {
		return fmt.Errorf("listed %d objects, want %d", n, count)
	}
	return nil
}

func parseRemote(text, number string) (r remote, n int64, err error) {
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, 0, err
	}
	n, err = strconv.ParseInt(number, 10, 64)
	return r, n, err
}

// forget deletes an object.
func (r remote) forget(ctx context.Context, key string) error {
	s, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer s.CloseIdle()
	o, err := s.Stat(ctx, store.Version{Key: key})
	if err != nil {
		return err
	}
	return s.Delete(ctx, o.Version)
}
