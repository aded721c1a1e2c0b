package sites

import (
	"context"
	"net/http"
	"strings"

	"druid.internal/druid/test/stores"
)

// swift is the Swift side of the Ceph that the fleet has as S3 already.
type swift struct{ server *stores.Ceph }

func startSwift(_ context.Context, f *Fleet) (Site, error) {
	s, err := f.get("Ceph")
	if err != nil {
		return nil, err
	}
	return &swift{s.(*ceph).server}, nil
}

func (s *swift) Name() string { return "Swift" }

func (s *swift) Kinds() []Kind { return []Kind{Plain} }

func (s *swift) Reach() (string, *stores.CA) { return s.server.Reach() }

func (s *swift) Create(ctx context.Context, container string, _ Kind) error {
	session, err := s.session(ctx)
	if err != nil {
		return err
	}
	_, _, err = session.Ask(ctx, http.MethodPut, container, "", "", nil, nil)
	return err
}

func (s *swift) session(ctx context.Context) (*stores.Swift, error) {
	return stores.LogIn(ctx, s.server.CA, s.server.SwiftAuthURL, s.server.SwiftUser, s.server.SwiftKey)
}

// Way knows one user, who may do everything. Tokens come from the endpoint as well.
func (s *swift) Way(_ context.Context, container, endpoint string, who Who) (Way, error) {
	user, key := s.server.SwiftUser, s.server.SwiftKey
	switch who {
	case Impostor:
		key = "not-the-key-of-this-user"
	case Nobody:
		user = "nobody:swift"
	}
	elsewhere := func(url string) string { return endpoint + strings.TrimPrefix(url, s.server.Endpoint) }
	return Way{Provider: "Swift", Container: container, Endpoint: elsewhere(s.server.SwiftEndpoint), Variable: "OPENSTACK_APPLICATION_CREDENTIALS",
		Files: map[string]string{"authURL": elsewhere(s.server.SwiftAuthURL), "username": user, "password": key, CAFile: string(s.server.CA.PEM)}}, nil
}

func (s *swift) Raw(ctx context.Context, container string, _ Who) (stores.Raw, error) {
	session, err := s.session(ctx)
	if err != nil {
		return nil, err
	}
	return session.Raw(container), nil
}

// Request reads the operation from path, method and query. A segment lies below its object.
func (s *swift) Request(r *http.Request) Request {
	if strings.HasPrefix(r.URL.Path, "/auth/") {
		return Request{Does: LogIn}
	}
	_, key, about := strings.Cut(strings.TrimPrefix(r.URL.Path, "/swift/v1/"), "/")
	does := Other
	switch {
	case (!about || key == "") && r.Method == http.MethodGet:
		return Request{Does: List}
	case !about || key == "":
		return Request{Does: Inspect}
	case r.Method == http.MethodPut && r.URL.Query().Get("multipart-manifest") == "put":
		does = Finish
	case r.Method == http.MethodPut && strings.Contains(key, "/druid-"):
		does = Part
	case r.Method == http.MethodPut:
		does = Put
	case r.Method == http.MethodHead:
		does = Stat
	case r.Method == http.MethodGet:
		does = Read
	case r.Method == http.MethodDelete:
		does = Delete
	}
	return Request{does, key}
}

func (s *swift) stop() error { return nil } // Ceph is stopped as S3
