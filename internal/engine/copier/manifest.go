package copier

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/store"
)

// putManifest copies the manifest of a snapshot that has arrived. Its text is kept as it is,
// unless the snapshot lost its `.final`: then the name in it changes, and nothing else.
func (x *execution) putManifest(ctx context.Context, s Step) error {
	content, err := x.manifest(ctx, s)
	if err != nil {
		return err
	}
	key := s.key.Manifest().String()
	_, err = x.c.to.Store.Put(ctx, key, bytes.NewReader(content), store.PutOptions{})
	if !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrUnknownOutcome) {
		return err
	}
	there, readErr := readManifest(ctx, x.c.to.Store, store.Version{Key: key})
	if readErr != nil {
		return fmt.Errorf("read the manifest back: %w", errors.Join(err, readErr))
	}
	m, parseErr := snapshot.ParseManifest(s.key.Name, there)
	switch {
	case parseErr != nil:
		return fmt.Errorf("%w: %s: %w; %s", ErrConflict, object(x.c.to.Store, key), parseErr, leftAlone)
	case m.Digest != s.Digest:
		return fmt.Errorf("%w: %s tells the digest %s, and %s %s; %s", ErrConflict, object(x.c.to.Store, key), m.Digest, object(x.c.from.Store, s.manifest.Key), s.Digest, leftAlone)
	}
	return nil
}

// manifest is the content to write.
func (x *execution) manifest(ctx context.Context, s Step) ([]byte, error) {
	content, err := readManifest(ctx, x.c.from.Store, s.manifest)
	if err == nil {
		content, err = rename(content, s.snap.Name(), s.key.Name)
	}
	switch {
	case errors.Is(err, store.ErrNotFound): // collected meanwhile; we have read it before
		m := *s.snap.Manifest
		m.Snapshot = s.key.Name.String()
		return m.Encode(), nil
	case err != nil:
		return nil, fmt.Errorf("manifest of %s: %w", s.From, err)
	}
	return content, nil
}

func readManifest(ctx context.Context, from store.Reader, v store.Version) ([]byte, error) {
	body, err := from.Open(ctx, v, 0, -1)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(io.LimitReader(body, snapshot.MaxManifestSize+1))
}

// rename makes the manifest of one name that of another, and keeps fields that this program
// does not know. The content must be a manifest before and after.
func rename(content []byte, from, to snapshot.Name) ([]byte, error) {
	if _, err := snapshot.ParseManifest(from, content); err != nil {
		return nil, err
	}
	if from == to {
		return content, nil
	}
	var fields map[string]json.RawMessage
	err := json.Unmarshal(content, &fields)
	if err == nil {
		fields["snapshot"], err = json.Marshal(to.String())
	}
	if err == nil {
		content, err = json.Marshal(fields)
	}
	if err != nil {
		return nil, err
	}
	content = append(content, '\n')
	if _, err := snapshot.ParseManifest(to, content); err != nil {
		return nil, err
	}
	return content, nil
}
