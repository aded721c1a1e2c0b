package datadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/client/pkg/v3/types"
)

// What keeps etcd from being started on data of another version.
var (
	// ErrTooOld: the data are of an etcd that this one cannot follow at once.
	ErrTooOld = errors.New("data of an etcd that is too old")
	// ErrTooNew: the data were written by a newer etcd.
	ErrTooNew = errors.New("data of a newer etcd")
	// ErrMembershipDiffers: etcd 3.5 kept the members in two places, and they tell different
	// things. It went by one, etcd 3.6 goes by the other.
	ErrMembershipDiffers = errors.New("the members are recorded in two ways")
)

// firstSafe is the etcd 3.5 that brings its two records of the members into agreement.
const firstSafe = "3.5.26"

// Upgrade is what starting etcd on a data directory means for the data.
type Upgrade struct {
	// From is the minor version whose form the data have, such as 3.5; empty: there are no data.
	From string
	// Mends are the disagreements, one sentence each, that etcd corrects as it starts.
	Mends []string
}

// CheckUpgrade tells whether the etcd of this program may be started on the data directory dir:
// always if there is nothing in it or its data have the form of this version; after comparing
// both records of the members if they have that of etcd 3.5. It changes nothing, and reads the
// write-ahead log once for data of 3.5.
//
// Errors: [ErrTooOld], [ErrTooNew], [ErrMembershipDiffers], each with what to do; [ErrBusy] if an
// etcd runs on it; others if it could not be told.
func CheckUpgrade(ctx context.Context, dir string) (Upgrade, error) {
	if _, err := os.Stat(databasePath(dir)); errors.Is(err, fs.ErrNotExist) {
		return Upgrade{}, nil // etcd itself refuses a log without a database
	} else if err != nil {
		return Upgrade{}, err
	}
	s, removed, err := members(databasePath(dir))
	if err != nil {
		return Upgrade{}, err
	}
	from, err := upgradeFrom(dir, s)
	if err != nil || from != "3.5" {
		return Upgrade{From: from}, err
	}
	log, err := readChanges(ctx, dir)
	if err != nil {
		return Upgrade{From: from}, err
	}
	if log.start.Metadata.Index > s.ConsistentIndex {
		// A snapshot of the leader that was received but not put in place: etcd will do that.
		path := filepath.Join(dir, "member", "snap", fmt.Sprintf("%016x.snap.db", log.start.Metadata.Index))
		if s, removed, err = members(path); err != nil {
			return Upgrade{From: from}, fmt.Errorf("the database that belongs to the newest raft snapshot: %w", err)
		}
	}
	mends, err := compareMembership(dir, s, removed, log)
	return Upgrade{From: from, Mends: mends}, err
}

// members reads the state of a database and the ids of the members that were removed.
func members(path string) (State, map[uint64]bool, error) {
	db, err := OpenDB(path)
	if err != nil {
		return State{}, nil, err
	}
	defer db.Close()
	s, err := db.State()
	if err != nil {
		return s, nil, fmt.Errorf("%s: %w", path, err)
	}
	removed := map[uint64]bool{}
	b, ok := db.file.Bucket(membersRemovedBucket)
	if !ok {
		return s, removed, nil
	}
	err = b.Each(nil, func(k, _ []byte) error {
		id, err := types.IDFromString(string(k))
		removed[uint64(id)] = true
		return err
	})
	if err != nil {
		err = fmt.Errorf("%s: bucket %s: %w", path, membersRemovedBucket, err)
	}
	return s, removed, err
}

// undecided is the cluster version of every cluster in its first seconds, until its leader has asked
// all members: it says nothing about the release. A full taken then keeps it.
const undecided = "3.0.0"

// upgradeFrom is the minor version of the data, or why etcd cannot be started on them.
func upgradeFrom(dir string, s State) (string, error) {
	own := minorOf(version.Version)
	const wayOut = "start every member once with etcd " + firstSafe +
		" or a later 3.5, one after the other, or remove the data directory of this member so that it is restored or joins anew"
	switch {
	case s.StorageVersion != "":
		from := minorOf(s.StorageVersion)
		if less(own, from) {
			return from, fmt.Errorf("%s: %w: storage version %s, this is etcd %s: run the newer version, or finish a downgrade with it first", dir, ErrTooNew, s.StorageVersion, version.Version)
		}
		return from, nil
	case s.ClusterVersion != "" && less(own, minorOf(s.ClusterVersion)):
		return minorOf(s.ClusterVersion), fmt.Errorf("%s: %w: cluster version %s, this is etcd %s: run the newer version", dir, ErrTooNew, s.ClusterVersion, version.Version)
	case s.ConsistentIndex > 0 && s.Term == 0: // etcd writes the term since 3.5
		return "3.4", fmt.Errorf("%s: %w: it was never run by etcd 3.5: %s", dir, ErrTooOld, wayOut)
	case s.ClusterVersion != "" && s.ClusterVersion != undecided && less(minorOf(s.ClusterVersion), "3.5"):
		return minorOf(s.ClusterVersion), fmt.Errorf("%s: %w: the cluster is still at version %s: %s", dir, ErrTooOld, s.ClusterVersion, wayOut)
	case s.ClusterVersion != "" && !less(minorOf(s.ClusterVersion), "3.6"):
		// A cluster has this version only while every member runs it or a later one. That etcd did
		// not write its storage version yet, as in a learner that got its data as a whole, means nothing.
		return minorOf(s.ClusterVersion), nil
	}
	return "3.5", nil
}

// minorOf is major and minor of a version such as 3.5.21.
func minorOf(v string) string {
	parts := strings.SplitN(v, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// less compares two minor versions; what is no version is the least.
func less(a, b string) bool {
	number := func(v string) (n int) {
		for _, part := range strings.SplitN(v, ".", 2) {
			i, err := strconv.Atoi(part)
			if err != nil {
				return -1
			}
			n = n*1000 + i
		}
		return n
	}
	return number(a) < number(b)
}
