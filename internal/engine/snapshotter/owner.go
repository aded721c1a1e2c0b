package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/store"
)

// ErrOwned says that the prefix belongs to somebody else. Run returns it.
var ErrOwned = errors.New("the prefix is owned by another writer")

// ErrOtherData is returned by Run if the data directory belongs to another etcd than the one that is
// backed up.
var ErrOtherData = errors.New("the data directory is not that of the etcd")

// ownerIDs are the names under which the data may write: the first is the one to claim with.
// A configured owner, or the one beside the data, stands alone. Otherwise the lineage will do,
// with its ancestors if the data are known to come from them, and the cluster id, which alone
// is stable where there is no data directory.
func ownerIDs(configured, beside string, v verdict, e evidence, hasData bool) []string {
	switch {
	case configured != "":
		return []string{configured}
	case beside != "":
		return []string{beside}
	}
	ids := []string{string(v.lineage.ID)}
	if !v.foreign {
		parents := map[snapshot.LineageID]snapshot.LineageID{}
		for _, b := range e.bucket {
			parents[b.ID] = b.Parent
		}
		for at := v.lineage.Parent; at != "" && len(ids) <= len(parents)+1; at = parents[at] {
			ids = append(ids, string(at))
		}
	}
	cluster := clusterOwner(e.cluster)
	if hasData {
		return append(ids, cluster)
	}
	return append([]string{cluster}, ids...)
}

// clusterOwner is the name under which the data of a cluster may write.
func clusterOwner(id uint64) string { return fmt.Sprintf("cluster-%016x", id) }

// ours reports whether the record names one of ids.
func ours(r *catalog.OwnerRecord, ids []string) bool {
	return r.Err == nil && (slices.Contains(ids, r.ID) || r.ClusterID != 0 && slices.Contains(ids, clusterOwner(r.ClusterID)))
}

// guard makes sure that we own the prefix, and returns the record that says so.
func (s *Snapshotter) guard(ctx context.Context, current *catalog.OwnerRecord, ids []string, cluster uint64) (catalog.OwnerRecord, error) {
	cfg := s.cfg
	for {
		after := int64(0)
		if current != nil {
			after = current.Number
			if ours(current, ids) {
				return *current, nil
			}
			if may, err := s.mayTakeOver(ctx, current); err != nil {
				return catalog.OwnerRecord{}, err
			} else if !may {
				return catalog.OwnerRecord{}, refusal(current, ids[0])
			}
		}
		claim := snapshot.Owner{ID: ids[0], Note: cfg.OwnerNote, Since: cfg.Now().UTC()}
		if cfg.Owner == "" {
			claim.ClusterID = cluster
		}
		rec, err := catalog.Claim(ctx, cfg.Store, cfg.Prefix, after, claim)
		if err == nil {
			code, text := OwnerClaimed, "the prefix had no owner; it is "+rec.ID+" now"
			if current != nil {
				code, text = OwnerReplaced, fmt.Sprintf("%s took the prefix over from %q", rec.ID, current.ID)
			}
			s.tell(Event{Code: code, Text: text})
			return rec, nil
		}
		if !errors.Is(err, catalog.ErrClaimed) {
			return catalog.OwnerRecord{}, err
		}
		// Somebody was faster: look who it is. Taking over is meant against the owner one
		// knew of, not against one that came at the same moment.
		c, rerr := catalog.Read(ctx, cfg.Store, cfg.Prefix, catalog.Options{
			Headers: func(snapshot.Name) bool { return false }, Tags: catalog.NoTags, SkipDigests: true,
		})
		if rerr != nil {
			return catalog.OwnerRecord{}, rerr
		}
		if c.Owner != nil && !ours(c.Owner, ids) {
			return catalog.OwnerRecord{}, refusal(c.Owner, ids[0])
		}
		current = c.Owner
	}
}

// mayTakeOver: it was said, or we are the same owner made anew. Owners NAME/UID of which only the uid
// differs are the same thing at different times, as an Etcd that was deleted and made again. The one
// whose claim was replaced is the former one: it never takes the prefix back by itself.
func (s *Snapshotter) mayTakeOver(ctx context.Context, current *catalog.OwnerRecord) (bool, error) {
	if s.cfg.TakeOver {
		return true, nil
	}
	return isSuccessor(ctx, s.cfg.Store, s.cfg.Prefix, current, s.cfg.Owner)
}

