package member

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"druid.internal/druid/internal/backup/snapshot"
)

// The failures a caller branches on.
var (
	ErrUnreachable = errors.New("etcd cannot be reached")
	ErrForbidden   = errors.New("etcd refuses the user or certificate")
	ErrCompacted   = errors.New("the revision is compacted")
	ErrFutureRev   = errors.New("etcd has not reached the revision")
	ErrNoLeader    = errors.New("the member sees no leader")
	ErrCancelled   = errors.New("etcd cancelled the watch")
	ErrStalled     = errors.New("etcd stopped answering on the watch")
)

// CompactedError says that a watch cannot begin where it must: history is gone from etcd. Is
// ErrCompacted.
type CompactedError struct {
	From      snapshot.Revision // first revision wanted
	Compacted snapshot.Revision // the oldest one etcd still has
}

func (e *CompactedError) Error() string {
	return fmt.Sprintf("etcd compacted the revisions from %d on: it can tell changes only from revision %d", e.From, e.Compacted)
}

// Is makes errors.Is(err, ErrCompacted) true.
func (e *CompactedError) Is(target error) bool { return target == ErrCompacted }

// explain turns a failure of etcd's client into one that says what was asked of whom, what is
// wrong and what to do. It wraps both our sentinel and the original error.
func explain(what, endpoint string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s at %s: %w", what, endpoint, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s at %s: %w: %w (%s)", what, endpoint, ErrUnreachable, err, slowHint)
	}
	kind, hint := classify(err)
	if kind == nil {
		return fmt.Errorf("%s at %s: %w", what, endpoint, err)
	}
	if hint != "" {
		return fmt.Errorf("%s at %s: %w: %w (%s)", what, endpoint, kind, err, hint)
	}
	return fmt.Errorf("%s at %s: %w: %w", what, endpoint, kind, err)
}

// slowHint is for whoever got no answer in time. Servers that want a certificate and do not get
// one end the connection, which looks alike.
const slowHint = "check --endpoints, that etcd runs there, and --cert and --key if it asks for a certificate"

func classify(err error) (kind error, hint string) {
	text := err.Error()
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(text, p) {
				return true
			}
		}
		return false
	}
	etcd := rpctypes.Error(err)
	switch {
	case errors.Is(etcd, rpctypes.ErrCompacted):
		return ErrCompacted, ""
	case errors.Is(etcd, rpctypes.ErrFutureRev):
		return ErrFutureRev, ""
	case errors.Is(etcd, rpctypes.ErrNoLeader), errors.Is(etcd, rpctypes.ErrLeaderChanged):
		return ErrNoLeader, "wait for an election, or check that a majority of the members runs"
	case errors.Is(etcd, rpctypes.ErrAuthFailed), errors.Is(etcd, rpctypes.ErrUserEmpty),
		errors.Is(etcd, rpctypes.ErrPermissionDenied), errors.Is(etcd, rpctypes.ErrInvalidAuthToken):
		return ErrForbidden, "a backup reads every key: give a user with the role root by --etcd-username and --etcd-password"
	case has("x509:", "certificate"):
		return ErrUnreachable, "check --cacert, --cert and --key, and that the server's certificate names the endpoint"
	case has("first record does not look like a TLS handshake"):
		return ErrUnreachable, "the server speaks plain text: use an http:// endpoint"
	case has("error reading server preface", "malformed HTTP response"):
		return ErrUnreachable, "the server probably speaks TLS: use an https:// endpoint"
	}
	switch status.Code(err) {
	case codes.Canceled:
		return context.Canceled, ""
	case codes.DeadlineExceeded:
		return fmt.Errorf("%w: %w", ErrUnreachable, context.DeadlineExceeded), slowHint
	case codes.Unauthenticated, codes.PermissionDenied:
		return ErrForbidden, "give a user with the role root by --etcd-username and --etcd-password"
	case codes.Unavailable:
		return ErrUnreachable, "check --endpoints and that etcd runs there"
	}
	return nil, ""
}
