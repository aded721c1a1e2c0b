package agentapi

import (
	"fmt"
	"time"
)

// MaxRefusal bounds for how long etcd's clients are refused at a time: nobody would admit them again if the one who
// asked for it died.
const MaxRefusal = 30 * time.Minute

// Refusal is how a member's etcd treats clients: POST /clients, and in GET /member. While it refuses them it serves
// sidecars alone. Seconds are rounded down.
type Refusal struct {
	ForSeconds  int64 `json:"forSeconds"`  // it has refused them all the time since
	LeftSeconds int64 `json:"leftSeconds"` // until it admits them by itself; 0: it does
	// Impossible is why clients cannot be refused here, as the last attempt showed; empty: they can, as far as is known.
	Impossible string `json:"impossible,omitempty"`
}

// Left is for how long clients are still refused; 0: they are admitted.
func (r Refusal) Left() time.Duration { return time.Duration(r.LeftSeconds) * time.Second }

// For is for how long they have been.
func (r Refusal) For() time.Duration { return time.Duration(r.ForSeconds) * time.Second }

// ParseRefuse reads the parameter refuse of POST /clients: 0 admits them again.
func ParseRefuse(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > MaxRefusal {
		return 0, fmt.Errorf("the parameter refuse is %.32q; give for how long clients are refused, such as 10m and at most %s, or 0s to admit them", s, MaxRefusal)
	}
	return d, nil
}
