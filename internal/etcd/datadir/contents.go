package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrForeign is returned for a directory that would be replaced or removed, and holds something that
// neither etcd nor this package made.
var ErrForeign = errors.New("directory holds other files than those of an etcd data directory")

// rebuildScratch matches the directory for temporary files of a rebuild, which a killed restore leaves in the
// unfinished directory.
const rebuildScratch = "etcdbrctl-scratch-rebuild-*"

// What etcd and this package make in a data directory and in the unfinished one beside it, by the path
// below it. The log and the snapshots may lie elsewhere, behind a symbolic link.
var (
	ownDirectories = []string{
		"member", "member/snap", "member/wal", "member/wal.tmp", "member/wal.broken.*",
		"fixtures", "fixtures/client", "fixtures/peer", // certificates of --auto-tls and --peer-auto-tls
		rebuildScratch,
	}
	ownFiles = []string{
		".touch", "member/.touch", "member/snap/.touch", "member/wal/.touch", // etcd tries whether it can write
		"member/snap/db", "member/snap/db.tmp*", "member/snap/tmp[0-9]*",
		"member/snap/*.snap", "member/snap/*.snap.db", "member/snap/*.snap.broken",
		"member/wal/*.wal", "member/wal/[01].tmp", "member/wal/*.wal.broken", "member/wal/*.wal.broken-*",
		"member/wal.*/*.wal", "member/wal.*/[01].tmp",
		"fixtures/*/cert.pem", "fixtures/*/key.pem",
		IdentityFile, "member/.druid-lineage.json-*",
		rebuildScratch + "/lock", rebuildScratch + "/base", rebuildScratch + "/marks-*", rebuildScratch + "/records-*",
	}
)

func isOwn(path string, directory bool) bool {
	patterns := ownFiles
	if directory {
		patterns = ownDirectories
	}
	return slices.ContainsFunc(patterns, func(p string) bool {
		is, _ := filepath.Match(p, path)
		return is
	})
}

// Contents is what a data directory holds.
type Contents struct {
	Path     string    `json:"path"`
	Files    int       `json:"files"`
	Bytes    int64     `json:"bytes"`
	Modified time.Time `json:"modified,omitzero"` // of the file that changed last
}

func (c Contents) String() string {
	s := fmt.Sprintf("%s: %d files, %d bytes", c.Path, c.Files, c.Bytes)
	if !c.Modified.IsZero() {
		s += ", changed last at " + c.Modified.UTC().Format(time.RFC3339)
	}
	return s
}

// survey reads the contents of the directory root, whose path below its data directory is within ("."
// for the data directory itself). It returns an [ErrForeign] that names what is in the way of replacing or
// removing root. No symbolic link is followed.
func survey(root, within string) (Contents, error) {
	c := Contents{Path: root}
	var foreign []string
	st, err := os.Lstat(root)
	if err != nil {
		return c, err
	}
	if !st.IsDir() {
		return c, fmt.Errorf("%w: %s is not a directory; move it away", ErrForeign, root)
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		below, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name := filepath.Join(within, below)
		link := d.Type()&fs.ModeSymlink != 0
		switch {
		case d.IsDir() && isOwn(name, true), link && isOwn(name, true):
			return nil
		case !isOwn(name, false), !d.Type().IsRegular() && !link:
			foreign = append(foreign, path)
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		c.Files, c.Bytes = c.Files+1, c.Bytes+st.Size()
		if st.ModTime().After(c.Modified) {
			c.Modified = st.ModTime()
		}
		return nil
	})
	if err != nil {
		return c, fmt.Errorf("look for other files in %s: %w", root, err)
	}
	if len(foreign) == 0 {
		return c, nil
	}
	const most = 3
	named := strings.Join(foreign[:min(most, len(foreign))], ", ")
	if more := len(foreign) - most; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return c, fmt.Errorf("%w: %s is in the way; move it away", ErrForeign, named)
}

// remove removes the directory root as of [survey], and nothing of one that holds other files.
func remove(root, within string) error {
	if _, err := survey(root, within); err != nil {
		return err
	}
	return os.RemoveAll(root)
}
