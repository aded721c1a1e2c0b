package wrapper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/embed"
	"sigs.k8s.io/yaml"

	"druid.internal/druid/internal/etcd/datadir"
)

// requiredKeys are what a configuration of a member has to say: for what it does not say, etcd
// has defaults with which it would start a cluster of its own in the working directory.
var requiredKeys = []string{
	"name", "data-dir", "initial-cluster", "initial-cluster-token", "initial-cluster-state",
	"initial-advertise-peer-urls", "advertise-client-urls", "listen-peer-urls", "listen-client-urls",
}

// checkConfig tells whether the content is the configuration of a member: one that could not be
// mistaken for that of another etcd. Values are etcd's to judge, but for those at which it would
// end the process.
func checkConfig(content []byte) error {
	var c map[string]any
	if err := yaml.Unmarshal(content, &c); err != nil {
		return fmt.Errorf("not YAML: %s", clip(strings.Join(strings.Fields(err.Error()), " ")))
	}
	text := func(key string) string {
		s, _ := c[key].(string)
		return s
	}
	for _, key := range requiredKeys {
		if text(key) == "" {
			return fmt.Errorf("it has no %s", key)
		}
	}
	if dir := text("data-dir"); !filepath.IsAbs(dir) {
		return fmt.Errorf("data-dir %q is not an absolute path", clip(dir))
	}
	for key, value := range c {
		s, isText := value.(string)
		if !isText || s == "" || !slices.Contains([]string{"listen-peer-urls", "listen-client-urls", "listen-client-http-urls", "initial-advertise-peer-urls", "advertise-client-urls", "listen-metrics-urls"}, key) {
			continue
		}
		if _, err := types.NewURLs(strings.Split(s, ",")); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	members, err := types.NewURLsMap(text("initial-cluster"))
	if err != nil {
		return fmt.Errorf("initial-cluster: %w", err)
	}
	if _, ok := members[text("name")]; !ok {
		return fmt.Errorf("initial-cluster has no member %q", clip(text("name")))
	}
	return nil
}

// loadConfig writes the content to path and has etcd read it from there.
func loadConfig(path string, content []byte) (c *embed.Config, err error) {
	if err := datadir.WriteFile(path, content); err != nil {
		return nil, fmt.Errorf("write etcd's configuration: %w", err)
	}
	defer func() {
		// etcd does not expect a value of another kind for some of its switches.
		if r := recover(); r != nil {
			c, err = nil, fmt.Errorf("%s: a value is of the wrong kind: %v", path, r)
		}
	}()
	if c, err = embed.ConfigFromFile(path); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if c.WarningUnaryRequestDuration == 0 { // etcd's own main does so: else every request is a slow one
		c.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	}
	return c, nil
}

// closeToOthers takes the access of others than the owner from all files below the data
// directory, which may be of a time when they had any. Directories are etcd's. Files of another user, as which the member ran before, stay
// as they are: the kubelet has given them to the group of the pod.
func closeToOthers(dir string) error {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil || info.Mode().Perm()&0o077 == 0 {
			return err
		}
		if err := os.Chmod(path, 0o600); !errors.Is(err, fs.ErrPermission) {
			return err
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("take the access of others from the data: %w", err)
	}
	return nil
}
