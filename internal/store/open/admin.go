package open

import (
	"context"
	"fmt"

	"druid.internal/druid/internal/store/admin"
	"druid.internal/druid/internal/store/azure"
	"druid.internal/druid/internal/store/gcs"
	"druid.internal/druid/internal/store/local"
	"druid.internal/druid/internal/store/oss"
	"druid.internal/druid/internal/store/s3"
	"druid.internal/druid/internal/store/swift"
)

// Admin opens the bucket itself, which need not exist, for its administration. It fails as Open does.
func Admin(ctx context.Context, c Config, made admin.Creation) (admin.Bucket, error) {
	c, p, err := c.complete()
	if err != nil {
		return nil, err
	}
	ofS3 := func(ctx context.Context, o s3.Options) (*s3.Admin, error) { return s3.NewAdmin(ctx, o, made) }
	switch p {
	case S3:
		return using[admin.Bucket](ctx, c.ofS3, ofS3)
	case ECS:
		return using[admin.Bucket](ctx, c.ofECS, ofS3)
	case OCS:
		return using[admin.Bucket](ctx, c.ofOCS, ofS3)
	case GCS:
		return using[admin.Bucket](ctx, c.ofGCS, func(ctx context.Context, o gcs.Options) (*gcs.Admin, error) { return gcs.NewAdmin(ctx, o, made) })
	case ABS:
		return using[admin.Bucket](ctx, c.ofABS, func(ctx context.Context, o azure.Options) (*azure.Admin, error) { return azure.NewAdmin(ctx, o, made) })
	case OSS:
		return using[admin.Bucket](ctx, c.ofOSS, func(ctx context.Context, o oss.Options) (*oss.Admin, error) { return oss.NewAdmin(ctx, o, made) })
	case Swift:
		return using[admin.Bucket](ctx, c.ofSwift, func(ctx context.Context, o swift.Options) (*swift.Admin, error) { return swift.NewAdmin(ctx, o, made) })
	case Local:
		return using[admin.Bucket](ctx, c.ofLocal, func(_ context.Context, root string) (*local.Admin, error) { return local.NewAdmin(root) })
	}
	return nil, fmt.Errorf("buckets of storage provider %s cannot be administered: use one of %s", p, Supported())
}
