package main

import (
	"errors"
	"strings"
	"testing"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/engine/downgrader"
)

func TestADowngradeStopsAtAFullThatTheOriginalCannotRead(t *testing.T) {
	for name, want := range map[string]bool{
		"Full-00000000-00000169-1795334912.gz":  true,
		"Full-00000000-00000169-1795334912":     true,
		"Full-00000000-00000169-1795334912.zst": false,
	} {
		err := readable(agentapi.Snapshot{SnapName: name})
		if (err == nil) != want || err != nil && (!errors.Is(err, downgrader.ErrRefused) || !strings.Contains(err.Error(), name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestADowngradeIsToldWhatItMayNot before anybody is asked.
func TestADowngradeIsToldWhatItMayNot(t *testing.T) {
	for phrase, c := range map[string]struct {
		args []string
		says string
	}{
		"both ways":                {[]string{"--yes", "--cancel"}, "give one of them"},
		"no minor version":         {[]string{"--to=3.5.21"}, "write it like 3.5"},
		"a file that is not there": {[]string{"--config-file=/nowhere"}, "/nowhere"},
		"nobody answers":           {[]string{"--endpoints=http://127.0.0.1:1", "--etcd-connection-timeout=1s"}, "127.0.0.1:1"},
	} {
		t.Run(phrase, func(t *testing.T) {
			want := exitUsage
			if phrase == "nobody answers" {
				want = exitUnreachable
			}
			code, _, stderr := etcdbrctl(t, append([]string{"downgrade"}, c.args...)...)
			if code != want || !strings.Contains(stderr, c.says) {
				t.Errorf("exit code %d, want %d with %q:\n%s", code, want, c.says, stderr)
			}
		})
	}
}
