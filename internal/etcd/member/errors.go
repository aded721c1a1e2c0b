package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	ErrNoLeader    = errors.New("no leader answers the member")
	ErrCancelled   = errors.New("etcd cancelled the watch")
	ErrStalled     = errors.New("etcd stopped answering on the watch")
)

// The answers to changes of the cluster a caller branches on.
var (
	ErrLearner         = errors.New("a learner cannot be asked this")
	ErrLearnerNotReady = errors.New("the learner has not caught up with the leader")
	ErrTooManyLearners = errors.New("the cluster has as many learners as it may have")
	ErrPeerURLExists   = errors.New("another member has the peer URL")
	ErrPeerURLs        = errors.New("peer URLs are not usable")
	ErrMemberNotFound  = errors.New("the cluster has no such member")
	ErrNotLeader       = errors.New("the member does not lead")
	ErrNoTransferee    = errors.New("leadership cannot go to the member")
	ErrNoSpace         = errors.New("the database is as large as its quota allows")
	ErrCorrupt         = errors.New("members hold different data")
	ErrDowngradeTarget = errors.New("etcd cannot be downgraded to this version")
	ErrDowngrading     = errors.New("a downgrade of etcd goes on")

	// ErrUnhealthy is etcd's strict check of reconfigurations: with the change as things stand,
	// too few of the voting members would be up for a majority. It counts whoever had no
	// contact for five seconds as down.
	ErrUnhealthy = errors.New("etcd refuses the change because too few of its members are healthy")
)

// Permanent reports whether err stays until somebody changes the configuration: files or endpoints that
// cannot be used, or learners at all endpoints.
func Permanent(err error) bool {
	var all several
	if errors.As(err, &all) {
		return !slices.ContainsFunc(all, func(err error) bool { return !Permanent(err) })
	}
	return errors.Is(err, ErrConfig) || errors.Is(err, ErrLearner)
}

// CompactedError says that a watch cannot begin where it must: history is gone from etcd. Is
// ErrCompacted.
type CompactedError struct {
	From      snapshot.Revision // first revision wanted
	Compacted snapshot.Revision // the oldest one etcd still has; From itself: perhaps without its deletions
}

func (e *CompactedError) Error() string {
	if e.Compacted == e.From {
		return fmt.Sprintf("etcd compacted at revision %d, where the watch begins: the deletions of that revision may be missing", e.From)
	}
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
	for _, a := range administrative {
		if errors.Is(etcd, a.etcd) {
			return a.kind, a.hint
		}
	}
	switch {
	case errors.Is(etcd, rpctypes.ErrCompacted):
		return ErrCompacted, ""
	case errors.Is(etcd, rpctypes.ErrFutureRev):
		return ErrFutureRev, ""
	case errors.Is(etcd, rpctypes.ErrNoLeader), errors.Is(etcd, rpctypes.ErrLeaderChanged):
		return ErrNoLeader, "wait for an election, or check that a majority of the members runs"
	case errors.Is(etcd, rpctypes.ErrTimeout), errors.Is(etcd, rpctypes.ErrTimeoutDueToLeaderFail),
		errors.Is(etcd, rpctypes.ErrTimeoutDueToConnectionLost), errors.Is(etcd, rpctypes.ErrTimeoutWaitAppliedIndex):
		return ErrNoLeader, "the member answers but the cluster decides nothing: check that a majority of the members runs"
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

// errForLearner is among etcd's answers, but has no name of its own there.
var errForLearner = rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner)

// administrative are etcd's answers about the cluster itself. Some travel with the code of a
// failed connection, which they are not.
var administrative = []struct {
	etcd, kind error
	hint       string
}{
	{errForLearner, ErrLearner, "ask a voting member"},
	{rpctypes.ErrMemberLearnerNotReady, ErrLearnerNotReady, "try again when it has received more of the leader's log"},
	{rpctypes.ErrTooManyLearners, ErrTooManyLearners, "promote or remove the learner there is first"},
	{rpctypes.ErrPeerURLExist, ErrPeerURLExists, "look at the member list"},
	{rpctypes.ErrMemberExist, ErrPeerURLExists, "look at the member list"}, // ids come of the peer URLs and the second
	{rpctypes.ErrMemberBadURLs, ErrPeerURLs, ""},
	{rpctypes.ErrMemberNotFound, ErrMemberNotFound, "look at the member list"},
	{rpctypes.ErrUnhealthy, ErrUnhealthy, "try again when the other members are up and connected for 5 s"},
	{rpctypes.ErrMemberNotEnoughStarted, ErrUnhealthy, "try again when more of the members are started"},
	{rpctypes.ErrNotLeader, ErrNotLeader, "ask the leader"},
	{rpctypes.ErrBadLeaderTransferee, ErrNoTransferee, "choose a voting member of this cluster"},
	{rpctypes.ErrNoSpace, ErrNoSpace, "compact, defragment and disarm the alarm, or raise the quota"},
	{rpctypes.ErrInvalidDowngradeTargetVersion, ErrDowngradeTarget, "name the minor version before the one that all members run, such as 3.5 for 3.6"},
	{rpctypes.ErrClusterVersionUnavailable, ErrDowngradeTarget, "try again when the cluster has decided its version, some seconds after its start"},
	{rpctypes.ErrWrongDowngradeVersionFormat, ErrDowngradeTarget, "write it like 3.5"},
	{rpctypes.ErrDowngradeInProcess, ErrDowngrading, "finish it or end it first"},
	{rpctypes.ErrCorrupt, ErrCorrupt, "see the alarm for the member; replace its data"},
}
