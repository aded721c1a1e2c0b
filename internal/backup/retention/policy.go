package retention

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Method is one of the original's policies for full snapshots, by the original's names.
type Method string

// The methods.
const (
	NoMethod Method = ""
	// LimitBased keeps the newest MaxBackups fulls.
	LimitBased Method = "LimitBased"
	// Exponential keeps every full of the current hour, the last of each hour of today, the
	// last of each of the seven days before, the last of each of the four weeks before that.
	Exponential Method = "Exponential"
)

// ParseMethod reads a method's name, or nothing for NoMethod.
func ParseMethod(s string) (Method, error) {
	switch m := Method(s); m {
	case NoMethod, LimitBased, Exponential:
		return m, nil
	}
	return NoMethod, fmt.Errorf("garbage collection policy %q: want %s or %s", s, Exponential, LimitBased)
}

// Policy says what is to be kept. The zero policy keeps everything.
//
// Method and Keep are keepers: a full stays if any of them keeps it, and if there is a keeper
// at all, the others may go. MaxAge and MaxSize are limits: what exceeds them may go even if
// a keeper keeps it. Deltas of the older fulls stay for DeltaRetention if there is a keeper
// or a DeltaRetention, else as long as the limits allow.
//
// Numbers count over all lineages, from the newest lineage backwards, so that a lineage that
// was left behind fades out as the new one grows; but snapshots of two lineages are never
// compared: each has hours, days and weeks of its own. The deltas after the newest full of a
// lineage that was left behind are the last that is known of it, and go only with that full.
type Policy struct {
	Method     Method `json:"method,omitempty"`
	MaxBackups int    `json:"maxBackups,omitempty"` // LimitBased: fulls to keep, at least 1

	Keep Counts `json:"keep,omitzero"`

	DeltaRetention time.Duration `json:"deltaRetention,omitempty"` // 0: deltas of the older fulls go at once, if there is a keeper
	MaxAge         time.Duration `json:"maxAge,omitempty"`         // by the time in the name; 0: any age
	MaxSize        int64         `json:"maxSize,omitempty"`        // stored bytes of everything, the oldest stream goes first; 0: any size
}

// Counts keep the newest full of each of the last so many hours, days, weeks and months (UTC,
// weeks from Monday) that have one. A full that cannot be used takes no place.
type Counts struct {
	Last    int `json:"last,omitempty"` // the newest fulls, whatever their time
	Hourly  int `json:"hourly,omitempty"`
	Daily   int `json:"daily,omitempty"`
	Weekly  int `json:"weekly,omitempty"`
	Monthly int `json:"monthly,omitempty"`
}

// IsZero reports whether the policy keeps everything.
func (p Policy) IsZero() bool {
	return !p.keepers() && p.DeltaRetention == 0 && p.MaxAge == 0 && p.MaxSize == 0
}

func (p Policy) keepers() bool { return p.Method != NoMethod || p.Keep != Counts{} }

// Validate reports every field that makes no sense.
func (p Policy) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, err := ParseMethod(string(p.Method)); err != nil {
		errs = append(errs, err)
	}
	if p.Method == LimitBased && p.MaxBackups < 1 {
		bad("%s needs a number of backups to keep of at least 1, not %d", LimitBased, p.MaxBackups)
	}
	if p.Method != LimitBased && p.MaxBackups < 0 {
		bad("%d is no number of backups to keep", p.MaxBackups)
	}
	for name, n := range p.Keep.named {
		if n < 0 {
			bad("keep %d %s: a count cannot be negative", n, name)
		}
	}
	for name, d := range map[string]time.Duration{"delta retention period": p.DeltaRetention, "maximum age": p.MaxAge} {
		if d < 0 {
			bad("%s %s cannot be negative", name, d)
		}
	}
	if p.MaxSize < 0 {
		bad("maximum size %d cannot be negative", p.MaxSize)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("retention policy: %w", err)
	}
	return nil
}

// named ranges over the counts with the words for them.
func (c Counts) named(yield func(string, int) bool) {
	_ = yield("last", c.Last) && yield("hourly", c.Hourly) && yield("daily", c.Daily) &&
		yield("weekly", c.Weekly) && yield("monthly", c.Monthly)
}

// String is one line for people.
func (p Policy) String() string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch p.Method {
	case LimitBased:
		add("%s %d", LimitBased, p.MaxBackups)
	case NoMethod:
	default:
		add("%s", p.Method)
	}
	for name, n := range p.Keep.named {
		if n != 0 {
			add("keep %s %d", name, n)
		}
	}
	if p.keepers() || p.DeltaRetention != 0 {
		add("older deltas for %s", p.DeltaRetention)
	}
	if p.MaxAge != 0 {
		add("at most %s old", p.MaxAge)
	}
	if p.MaxSize != 0 {
		add("at most %d bytes", p.MaxSize)
	}
	if len(parts) == 0 {
		return "keep everything"
	}
	return strings.Join(parts, ", ")
}
