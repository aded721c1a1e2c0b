package retention

import "druid.internal/druid/internal/backup/immutability"

// Reason is why something is kept, deleted or blocked. The set is closed.
type Reason string

// Why the policy keeps something.
const (
	NoPolicy     Reason = "no-policy"
	WithinMax    Reason = "within-max-backups"
	NewestFull   Reason = "newest-full"
	ThisHour     Reason = "this-hour"
	LastOfHour   Reason = "last-of-hour"
	LastOfDay    Reason = "last-of-day"
	LastOfWeek   Reason = "last-of-week"
	KeepLast     Reason = "keep-last"
	KeepHourly   Reason = "keep-hourly"
	KeepDaily    Reason = "keep-daily"
	KeepWeekly   Reason = "keep-weekly"
	KeepMonthly  Reason = "keep-monthly"
	YoungDelta   Reason = "young-delta"
	EndOfLineage Reason = "end-of-lineage"
	WithinLimits Reason = "within-limits"
	WithSnapshot Reason = "with-snapshot"
	NotYetOldest Reason = "not-yet-oldest"
	NotMeant     Reason = "not-meant"
)

// Why something is kept although the policy would let it go: the properties of the package.
const (
	NewestChain     Reason = "newest-chain"
	CurrentStream   Reason = "current-stream"
	NeededByDelta   Reason = "needed-by-delta"
	NoNewerLineage  Reason = "no-newer-lineage"
	UploadMayRun    Reason = "upload-may-run"
	NotUnderstood   Reason = "not-understood"
	UnreadManifest  Reason = "unread-manifest"
	ManifestMayCome Reason = "manifest-may-come"
)

// Why the policy lets something go.
const (
	OverMaxBackups  Reason = "over-max-backups"
	NotLastOfPeriod Reason = "not-last-of-period"
	OlderThanWeeks  Reason = "older-than-five-weeks"
	NotCounted      Reason = "not-counted"
	OldDelta        Reason = "old-delta"
	BaseGoes        Reason = "base-goes"
	OverMaxAge      Reason = "over-max-age"
	OverMaxSize     Reason = "over-max-size"
	SnapshotGoes    Reason = "snapshot-goes"
	SnapshotGone    Reason = "snapshot-gone"
	ChunkComposed   Reason = "chunk-composed"
	UploadGivenUp   Reason = "upload-given-up"
)

// Why something that ought to go is blocked.
const (
	Locked           Reason = "locked"
	JustUnlocked     Reason = "just-unlocked"
	Held             Reason = "held"
	LockUnknown      Reason = "lock-unknown"
	WaitsForKey      Reason = "waits-for-key"
	WaitsForSnapshot Reason = "waits-for-snapshot"

	// Nothing is deleted that is newer than, or part of, the newest chain that was read whole.
	Unproven    Reason = "unproven"
	ProvenChain Reason = "proven-chain"
	AfterProven Reason = "after-proven"
)

var texts = map[Reason]string{
	NoPolicy:     "no policy is given",
	WithinMax:    "among the newest backups",
	NewestFull:   "the newest of its lineage",
	ThisHour:     "taken in this hour",
	LastOfHour:   "the last of its hour",
	LastOfDay:    "the last of its day",
	LastOfWeek:   "the last of its week",
	KeepLast:     "among the last to keep",
	KeepHourly:   "the newest of an hour to keep",
	KeepDaily:    "the newest of a day to keep",
	KeepWeekly:   "the newest of a week to keep",
	KeepMonthly:  "the newest of a month to keep",
	YoungDelta:   "inside the delta retention period",
	EndOfLineage: "the newest of a lineage that is kept",
	WithinLimits: "within the limits",
	WithSnapshot: "its snapshot is kept",
	NotYetOldest: "an older snapshot is still kept",
	NotMeant:     "not among what this collection is for",

	NewestChain:     "part of the newest chain, as listed",
	CurrentStream:   "part of the stream being written",
	NeededByDelta:   "a delta that is kept needs it",
	NoNewerLineage:  "no newer lineage can be restored",
	UploadMayRun:    "part of an upload that may still run",
	NotUnderstood:   "the timeline does not know it",
	UnreadManifest:  "its manifest cannot be used, so its lineage is in doubt",
	ManifestMayCome: "new, its manifest may be on the way",

	OverMaxBackups:  "more newer backups than to be kept",
	NotLastOfPeriod: "not the last of its period",
	OlderThanWeeks:  "older than five weeks",
	NotCounted:      "none of the counts keeps it",
	OldDelta:        "past the delta retention period",
	BaseGoes:        "its full goes",
	OverMaxAge:      "older than the maximum age",
	OverMaxSize:     "over the maximum size",
	SnapshotGoes:    "its snapshot goes",
	SnapshotGone:    "its snapshot is gone",
	ChunkComposed:   "its snapshot is complete without it",
	UploadGivenUp:   "part of an upload that was given up",

	Locked:           "locked",
	JustUnlocked:     "the lock ended only just now",
	Held:             "under a hold",
	LockUnknown:      "the lock is unknown",
	WaitsForKey:      "another version of its key is protected",
	WaitsForSnapshot: "its snapshot is protected",

	Unproven:    "no newer chain is proven by reading it",
	ProvenChain: "part of the newest chain that is proven by reading it",
	AfterProven: "newer than the newest chain that is proven by reading it",
}

// Text is the reason in words.
func (r Reason) Text() string {
	if text, known := texts[r]; known {
		return text
	}
	return string(r)
}

// Protects reports whether the reason is a property that holds against every policy.
func (r Reason) Protects() bool {
	switch r {
	case NewestChain, CurrentStream, NeededByDelta, NoNewerLineage, UploadMayRun, NotUnderstood, UnreadManifest, ManifestMayCome:
		return true
	}
	return false
}

// lockReason is the reason for what a store's lock says.
func lockReason(r immutability.Reason) Reason {
	switch r {
	case immutability.ReasonLocked:
		return Locked
	case immutability.ReasonMargin:
		return JustUnlocked
	case immutability.ReasonHold:
		return Held
	}
	return LockUnknown
}
