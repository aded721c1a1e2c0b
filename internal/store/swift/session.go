package swift

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	swiftsdk "github.com/ncw/swift/v2"
)

// session holds the token that all requests share, and gets a new one when it is about to
// end, when the server has forgotten it, or when the credentials have changed.
type session struct {
	opts    Options
	version authVersion
	http    *http.Client

	turn    chan struct{} // holds one element while somebody looks at, or renews, what follows
	creds   Credentials   // that the token was had with
	current token
}

// token is what requests are sent with, and where.
type token struct {
	value      string
	storageURL string
	expires    time.Time // zero: not told
}

func (t token) valid() bool {
	return t.value != "" && (t.expires.IsZero() || time.Until(t.expires) > renewBefore)
}

// token returns a valid token other than the rejected one.
func (se *session) token(ctx context.Context, rejected string) (token, error) {
	creds, err := se.opts.Credentials()
	if err != nil {
		return token{}, &credentialsError{err}
	}
	select {
	case se.turn <- struct{}{}:
		defer func() { <-se.turn }()
	case <-ctx.Done(): // whoever renews it may wait for a server that does not answer
		return token{}, ctx.Err()
	}
	if se.creds == creds && se.current.valid() && se.current.value != rejected {
		return se.current, nil
	}
	t, err := se.authenticate(ctx, creds)
	if err != nil {
		return token{}, err
	}
	se.creds, se.current = creds, t
	return t, nil
}

// noEndpoint is what the SDK says of a token whose catalog has no object store in the region.
const noEndpoint = "Response didn't have storage url and auth token"

func (se *session) authenticate(ctx context.Context, c Credentials) (token, error) {
	if se.version == tempAuth {
		if err := c.fitHeaders(); err != nil {
			return token{}, &credentialsError{err}
		}
	}
	conn := &swiftsdk.Connection{
		AuthUrl: se.opts.AuthURL, AuthVersion: int(se.version), Region: se.opts.Region,
		UserName: c.UserName, ApiKey: c.Password, Domain: c.DomainName,
		Tenant: c.ProjectName, TenantDomain: c.ProjectDomainName,
		Transport: se.http.Transport, ConnectTimeout: se.opts.IdleTimeout, Timeout: se.opts.IdleTimeout,
		Retries: 1,
	}
	if c.application() {
		conn.ApplicationCredentialId, conn.ApplicationCredentialName, conn.ApplicationCredentialSecret = c.ApplicationID, c.ApplicationName, c.ApplicationSecret
	}
	err := conn.Authenticate(ctx)
	t := token{value: conn.AuthToken, storageURL: conn.StorageUrl, expires: conn.Expires}
	if se.opts.StorageURL != "" {
		t.storageURL = se.opts.StorageURL
	}
	if err != nil && strings.Contains(err.Error(), noEndpoint) && t.value != "" && t.storageURL != "" {
		err = nil // the SDK says so of short-lived tokens as well, and knows no other storage URL
	}
	switch {
	case err != nil:
		return token{}, se.refused(ctx, err)
	case t.value == "":
		return token{}, &credentialsError{fmt.Errorf("%s gave no token: check authURL", se.opts.AuthURL)}
	}
	t.storageURL = strings.TrimSuffix(t.storageURL, "/")
	return t, nil
}

// fitHeaders says whether version 1 can send the credentials. It does so in headers, where
// other versions send JSON.
func (c Credentials) fitHeaders() error {
	control := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
	for _, field := range []struct{ name, value string }{{"username", c.UserName}, {"password", c.Password}} {
		if strings.ContainsFunc(field.value, control) {
			return fmt.Errorf("the field %s holds a line break or another control character, which authentication of version 1 cannot send: correct the credentials", field.name)
		}
	}
	return nil
}

// credentialsError marks what went wrong while a token was fetched because of what we are,
// not because of the network.
type credentialsError struct{ err error }

func (e *credentialsError) Error() string { return e.err.Error() }
func (e *credentialsError) Unwrap() error { return e.err }

// refused explains why there is no token.
func (se *session) refused(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var answer *swiftsdk.Error
	if !errors.As(err, &answer) {
		return err // of the network
	}
	switch {
	case strings.Contains(answer.Text, noEndpoint):
		where := "any region"
		if se.opts.Region != "" {
			where = "region " + se.opts.Region
		}
		return &credentialsError{fmt.Errorf("the token of %s offers no object store in %s: check region, tenantName and domainName, and that the user has a role in the project", se.opts.AuthURL, where)}
	case answer.StatusCode == http.StatusUnauthorized && se.version == keystoneV3:
		return &credentialsError{fmt.Errorf("%s refuses the credentials (HTTP 401): check username, password, domainName and tenantName, or the application credential", se.opts.AuthURL)}
	case answer.StatusCode == http.StatusUnauthorized, answer.StatusCode == http.StatusForbidden:
		return &credentialsError{fmt.Errorf("%s refuses the credentials (HTTP %d): check username and password", se.opts.AuthURL, answer.StatusCode)}
	case answer.StatusCode == http.StatusNotFound:
		return &credentialsError{fmt.Errorf("%s gives no tokens (HTTP 404): check authURL", se.opts.AuthURL)}
	case answer == swiftsdk.TimeoutError:
		return fmt.Errorf("%s did not answer in time: %w", se.opts.AuthURL, context.DeadlineExceeded)
	case answer.StatusCode != 0:
		return &answerError{status: answer.StatusCode, said: "the identity service " + se.opts.AuthURL + " says: " + oneLine(err.Error())}
	}
	return &credentialsError{fmt.Errorf("%s: %s", se.opts.AuthURL, oneLine(err.Error()))}
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(tags.ReplaceAllString(s, " ")), " ")
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "..."
	}
	return s
}
