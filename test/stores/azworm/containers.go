package azworm

import (
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

func (s *Shim) isHidden(container string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.containers[container]
	return c != nil && c.hidden
}

// container makes, describes and removes containers.
func (s *Shim) container(w http.ResponseWriter, r *http.Request, t target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodPut {
		resp, err := s.ask(r, r.Method, t.container, "", r.URL.Query(), r.Header, nil, 0)
		if err != nil {
			broken(err)
		}
		if resp.StatusCode < 300 {
			s.containers[t.container] = &containerState{created: s.Now(), blobs: map[string]*blobState{}}
		}
		s.reply(w, resp, nil)
		return
	}
	c := s.state(w, r, t)
	if c == nil {
		return
	}
	if r.Method == http.MethodDelete {
		// What is protected can be removed through the management API only [container].
		switch {
		case c.versionLevel:
			refuse(w, r, problem{http.StatusConflict, "ContainerImmutableStorageWithVersioningEnabled", ""})
			return
		case c.policy != nil, len(c.holds) > 0:
			refuse(w, r, problem{http.StatusConflict, "ContainerImmutabilityPolicyInEffect", ""}) // the real code is not documented
			return
		}
		delete(s.containers, t.container)
	}
	s.forward(w, r, t.container, "", func(h http.Header) {
		h.Set("x-ms-has-immutability-policy", strconv.FormatBool(c.policy != nil))
		h.Set("x-ms-has-legal-hold", strconv.FormatBool(len(c.holds) > 0))
		h.Set("x-ms-immutable-storage-with-versioning-enabled", strconv.FormatBool(c.versionLevel))
	})
}

// create makes a container through the management API. The caller holds mu.
func (s *Shim) create(r *http.Request, name string, versionLevel bool) error {
	names := []string{name}
	if versionLevel {
		names = append(names, aside(name))
	}
	for _, n := range names {
		resp, err := s.ask(r, http.MethodPut, n, "", map[string][]string{"restype": {"container"}}, http.Header{"X-Ms-Version": {"2021-12-02"}}, nil, 0)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode >= 300 {
			return fmt.Errorf("make the container %s: %s", n, resp.Status)
		}
		s.containers[n] = &containerState{created: s.Now(), blobs: map[string]*blobState{}, versionLevel: versionLevel && n == name, hidden: n != name}
	}
	return nil
}

// remove removes a container, and what keeps its previous versions. The caller holds mu.
func (s *Shim) remove(r *http.Request, name string) error {
	for _, n := range []string{name, aside(name)} {
		if s.containers[n] == nil {
			continue
		}
		resp, err := s.ask(r, http.MethodDelete, n, "", map[string][]string{"restype": {"container"}}, http.Header{"X-Ms-Version": {"2021-12-02"}}, nil, 0)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode >= 300 {
			return fmt.Errorf("remove the container %s: %s", n, resp.Status)
		}
		delete(s.containers, n)
	}
	return nil
}

// entry is one version in a listing [list].
type entry struct {
	XMLName    xml.Name `xml:"Blob"`
	Name       string
	VersionID  string `xml:"VersionId,omitempty"`
	Current    string `xml:"IsCurrentVersion,omitempty"`
	Properties properties
	Metadata   metadata
	Tags       *tagSet `xml:"Tags,omitempty"`
}

type tagSet struct {
	Set []tag `xml:"TagSet>Tag"`
}

type properties struct {
	Created   string `xml:"Creation-Time"`
	Modified  string `xml:"Last-Modified"`
	ETag      string `xml:"Etag"`
	Length    int64  `xml:"Content-Length"`
	Type      string `xml:"BlobType"`
	Until     string `xml:"ImmutabilityPolicyUntilDate,omitempty"`
	Mode      string `xml:"ImmutabilityPolicyMode,omitempty"`
	LegalHold string `xml:"LegalHold,omitempty"`
	TagCount  int    `xml:"TagCount,omitempty"`
}

// metadata are elements named by the user.
type metadata http.Header

func (m metadata) MarshalXML(e *xml.Encoder, start xml.StartElement) error {
	if err := e.EncodeToken(start); err != nil {
		return err
	}
	for name, values := range m {
		name = strings.ToLower(name[len("x-ms-meta-"):])
		if err := e.EncodeElement(values[0], xml.StartElement{Name: xml.Name{Local: name}}); err != nil {
			return err
		}
	}
	return e.EncodeToken(start.End())
}

// page is one answer to List Blobs.
type page struct {
	XMLName   xml.Name `xml:"EnumerationResults"`
	Endpoint  string   `xml:"ServiceEndpoint,attr"`
	Container string   `xml:"ContainerName,attr"`
	Prefix    string
	Blobs     []entry `xml:"Blobs>Blob"`
	Next      string  `xml:"NextMarker"`
}

// list tells names in the order of their characters and the versions of one name oldest first,
// page by page [list].
func (s *Shim) list(w http.ResponseWriter, r *http.Request, t target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.state(w, r, t)
	if c == nil {
		return
	}
	q := r.URL.Query()
	include := strings.Split(q.Get("include"), ",")
	most, err := strconv.Atoi(q.Get("maxresults"))
	if err != nil || most < 1 || most > 5000 {
		most = 5000
	}
	after, err := base64.StdEncoding.DecodeString(q.Get("marker"))
	if err != nil {
		refuse(w, r, problem{http.StatusBadRequest, "OutOfRangeInput", ""})
		return
	}
	p := page{Endpoint: "https://" + r.Host + "/" + s.opts.Account, Container: t.container, Prefix: q.Get("prefix")}
	for _, name := range sortedNames(c) {
		if !strings.HasPrefix(name, p.Prefix) {
			continue
		}
		b := c.blobs[name]
		for _, v := range b.versions {
			place := name + "\x00" + v.id
			switch {
			case v != b.current && !slices.Contains(include, "versions"), place <= string(after) && len(after) > 0:
				continue
			case len(p.Blobs) == most:
				last := p.Blobs[most-1]
				p.Next = base64.StdEncoding.EncodeToString([]byte(last.Name + "\x00" + last.VersionID))
			default:
				p.Blobs = append(p.Blobs, s.entry(c, b, name, v, include))
			}
			if p.Next != "" {
				break
			}
		}
		if p.Next != "" {
			break
		}
	}
	w.Header().Set("Content-Type", "application/xml")
	_, _ = io.WriteString(w, xml.Header)
	_ = xml.NewEncoder(w).Encode(p)
}

func sortedNames(c *containerState) []string {
	names := make([]string, 0, len(c.blobs))
	for name := range c.blobs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// entry describes a version, with no more than was asked for.
func (s *Shim) entry(c *containerState, b *blobState, name string, v *version, include []string) entry {
	at := v.created.UTC().Format(http.TimeFormat)
	e := entry{Name: name, Properties: properties{Created: at, Modified: at, ETag: v.etag, Length: v.size, Type: "BlockBlob", TagCount: len(v.tags)}}
	if slices.Contains(include, "versions") {
		e.VersionID = v.id
		if v.id != "" && v == b.current {
			e.Current = "true"
		}
	}
	if until, mode := s.told(c, v); mode != "" && slices.Contains(include, "immutabilitypolicy") {
		e.Properties.Until, e.Properties.Mode = until.UTC().Format(http.TimeFormat), mode
	}
	if v.hold && slices.Contains(include, "legalhold") {
		e.Properties.LegalHold = "true"
	}
	if slices.Contains(include, "metadata") {
		e.Metadata = metadata(v.metadata)
	}
	if slices.Contains(include, "tags") && len(v.tags) > 0 {
		e.Tags = &tagSet{v.tags}
	}
	return e
}
