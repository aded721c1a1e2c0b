package open

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Changes returns what tells whether any file that says how stores are reached was changed, made or removed since it was asked last, at
// first since now: credentials, and what is beside them, such as an endpoint or the certificate of an authority, which is read when a store
// is opened alone. It may be asked by many goroutines.
func (e Environment) Changes() func() bool {
	var mu sync.Mutex
	before := e.stamp()
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		now := e.stamp()
		if same(before, now) {
			return false
		}
		before = now
		return true
	}
}

// stamp is what tells one state of all these files from another.
func (e Environment) stamp() []fs.FileInfo {
	paths := []string{e.CABundle, e.Google.Path, e.SDK.ConfigFile}
	dirs := []string{}
	if path := e.Google.Path; path != "" {
		dir := path
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			dir = filepath.Dir(path)
		}
		for _, name := range googleFiles { // the directory may be anybody's
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	for _, f := range []Files{e.AWS, e.OpenShift, e.ECS, e.OpenStack, e.Azure, e.Alicloud} {
		paths = append(paths, f.JSON)
		if f.Directory != "" {
			dirs = append(dirs, f.Directory)
		}
	}
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir) // what cannot be read is told by whoever opens the store
		for _, entry := range entries {
			paths = append(paths, filepath.Join(dir, entry.Name()))
		}
	}
	stamp := stampOf(paths)
	for i, info := range stamp { // others may make what they like in a directory beside the files
		if info != nil && info.IsDir() {
			stamp[i] = nil
		}
	}
	return stamp
}
