package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"druid.internal/druid/internal/agent/initialize"
	"druid.internal/druid/internal/etcd/datadir"
)

// condemned is the directory of data that may have been given up while etcd ran on them: the
// next initialization takes those of that member id for invalid, whatever they look like. So it
// does with data that etcd's own check at its start did not find with the others, if these agree.
type condemned struct {
	initialize.Directory
	dir  string
	file string // beside the data directory
	// refuted says why data are not what a majority of the cluster holds; empty: they are, or it
	// cannot be told.
	refuted func(context.Context, datadir.Inspection) string
}

// sentence is the file's content.
type sentence struct {
	Member uint64 `json:"member,string"`
	Why    string `json:"why"`
}

func condemnable(d initialize.Directory, dir string, refuted func(context.Context, datadir.Inspection) string) condemned {
	return condemned{d, dir, filepath.Join(filepath.Dir(filepath.Clean(dir)), "druid-condemned.json"), refuted}
}

// inconsistent is what etcd-wrapper leaves in the exit code file when etcd's check at its start
// found other data with its peers.
const inconsistent = "inconsistent"

// accused says whether etcd refused the data the last time.
func (c condemned) accused() bool {
	b, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Clean(c.dir)), "exit_code"))
	return err == nil && strings.TrimSpace(string(b)) == inconsistent
}

// condemn gives up the data of a member, durably.
func (c condemned) condemn(member uint64, why string) error {
	b, err := json.Marshal(sentence{member, why})
	if err != nil {
		return err
	}
	return datadir.WriteFile(c.file, b)
}

// Inspect implements initialize.Directory.
func (c condemned) Inspect(ctx context.Context, mode datadir.Mode, progress func(done, total int64)) (datadir.Inspection, error) {
	i, err := c.Directory.Inspect(ctx, mode, progress)
	if err != nil || i.State != datadir.Valid && i.State != datadir.Blank {
		return i, err
	}
	if c.accused() {
		if why := c.refuted(ctx, i); why != "" {
			i.State, i.Why = datadir.Invalid, why
			return i, nil
		}
	}
	b, err := os.ReadFile(c.file)
	if errors.Is(err, fs.ErrNotExist) {
		return i, nil
	}
	if err != nil {
		return i, fmt.Errorf("were the data given up? %w", err)
	}
	var s sentence
	if err := json.Unmarshal(b, &s); err != nil {
		return i, fmt.Errorf("were the data given up? %s: %w; remove the file if they are good", c.file, err)
	}
	if s.Member == i.MemberID {
		i.State, i.Why = datadir.Invalid, s.Why
	}
	return i, nil
}
