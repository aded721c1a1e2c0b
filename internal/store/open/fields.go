package open

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxFileBytes bounds what is read of a credentials file; a certificate bundle is the largest.
const maxFileBytes = 1 << 20

// fields are credentials by the names the original gives them, whatever form they came in.
type fields struct {
	source string // for messages: the variable and the path, never a value
	dir    string // with one file per field: where these are
	values map[string]string
	// variables names the environment variable of each field that came from one.
	variables map[string]string
}

// files are the paths that fields are read from, for noticing a change.
func (f Files) paths(names []string) []string {
	if f.JSON != "" {
		return []string{f.JSON}
	}
	if file, err := f.onlyJSON(); err == nil && file != "" {
		return []string{file}
	}
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = filepath.Join(f.Directory, name)
	}
	return paths
}

// set says whether the environment names credentials at all.
func (f Files) set() bool { return f.Directory != "" || f.JSON != "" }

// read reads all fields.
func (f Files) read() (fields, error) {
	if f.JSON != "" {
		return readJSON(f.Variable+"_JSON", f.JSON)
	}
	file, err := f.onlyJSON()
	switch {
	case err != nil:
		return fields{}, err
	case file != "":
		return readJSON(f.Variable, file)
	}
	return readDirectory(f.Variable, f.Directory)
}

// onlyJSON is the path of the one JSON file in the directory, the original's legacy form; ""
// if there is none.
func (f Files) onlyJSON() (string, error) {
	entries, err := os.ReadDir(f.Directory)
	if err != nil {
		return "", unreadable(f.Variable, f.Directory, err)
	}
	var found []string
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".json") && !strings.HasPrefix(name, ".") {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return filepath.Join(f.Directory, found[0]), nil
	}
	return "", fmt.Errorf("%s: the directory %s holds %d JSON files, which one counts is unclear: leave one", f.Variable, f.Directory, len(found))
}

// readDirectory reads one field per file. What begins with a dot is Kubernetes' own.
func readDirectory(variable, dir string) (fields, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fields{}, unreadable(variable, dir, err)
	}
	f := fields{source: variable + "=" + dir, dir: dir, values: map[string]string{}}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		b, err := readFile(path)
		if err != nil {
			return fields{}, unreadable(variable, path, err)
		}
		f.values[e.Name()] = clean(e.Name(), string(b))
	}
	return f, nil
}

// readJSON reads an object of strings and booleans.
func readJSON(variable, path string) (fields, error) {
	b, err := readFile(path)
	if err != nil {
		return fields{}, unreadable(variable, path, err)
	}
	values, err := parseJSON(b)
	if err != nil {
		return fields{}, fmt.Errorf("%s: %s %w", variable, path, err)
	}
	return fields{source: variable + "=" + path, values: values}, nil
}

// parseJSON reads a JSON object whose values are strings, booleans or null. Its errors show
// nothing of the content but the names of fields.
func parseJSON(b []byte) (map[string]string, error) {
	var raw map[string]any
	if err := json.Unmarshal(b, &raw); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("is not valid JSON: something is wrong at byte %d", syntax.Offset)
		}
		return nil, errors.New("is JSON but not an object of fields")
	}
	values := make(map[string]string, len(raw))
	for name, v := range raw {
		switch v := v.(type) {
		case string:
			values[name] = clean(name, v)
		case bool:
			values[name] = strconv.FormatBool(v)
		case nil:
		default:
			return nil, fmt.Errorf("has a field %q that is neither a string nor a boolean", name)
		}
	}
	return values, nil
}

// clean removes the white space that editors and shells leave around a value. A customer key
// may be of any bytes: there only the end of the line goes.
func clean(name, value string) string {
	if name == fieldCustomerKey {
		return strings.TrimRight(value, "\r\n")
	}
	return strings.TrimSpace(value)
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFileBytes {
		return nil, fmt.Errorf("it has %d bytes, which no credentials have", info.Size())
	}
	return os.ReadFile(path)
}

// unreadable says why a path cannot be read.
func unreadable(variable, path string, err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %s does not exist: mount the credentials there, or unset the variable if another identity is meant", variable, path)
	}
	return fmt.Errorf("%s: %s cannot be read: %w", variable, path, err)
}

// required returns the values of fields that must be there.
func (f fields) required(names ...string) error {
	var missing []string
	for _, name := range names {
		if f.values[name] == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s: the credentials lack %s", f.source, strings.Join(missing, ", "))
	}
	return nil
}

// boolean reads an optional field; absent is false.
func (f fields) boolean(name string) (bool, error) {
	v := f.values[name]
	if v == "" {
		return false, nil
	}
	b, err := strconv.ParseBool(strings.ToLower(v))
	if err != nil {
		return false, fmt.Errorf("%s must be true or false", f.name(name))
	}
	return b, nil
}
