// Package crdtest holds what the definitions are tested with: objects that an API server refuses,
// and with which words, objects that it takes, and what it makes of them.
//
// It judges nothing itself: package validate does that without a server, the module test with one.
package crdtest

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"sigs.k8s.io/yaml"
)

// Set is what is set in an object, by paths such as spec.etcd.quota; nil removes the field. Maps and
// lists may be written as YAML.
type Set map[string]any

// Case is an object that an API server takes or refuses.
type Case struct {
	Name   string // a sentence
	Plural string // of the resource; empty: etcds
	// Update: the object is there already, as the minimal one with Before, and is changed. Otherwise
	// the minimal one with Change is made. What a Change to the status says is written as a status.
	Update         bool
	Before, Change Set
	// Field and Says are what the refusal must name; both empty: it is taken. Says holds the remedy.
	Field, Says string
}

// Minimal is the smallest object of a resource that is taken.
func Minimal(plural string) map[string]any {
	text := `{"apiVersion":"druid.gardener.cloud/v1alpha1","kind":"Etcd","metadata":{"name":"etcd-main"},"spec":{"replicas":3,"labels":{},"etcd":{},"backup":{}}}`
	switch plural {
	case "etcdmembers":
		text = `{"apiVersion":"druid.gardener.cloud/v1alpha1","kind":"EtcdMember","metadata":{"name":"etcd-main-0"}}`
	case "etcdcopybackupstasks":
		text = `{"apiVersion":"druid.gardener.cloud/v1alpha1","kind":"EtcdCopyBackupsTask","metadata":{"name":"copy"},"spec":{
			"sourceStore":{"provider":"aws","container":"one","prefix":"p"},"targetStore":{"provider":"aws","container":"two","prefix":"p"}}}`
	case "etcdoperatortasks":
		text = `{"apiVersion":"druid.gardener.cloud/v1alpha1","kind":"EtcdOperatorTask","metadata":{"name":"snapshot"},"spec":{
			"type":"OnDemandSnapshot","config":{"onDemandSnapshot":{"type":"full"}},"ownerEtcdReference":{"name":"etcd-main"}}}`
	case "etcdopstasks":
		text = `{"apiVersion":"druid.gardener.cloud/v1alpha1","kind":"EtcdOpsTask","metadata":{"name":"snapshot"},"spec":{
			"config":{"onDemandSnapshot":{"type":"full"}},"etcdName":"etcd-main"}}`
	}
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		panic(err) // the text is above
	}
	return whole(object).(map[string]any)
}

// Objects are the object that is there before, nil if none, and the one that is to be taken.
func (c Case) Objects() (old, object map[string]any) {
	object = Minimal(c.Plural)
	if c.Update {
		old = Minimal(c.Plural)
		c.Before.apply(old)
		c.Before.apply(object)
	}
	c.Change.apply(object)
	return old, object
}

// OfStatus: the change is one of the status, which is written on its own.
func (c Case) OfStatus() bool {
	for path := range c.Change {
		if strings.HasPrefix(path, "status.") {
			return true
		}
	}
	return false
}

func (s Set) apply(object map[string]any) {
	for path, value := range s {
		keys := strings.Split(path, ".")
		at := object
		for _, key := range keys[:len(keys)-1] {
			next, ok := at[key].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[key] = next
			}
			at = next
		}
		last := keys[len(keys)-1]
		if value == nil {
			delete(at, last)
			continue
		}
		at[last] = parsed(value)
	}
}

// parsed lets a value be written as YAML where it is a map or list.
func parsed(value any) any {
	text, ok := value.(string)
	if !ok || !strings.ContainsAny(text[:min(1, len(text))], "{[") {
		return whole(value)
	}
	var out any
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		panic(fmt.Sprintf("the case is no YAML: %q: %v", text, err))
	}
	return whole(out)
}

// whole makes whole numbers what they are in objects of Kubernetes.
func whole(value any) any {
	switch v := value.(type) {
	case int:
		return int64(v)
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	case map[string]any:
		for k := range v {
			v[k] = whole(v[k])
		}
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
	}
	return value
}

//go:embed samples/*.yaml
var samples embed.FS

// Samples are manifests as they are applied to clusters of the original, by their files' names.
func Samples() (map[string]map[string]any, error) {
	all := map[string]map[string]any{}
	files, err := fs.Glob(samples, "samples/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := samples.ReadFile(file)
		if err != nil {
			return nil, err
		}
		object := map[string]any{}
		if err := yaml.Unmarshal(text, &object); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all[strings.TrimSuffix(strings.TrimPrefix(file, "samples/"), ".yaml")] = whole(object).(map[string]any)
	}
	return all, nil
}
