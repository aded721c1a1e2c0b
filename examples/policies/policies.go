// Package policies holds the policies of least privilege, for tests and demonstrations that give them to identities: what
// is shown to work is what stands in the files.
package policies

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"strings"
)

//go:embed *.json
var files embed.FS

// Role is who does something with backups in a bucket.
type Role string

// The roles.
const (
	Writer       Role = "writer"
	ObjectWriter Role = "writer-object" // who also locks what he writes, up to a cap
	Reader       Role = "reader"
	Collector    Role = "collector"
	Extender     Role = "extender"
	Excluder     Role = "excluder"
)

// S3 is the policy of a role for a prefix of a bucket, in one line; without a prefix for all of it.
func S3(r Role, bucket, prefix string) string {
	text, err := files.ReadFile("s3-" + string(r) + ".json")
	if err != nil {
		panic(fmt.Sprintf("no policy of the role %q: %v", r, err))
	}
	below := strings.Trim(prefix, "/") + "/"
	if below == "/" {
		below = ""
	}
	filled := strings.NewReplacer("PREFIX/", below, "BUCKET", bucket).Replace(string(text))
	return oneLine(r, filled)
}

// Ceph is the same for its gateway, which does not know the condition that caps locks, and permits nothing by a statement
// with a condition that it does not know: what the README says to take out is out.
func Ceph(r Role, bucket, prefix string) string {
	var p struct {
		Version   string
		Statement []map[string]any
	}
	if err := json.Unmarshal([]byte(S3(r, bucket, prefix)), &p); err != nil {
		panic(fmt.Sprintf("the policy of the role %s: %v", r, err))
	}
	for _, s := range p.Statement {
		delete(s, "Condition")
	}
	text, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("the policy of the role %s: %v", r, err))
	}
	return string(text)
}

func oneLine(r Role, filled string) string {
	var line bytes.Buffer
	if err := json.Compact(&line, []byte(filled)); err != nil {
		panic(fmt.Sprintf("the policy of the role %s: %v", r, err))
	}
	return line.String()
}