// isSuccessor: owner is the one that current was, made anew, and never owned the prefix itself.
func isSuccessor(ctx context.Context, s store.Reader, prefix snapshot.Prefix, current *catalog.OwnerRecord, owner string) (bool, error) {
	if current.Err != nil || !madeAnew(current.ID, owner) {
		return false, nil
	}
	for n := current.Number - 1; n > 0; n-- {
		earlier, err := earlierOwner(ctx, s, prefix, n)
		if err != nil {
			return false, err
		}
		if earlier == nil || earlier.Err != nil || earlier.ID == owner {
			return false, nil
		}
	}
	return true, nil
}

func earlierOwner(ctx context.Context, s store.Reader, prefix snapshot.Prefix, number int64) (*catalog.OwnerRecord, error) {
	rec, err := catalog.OwnerAt(ctx, s, prefix, number)
	if err != nil {
		return nil, fmt.Errorf("look who owned the prefix before: %w", err)
	}
	return rec, nil
}

// Restorable is nil if owner may restore by himself what c found: whoever may write there may, and besides whoever wrote it, which
// is who owned the prefix before if nothing was written since. Who is refused gets ErrOwned, in the words in which Run says it. An
// empty owner is refused nothing: it is by the data that one finds out whose they are. Nor is anybody because of records that name
// nobody: who put them there shall not keep others from their backups.
func Restorable(ctx context.Context, s store.Reader, c *catalog.Catalog, owner string, takeOver bool) error {
	if owner == "" || takeOver {
		return nil
	}
	var current, next *catalog.OwnerRecord // who owns it, and who followed whoever is looked at
	for rec, err := range catalog.Owners(ctx, s, c.Prefix) {
		switch {
		case err != nil:
			return fmt.Errorf("look who owned the prefix: %w", err)
		case rec.Err != nil:
			continue
		case current == nil:
			current = rec
			if rec.ID == owner {
				return nil
			}
			if may, err := isSuccessor(ctx, s, c.Prefix, rec, owner); err != nil || may {
				return err
			}
		case rec.ID == owner && writtenSince(c.Timeline, next.Since):
			return refusal(current, owner)
		case rec.ID == owner:
			return nil
		}
		next = rec
	}
	if current == nil {
		return nil
	}
	return refusal(current, owner)
}

// writtenSince reports whether a snapshot is of that second, or newer. It is if nobody said since when.
func writtenSince(t timeline.Timeline, since time.Time) bool {
	for _, l := range t.Lineages {
		for _, s := range slices.Concat(l.Snapshots, l.Missing) {
			if s.Name().Created >= since.Unix() {
				return true
			}
		}
	}
	return since.IsZero()
}

// madeAnew tells whether two owners are NAME/UID with the same name, which itself has a slash, and
// different uids.
func madeAnew(one, other string) bool {
	i, j := strings.LastIndex(one, "/"), strings.LastIndex(other, "/")
	return i > 0 && j > 0 && one[:i] == other[:j] && strings.Contains(one[:i], "/") && one[i+1:] != "" && other[j+1:] != "" && one != other
}

func refusal(current *catalog.OwnerRecord, id string) error {
	if current.Err != nil {
		return fmt.Errorf("%w, or by nobody: %w; somebody put it there who may write here: if you are sure that nothing else backs up here, start once with --take-over, or delete that version where no lock keeps it",
			ErrOwned, current.Err)
	}
	since, note := "", ""
	if !current.Since.IsZero() {
		since = " since " + current.Since.UTC().Format("2006-01-02 15:04:05 MST")
	}
	if current.Note != "" {
		note = " (" + current.Note + ")"
	}
	return fmt.Errorf("%w: %s%s%s, and this is %s; choose another --store-prefix, or if the other one is gone for good, start once with --take-over",
		ErrOwned, current.ID, note, since, id)
}

// StillOwner is ErrOwned if somebody has taken the prefix over since the session began. It is nil without a session, and where that cannot
// be learned.
func (s *Snapshotter) StillOwner(ctx context.Context) error {
	s.mu.Lock()
	n := s.current
	s.mu.Unlock()
	if n == nil {
		return nil
	}
	return n.stillOwner(ctx)
}

// stillOwner looks whether somebody has taken the prefix over. It costs one small request
// before each upload, and keeps the time short in which two write at once. What cannot be
// learned is no reason to stop backing up.
func (n *session) stillOwner(ctx context.Context) error {
	key := snapshot.OwnerKey(n.cfg.Prefix, n.owner.Number+1).String()
	_, err := n.cfg.Store.Stat(ctx, store.Version{Key: key})
	if err == nil {
		return fmt.Errorf("%w: %s was written since; the new owner continues, stop this one", ErrOwned, key)
	}
	return nil
}
