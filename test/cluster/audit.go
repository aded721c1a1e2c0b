package cluster

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// auditLog is where the API server writes what it was asked, a JSON object in each line.
const auditLog = "audit.log"

// auditPolicy has every request logged once, when it was answered.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted, Panic]
rules:
- level: Metadata
`

// Request is one that the API server answered, in the terms of RBAC.
type Request struct {
	At          time.Time
	User        string // as system:serviceaccount:NAMESPACE:NAME
	UserAgent   string
	Verb        string
	Group       string // of the API; empty: core
	Resource    string // empty: the request is not for a resource, but for URI
	Subresource string
	Namespace   string
	Name        string
	URI         string
	Code        int  // of the answer
	Forbidden   bool // nothing in RBAC allows it; admission may refuse with the same code what is allowed
}

// String reads like a sentence: USER VERB RESOURCE.GROUP/SUBRESOURCE NAMESPACE/NAME: CODE.
func (r Request) String() string {
	what := r.URI
	if r.Resource != "" {
		what = r.Resource
		if r.Group != "" {
			what += "." + r.Group
		}
		if r.Subresource != "" {
			what += "/" + r.Subresource
		}
		what += " " + strings.Trim(r.Namespace+"/"+r.Name, "/")
	}
	return fmt.Sprintf("%s %s %s: %d", r.User, r.Verb, strings.TrimSpace(what), r.Code)
}

// Requests are all requests that were answered so far for which want is true, in their order.
// A watch counts once it has ended.
func (c *Cluster) Requests(want func(Request) bool) ([]Request, error) {
	if c.state == nil {
		return nil, fmt.Errorf("read what the API server was asked: %w", errNotOurs)
	}
	f, err := os.Open(c.file(auditLog))
	if err != nil {
		return nil, fmt.Errorf("read what the API server was asked: %w", err)
	}
	defer f.Close()
	return readAudit(f, want)
}

// readAudit reads an audit log. A last line without an end is one that is being written, and left
// out.
func readAudit(r io.Reader, want func(Request) bool) ([]Request, error) {
	var found []Request
	in := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return found, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read line %d of the audit log: %w", n, err)
		}
		request, err := parseAudit(line)
		if err != nil {
			return nil, fmt.Errorf("line %d of the audit log: %w", n, err)
		}
		if want(request) {
			found = append(found, request)
		}
	}
}

func parseAudit(line []byte) (Request, error) {
	var event struct {
		Verb       string `json:"verb"`
		RequestURI string `json:"requestURI"`
		UserAgent  string `json:"userAgent"`
		User       struct {
			Username string `json:"username"`
		} `json:"user"`
		ImpersonatedUser *struct {
			Username string `json:"username"`
		} `json:"impersonatedUser"`
		ObjectRef *struct {
			Resource    string `json:"resource"`
			Subresource string `json:"subresource"`
			Namespace   string `json:"namespace"`
			Name        string `json:"name"`
			APIGroup    string `json:"apiGroup"`
		} `json:"objectRef"`
		ResponseStatus struct {
			Code int `json:"code"`
		} `json:"responseStatus"`
		Annotations    map[string]string `json:"annotations"`
		StageTimestamp time.Time         `json:"stageTimestamp"`
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return Request{}, err
	}
	r := Request{
		At: event.StageTimestamp, User: event.User.Username, UserAgent: event.UserAgent,
		Verb: event.Verb, URI: event.RequestURI, Code: event.ResponseStatus.Code,
		Forbidden: event.Annotations["authorization.k8s.io/decision"] == "forbid",
	}
	if event.ImpersonatedUser != nil {
		r.User = event.ImpersonatedUser.Username
	}
	if o := event.ObjectRef; o != nil {
		r.Group, r.Resource, r.Subresource, r.Namespace, r.Name = o.APIGroup, o.Resource, o.Subresource, o.Namespace, o.Name
	}
	return r, nil
}
