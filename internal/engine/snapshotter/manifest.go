package snapshotter

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/upload"
)

// putManifest writes the manifest of a snapshot, a few times if need be: a snapshot without
// one belongs to no lineage.
func (n *session) putManifest(ctx context.Context, name snapshot.Name, m snapshot.Manifest) error {
	const attempts = 5
	key := snapshot.SnapshotKey(n.cfg.Prefix, name).Manifest().String()
	content := m.Encode()
	for attempt := 1; ; attempt++ {
		_, err := upload.Put(ctx, n.cfg.Store, key, bytes.NewReader(content))
		if err == nil {
			return nil
		}
		err = fmt.Errorf("write the manifest of %s: %w", name, err)
		if attempt == attempts || errors.Is(err, upload.ErrConflict) {
			return err
		}
		n.log.Warn("the manifest was not written, trying again", "error", err)
		if werr := n.cfg.Retry.wait(ctx, attempt); werr != nil {
			return err
		}
	}
}
