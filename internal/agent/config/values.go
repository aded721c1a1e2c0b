package config

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is written as 20s, 5m or 1h30m.
type Duration time.Duration

// D is it as a time.Duration.
func (d Duration) D() time.Duration { return time.Duration(d) }

// String is what UnmarshalJSON reads.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON writes the text.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads the text, or 0. Other bare numbers are refused: nobody means nanoseconds.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		if string(b) != "0" {
			return fmt.Errorf("%s is not a duration like 20s, 5m or 1h30m: give it a unit", b)
		}
		*d = 0
		return nil
	}
	parsed, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q is not a duration like 20s, 5m or 1h30m", s)
	}
	*d = Duration(parsed)
	return nil
}

// Bytes is written as 1048576, 128Mi, 1Gi or 500M.
type Bytes int64

// UnmarshalJSON reads a number or a text with a unit.
func (n *Bytes) UnmarshalJSON(b []byte) error {
	s := strings.Trim(string(b), `"`)
	v, err := ParseBytes(s)
	if err != nil {
		return err
	}
	*n = v
	return nil
}

// ParseBytes reads a number of bytes with an optional unit.
func ParseBytes(s string) (Bytes, error) {
	number := strings.TrimRight(s, "KMGTib")
	factor, known := map[string]int64{
		"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40,
	}[s[len(number):]]
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || !known || n < 0 || n > (1<<62)/factor {
		return 0, fmt.Errorf("%q is not a number of bytes like 128Mi, 1G or 1048576", s)
	}
	return Bytes(n * factor), nil
}
