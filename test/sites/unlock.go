package sites

import (
	"context"
	"net/http"

	"druid.internal/druid/test/stores"
	"druid.internal/druid/test/stores/azworm"
)

// Unlocker is a site where what locks the objects of a bucket could be taken away, if nothing refused it: the policy
// of the bucket, or the default by which each new object gets a lock of its own.
type Unlocker interface {
	Unlock(ctx context.Context, bucket string, who Who) error
}

// Remover is a site where a bucket goes along with what is in it, if nothing refused it.
type Remover interface {
	Remove(ctx context.Context, bucket string, who Who) error
}

func (a *azure) Remove(ctx context.Context, bucket string, who Who) error {
	key, signature, err := a.credentials(bucket, who)
	if err != nil {
		return err
	}
	return stores.AzureContainer{Endpoint: a.server.Endpoint, CA: a.server.CA, Key: key, SAS: signature, Name: bucket}.Remove(ctx)
}

func (b byIdentity) Remove(ctx context.Context, bucket string, who Who) error {
	if who == Owner {
		return b.azure.Remove(ctx, bucket, who)
	}
	return stores.AzureContainer{Endpoint: b.server.Endpoint, CA: b.server.CA, Identity: azworm.TokenOf(identity(who, b.kind(bucket))), Name: bucket}.Remove(ctx)
}

func (m *minIO) Unlock(ctx context.Context, bucket string, who Who) error {
	keys, err := m.as(ctx, bucket, who)
	if err != nil {
		return err
	}
	return m.S3.Unlock(ctx, keys, bucket)
}

func (c *ceph) Unlock(ctx context.Context, bucket string, who Who) error {
	keys, err := c.as(ctx, bucket, who)
	if err != nil {
		return err
	}
	return c.S3.Unlock(ctx, keys, bucket)
}

func (g *gcs) Unlock(ctx context.Context, bucket string, who Who) error {
	i, err := g.identity(who)
	if err != nil {
		return err
	}
	_, err = i.Do(ctx, http.MethodPatch, "/storage/v1/b/"+bucket, map[string]any{"retentionPolicy": nil})
	return err
}

// Unlock asks the management API, to which a key or a SAS of the account is nothing: who has one of those is known there
// at best, and may do nothing.
func (a *azure) Unlock(ctx context.Context, bucket string, who Who) error {
	token := "powerless"
	if who == Owner {
		token = a.server.Token
	}
	c, err := a.server.ContainersBy(token)
	if err != nil {
		return err
	}
	etag := "*"
	if policy, err := c.GetImmutabilityPolicy(ctx, azworm.ResourceGroup, a.server.Account, bucket, nil); err == nil {
		etag = *policy.ETag
	}
	_, err = c.DeleteImmutabilityPolicy(ctx, azworm.ResourceGroup, a.server.Account, bucket, etag, nil)
	return err
}

func (o *oss) Unlock(ctx context.Context, bucket string, _ Who) error {
	return o.server.Unlock(ctx, bucket)
}
