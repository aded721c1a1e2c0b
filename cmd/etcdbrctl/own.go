package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// ownCommand is for the init container of pods with a local store, whose directory a kubelet makes
// for root.
func (a *app) ownCommand() *cobra.Command {
	user, group := -1, -1
	cmd := &cobra.Command{
		Use:    "own DIR",
		Short:  "Give a directory of a local store, with all that is in it, to a user",
		Hidden: true,
		Long: `Give a directory of a local store, with all that is in it, to a user. It needs the right to.

Symbolic links in it are given away themselves and are not followed.`,
		Example: `  etcdbrctl own --user=65532 --group=65532 /home/nonroot/backups`,
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) != 1 || args[0] == "":
				return &usageError{errors.New("exactly one directory is needed: etcdbrctl own --user=ID --group=ID DIR")}
			case user < 0 || group < 0:
				return &usageError{errors.New("--user and --group are needed, as numbers from 0")}
			}
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			if dir == filepath.Dir(dir) {
				return &usageError{errors.New("the root of the file system is no store")}
			}
			n, err := own(dir, user, group)
			if err != nil {
				return fmt.Errorf("give %s to %d:%d: %w", dir, user, group, err)
			}
			a.log.Info("the directory belongs to the user", "directory", dir, "user", user, "group", group, "changed", n)
			return nil
		},
	}
	cmd.Flags().IntVar(&user, "user", user, "id of the user")
	cmd.Flags().IntVar(&group, "group", group, "id of the group")
	return cmd
}

// own changes the owner of everything in dir, and of dir at last, so that whoever finds dir changed
// finds the rest changed. It returns how many files had another owner.
func own(dir string, user, group int) (changed int, err error) {
	root, err := os.OpenRoot(dir) // nothing outside is reached, whatever links there are
	if err != nil {
		return 0, err
	}
	defer root.Close()
	give := func(name string) error {
		info, err := root.Lstat(name)
		if err != nil {
			return err
		}
		if u, g, known := ownerOf(info); known && u == user && g == group {
			return nil
		}
		changed++
		return root.Lchown(name, user, group)
	}
	err = fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if err := give(name); !errors.Is(err, fs.ErrNotExist) { // what is gone belongs to nobody
			return err
		}
		return nil
	})
	if err != nil {
		return changed, err
	}
	return changed, give(".")
}

// ownerOf is who a file belongs to.
func ownerOf(info fs.FileInfo) (user, group int, known bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(s.Uid), int(s.Gid), true
}
