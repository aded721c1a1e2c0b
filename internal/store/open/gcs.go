package open

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"druid.internal/druid/internal/store/gcs"
)

// The files of credentials for Google, as the original names them.
const (
	fileServiceAccount = "serviceaccount.json"
	fileFederation     = "credentialsConfig"
	fileFederatedToken = "token"
	fileGoogleEndpoint = "storageAPIEndpoint"
	fileAnonymous      = "anonymous" // not the original's
)

// googleFiles are all that are read in the directory of the credentials, beside a file of another name.
var googleFiles = []string{fileServiceAccount, fileFederation, fileFederatedToken, fileGoogleEndpoint, fieldTrustedCA, fileAnonymous}

// Google is where the credentials for Google are.
type Google struct {
	Variable string // the name of the environment variable
	Path     string // a file, or a directory that holds one; empty: not set
	// Shared is the variable without the prefix, if it is set. The SDK would read it by itself.
	Shared string
	// Emulator is the value of STORAGE_EMULATOR_HOST, by which Google's SDK finds an emulator.
	Emulator Value
}

// ofGCS uses the key of a service account, a configuration of workload identity federation,
// or, if the environment names neither, whatever identity is ambient. An endpoint without TLS
// is an emulator, where nobody authenticates.
func (c Config) ofGCS() (gcs.Options, error) {
	o := gcs.Options{
		Bucket: c.Container, Endpoint: c.EndpointOverride, Proxy: c.Proxy,
		ChunkSize: max(c.MinChunkSize, gcs.DefaultChunkSize),
	}
	if err := c.Environment.Google.apply(&o); err != nil {
		return o, fmt.Errorf("GCS: %w", err)
	}
	return o, nil
}

// useEmulator has requests go to the emulator, where nothing else names an endpoint. Nobody
// authenticates there.
func (g Google) useEmulator(o *gcs.Options) error {
	host := g.Emulator.Text
	if o.Endpoint != "" || host == "" {
		return nil
	}
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	if err := (Value{g.Emulator.Variable, host}).isURL(); err != nil {
		return err
	}
	o.Endpoint, o.EndpointFrom, o.Anonymous = host, g.Emulator.Variable, true
	return nil
}

// apply sets what the environment and the files say.
func (g Google) apply(o *gcs.Options) error {
	if g.Path == "" {
		if err := g.useEmulator(o); err != nil {
			return err
		}
		if g.Shared != "" && !withoutTLS(o.Endpoint) && !o.Anonymous {
			// The ambient identity of the SDK would be the one that this variable names.
			return fmt.Errorf("%s is not set, and %s is another store's: set it, to the same file if both are one identity", g.Variable, g.Shared)
		}
		return nil
	}
	info, err := os.Stat(g.Path)
	if dir, file := filepath.Split(g.Path); errors.Is(err, fs.ErrNotExist) && file == fileServiceAccount && dir != "" {
		// Operators name this file whatever the Secret holds that they mount.
		if in, dirErr := os.Stat(dir); dirErr == nil {
			g.Path, info, err = filepath.Clean(dir), in, nil
		}
	}
	if err != nil {
		if emulatorErr := g.useEmulator(o); emulatorErr != nil {
			return emulatorErr
		}
		if withoutTLS(o.Endpoint) || o.Anonymous {
			return nil
		}
		return unreadable(g.Variable, g.Path, err)
	}
	dir := g.Path
	if !info.IsDir() {
		dir = filepath.Dir(g.Path)
	}
	if err := g.besides(o, dir); err != nil {
		return err
	}
	if err := g.useEmulator(o); err != nil {
		return err
	}
	if withoutTLS(o.Endpoint) || o.Anonymous {
		return nil
	}
	file := g.Path
	if info.IsDir() {
		if file, err = g.fileIn(dir); err != nil {
			return err
		}
	}
	credentials := &googleFile{variable: g.Variable, path: file, dir: dir}
	if _, err := credentials.get(); err != nil {
		return err
	}
	o.Credentials = credentials.get
	return nil
}

func withoutTLS(endpoint string) bool { return strings.HasPrefix(endpoint, "http://") }

// besides reads the files that may lie beside the credentials.
func (g Google) besides(o *gcs.Options, dir string) error {
	read := func(name string) (string, error) {
		b, err := readFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		if err != nil {
			return "", unreadable(g.Variable, filepath.Join(dir, name), err)
		}
		return strings.TrimSpace(string(b)), nil
	}
	if o.Endpoint == "" {
		endpoint, err := read(fileGoogleEndpoint)
		if err != nil {
			return err
		}
		if endpoint != "" {
			o.Endpoint, o.EndpointFrom = endpoint, filepath.Join(dir, fileGoogleEndpoint)
		}
	}
	authorities, err := read(fieldTrustedCA)
	if err != nil {
		return err
	}
	o.TrustedCAs = []byte(authorities)
	anonymous, err := read(fileAnonymous)
	if err != nil {
		return err
	}
	if anonymous != "" {
		if o.Anonymous, err = strconv.ParseBool(strings.ToLower(anonymous)); err != nil {
			return fmt.Errorf("%s: the file %s must hold true or false", g.Variable, filepath.Join(dir, fileAnonymous))
		}
	}
	return nil
}

// fileIn finds the file with the credentials in a directory.
func (g Google) fileIn(dir string) (string, error) {
	var found []string
	for _, name := range []string{fileServiceAccount, fileFederation} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 1:
		return filepath.Join(dir, found[0]), nil
	case 0:
		return "", fmt.Errorf("%s: the directory %s holds neither %s nor %s", g.Variable, dir, fileServiceAccount, fileFederation)
	}
	return "", fmt.Errorf("%s: the directory %s holds both %s, which one counts is unclear: leave one", g.Variable, dir, strings.Join(found, " and "))
}

// googleFile are credentials whose file may be replaced at any time.
type googleFile struct {
	variable, path, dir string

	mu    sync.Mutex
	stamp []fs.FileInfo
	last  *gcs.Credentials // the last that were whole
}

// get returns the current credentials. While the file is missing or in the middle of a change,
// these are the ones before: a request with them tells more than no request.
func (g *googleFile) get() (gcs.Credentials, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := stampOf([]string{g.path})
	if g.last != nil && same(g.stamp, now) {
		return *g.last, nil
	}
	c, err := g.read()
	if err == nil {
		g.last, g.stamp = &c, now
		return c, nil
	}
	if g.last != nil {
		return *g.last, nil
	}
	return gcs.Credentials{}, err
}

func (g *googleFile) read() (gcs.Credentials, error) {
	b, err := readFile(g.path)
	if err != nil {
		return gcs.Credentials{}, unreadable(g.variable, g.path, err)
	}
	c, err := gcs.ParseCredentials(b)
	if err != nil {
		return c, fmt.Errorf("%s: %s %w", g.variable, g.path, err)
	}
	if c.Kind != gcs.ExternalAccount || c.TokenFile == "" {
		return c, nil
	}
	// The configuration was often made for another place; the token lies beside it.
	if _, err := os.Stat(c.TokenFile); err == nil {
		return c, nil
	}
	beside := filepath.Join(g.dir, fileFederatedToken)
	if _, err := os.Stat(beside); err != nil {
		return c, fmt.Errorf("%s: %s names the token file %s, which is not there, nor is %s", g.variable, g.path, c.TokenFile, beside)
	}
	return c.WithTokenFile(beside)
}
