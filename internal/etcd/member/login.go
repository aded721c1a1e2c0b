package member

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// login holds the token that a user and password are worth, for every connection of a cluster.
//
// A token is fetched when a member asks for one, so that a question is as cheap and as
// answerable with a user as without as long as etcd's authentication is off or the token is
// good: logging in needs a majority, most questions about a member do not. A learner logs
// nobody in but takes the tokens that voting members gave.
type login struct {
	who     func() (user, password string, err error) // nil: nobody logs in
	timeout time.Duration
	others  func() []*Member

	turn chan struct{} // held by the one who logs in

	mu    sync.Mutex
	token string
}

// authenticate is the call that needs no token.
const authenticate = "/etcdserverpb.Auth/Authenticate"

func newLogin(cfg Config, others func() []*Member) *login {
	return &login{who: cfg.user(), timeout: cfg.timeout(), others: others, turn: make(chan struct{}, 1)}
}

// user is who logs in.
func (c Config) user() func() (user, password string, err error) {
	switch {
	case c.UsernameFile != "":
		return func() (user, password string, err error) {
			if user, err = word(c.UsernameFile); err == nil {
				password, err = word(c.PasswordFile)
			}
			if err != nil {
				err = fmt.Errorf("%w: the user for etcd: %w", ErrForbidden, err)
			}
			return user, password, err
		}
	case c.Username != "":
		return func() (string, string, error) { return c.Username, c.Password, nil }
	}
	return nil
}

// word is what a file holds, without a line break at its end.
func word(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	w := strings.TrimRight(string(b), "\r\n")
	if w == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return w, nil
}

// options make a connection use the login. Without a user there are none.
func (l *login) options() []grpc.DialOption {
	if l.who == nil {
		return nil
	}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(l.unary), grpc.WithChainStreamInterceptor(l.stream)}
}

// unary asks with the token there is, and once more with a new one when that is refused. A
// refused request was not carried out.
func (l *login) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if method == authenticate {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	token := l.current()
	err := invoke(with(ctx, token), method, req, reply, cc, opts...)
	if !refused(err, token) {
		return err
	}
	token, renewErr := l.renew(ctx, token, cc)
	if renewErr != nil {
		return renewErr
	}
	return invoke(with(ctx, token), method, req, reply, cc, opts...)
}

// stream logs in beforehand: a stream that is refused says so in many ways, and late.
func (l *login) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	bounded, cancel := context.WithTimeout(ctx, l.timeout)
	token, err := l.renew(bounded, l.current(), cc)
	cancel()
	if err != nil {
		return nil, err
	}
	return open(with(ctx, token), desc, cc, method, opts...)
}

func (l *login) current() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.token
}

// renew returns a token that is newer than stale, which is empty when etcd's authentication is
// off. It asks at cc, or elsewhere if a learner is there. Errors are as etcd's client has them.
func (l *login) renew(ctx context.Context, stale string, cc *grpc.ClientConn) (string, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if token := l.current(); token != stale {
		return token, nil // somebody else did in the meantime
	}
	token, err := l.authenticate(ctx, cc)
	if errors.Is(rpctypes.Error(err), errForLearner) {
		token, err = l.elsewhere(ctx, cc, err)
	}
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.token = token
	return token, nil
}

func (l *login) authenticate(ctx context.Context, cc *grpc.ClientConn) (string, error) {
	user, password, err := l.who()
	if err != nil {
		return "", err
	}
	r, err := pb.NewAuthClient(cc).Authenticate(ctx, &pb.AuthenticateRequest{Name: user, Password: password})
	if errors.Is(rpctypes.Error(err), rpctypes.ErrAuthNotEnabled) {
		return "", nil
	}
	return r.GetToken(), err
}

// elsewhere logs in at all other members at once and takes the first token. The error is why,
// or what a member said that answered.
func (l *login) elsewhere(ctx context.Context, but *grpc.ClientConn, why error) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		token string
		err   error
	}
	answers := make(chan answer)
	asked := 0
	for _, m := range l.others() {
		if cc := m.client.ActiveConnection(); cc != but {
			asked++
			go func() {
				token, err := l.authenticate(ctx, cc)
				answers <- answer{token, err}
			}()
		}
	}
	var token string
	found := false
	for range asked {
		a := <-answers
		switch {
		case found:
		case a.err == nil:
			token, found = a.token, true
			cancel()
		case errors.Is(rpctypes.Error(a.err), rpctypes.ErrAuthFailed):
			why = a.err
		}
	}
	if found {
		return token, nil
	}
	return "", why
}

func with(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, token)
}

// refused says that etcd did nothing because it wants a token, or a newer one. Who shows none is
// taken for the user whose name stands in the client certificate, and may do what that one may.
func refused(err error, token string) bool {
	etcd := rpctypes.Error(err)
	return errors.Is(etcd, rpctypes.ErrUserEmpty) || errors.Is(etcd, rpctypes.ErrInvalidAuthToken) || errors.Is(etcd, rpctypes.ErrAuthOldRevision) ||
		token == "" && errors.Is(etcd, rpctypes.ErrPermissionDenied)
}
