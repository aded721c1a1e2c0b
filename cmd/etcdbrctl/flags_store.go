package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/locked"
	"druid.internal/druid/internal/store/open"
)

// storeFlags are the original's flags that say where backups are; copy has a second set with
// the prefix "source-".
type storeFlags struct {
	set string // "" or "source-"

	provider, container, endpoint, tempDir string
	prefix                                 snapshot.Prefix
	parallelUploads                        int
	minChunkSize                           int64
	encryption                             open.Encryption

	lockPeriod time.Duration // 0: no lock is asked for
	lockMode   string        // empty: compliance
}

// What the flags of object locks say.
const (
	objectLockPeriod = "lock each new object for so long from its upload, for example 96h, where the bucket lets objects be locked one by one; 0: what the bucket stamps on them stands"
	objectLockMode   = "how: governance, or compliance, which nobody can lift before its end"
)

// addLock adds the flags of those who write backups.
func (f *storeFlags) addLock(flags *pflag.FlagSet) {
	flags.DurationVar(&f.lockPeriod, "object-lock-period", 0, objectLockPeriod)
	flags.StringVar(&f.lockMode, "object-lock-mode", "", "with --object-lock-period, "+objectLockMode+"; default: compliance")
}

// locked is the store with the locks that f asks for.
func (f *storeFlags) locked(s store.Store) (store.Store, error) {
	switch {
	case f.lockPeriod == 0 && f.lockMode != "":
		return nil, &usageError{errors.New("--object-lock-mode says how to lock, and not for how long: give --object-lock-period as well, or neither")}
	case f.lockPeriod == 0:
		return s, nil
	}
	l, err := locked.New(s, cmp.Or(immutability.Mode(f.lockMode), immutability.ModeCompliance), f.lockPeriod, time.Now)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--object-lock-period, --object-lock-mode: %w", err)}
	}
	return l, nil
}

func (f *storeFlags) add(flags *pflag.FlagSet, set, what string) {
	f.set = set
	name := func(s string) string { return set + s }
	flags.StringVar(&f.provider, name("storage-provider"), "", "kind of "+what+": "+open.Supported())
	flags.StringVar(&f.container, name("store-container"), "", "bucket, or directory of a Local store; default: environment "+f.containerVariable())
	flags.StringVar(&f.endpoint, name("store-endpoint-override"), "", "URL of the service, when it is not the provider's own")
	addPrefix(flags, &f.prefix, name("store-prefix"))
	flags.IntVar(&f.parallelUploads, name("max-parallel-chunk-uploads"), 5, "parts of one object sent at the same time")
	flags.Int64Var(&f.minChunkSize, name("min-chunk-size"), 5<<20, "smallest part of a multi-part upload, in bytes")
	if set != sourceSet { // nothing is written there
		addEncryption(flags, &f.encryption, set)
	}
	flags.StringVar(&f.tempDir, name("snapstore-temp-directory"), "/tmp", "where deltas are spilled that outgrow memory")
}

// sourceSet is the set of flags of a store that is only read.
const sourceSet = "source-"

// addEncryption adds the flags of the server-side encryption of what is written.
func addEncryption(flags *pflag.FlagSet, e *open.Encryption, set string) {
	flags.StringVar(&e.Algorithm, set+"store-server-side-encryption", "", "server-side encryption that each upload to S3 requests: AES256, aws:kms or aws:kms:dsse; empty: that of the credentials or the environment, else the bucket's default")
	flags.StringVar(&e.KMSKeyID, set+"store-kms-key-id", "", "key of aws:kms, by ID, ARN or alias; empty: the account's own key for S3")
}

// addPrefix adds the flag of a prefix. Operators, upstream's too, give it with an empty value for the
// root of a bucket.
func addPrefix(flags *pflag.FlagSet, p *snapshot.Prefix, name string) {
	flags.Var(p, name, "path below which this cluster's backups lie, for example NAMESPACE--UID/etcd-main")
	flags.Lookup(name).Annotations = map[string][]string{mayBeEmpty: {"the root of the bucket"}}
}

func (f *storeFlags) containerVariable() string {
	return strings.ToUpper(strings.ReplaceAll(f.set, "-", "_")) + "STORAGE_CONTAINER"
}
