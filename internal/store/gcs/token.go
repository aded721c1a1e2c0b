package gcs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
)

// scopes are what tokens may be used for; what an identity may really do is the matter of IAM.
var scopes = []string{"https://www.googleapis.com/auth/devstorage.full_control", "https://www.googleapis.com/auth/cloud-platform"}

// earlier is how long before its end a token is not used any more.
const earlier = time.Minute

// tokens fetches access tokens and keeps the one at hand until it ends, the server refuses it,
// or the credentials change.
type tokens struct {
	credentials func() (Credentials, error) // nil: ambient
	client      *http.Client                // fetches them

	slot  chan struct{} // holds one element while nobody uses what follows
	from  []byte        // the credentials that token was had with
	token *oauth2.Token
}

func newTokens(o Options, client *http.Client) *tokens {
	t := &tokens{credentials: o.Credentials, client: client, slot: make(chan struct{}, 1)}
	t.slot <- struct{}{}
	return t
}

// get returns a token. Those who wait for one that is being fetched can give up.
func (t *tokens) get(ctx context.Context) (*oauth2.Token, error) {
	select {
	case <-t.slot:
		defer func() { t.slot <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var c Credentials
	if t.credentials != nil {
		var err error
		if c, err = t.credentials(); err != nil {
			return nil, &credentialsError{err}
		}
	}
	if t.token != nil && bytes.Equal(t.from, c.json) && (t.token.Expiry.IsZero() || time.Now().Add(earlier).Before(t.token.Expiry)) {
		return t.token, nil
	}
	token, err := t.fetch(ctx, c)
	if err != nil {
		return nil, err
	}
	t.token, t.from = token, c.json
	return token, nil
}

// forget drops a token the server has refused.
func (t *tokens) forget(refused *oauth2.Token) {
	<-t.slot
	defer func() { t.slot <- struct{}{} }()
	if t.token == refused {
		t.token = nil
	}
}

// fetch asks for a new token. The SDK's own sources remember the context they were made with,
// so one is made for each.
func (t *tokens) fetch(ctx context.Context, c Credentials) (*oauth2.Token, error) {
	withClient := context.WithValue(ctx, oauth2.HTTPClient, t.client)
	var found *google.Credentials
	var err error
	if t.credentials == nil {
		found, err = google.FindDefaultCredentials(withClient, scopes...)
	} else {
		found, err = google.CredentialsFromJSONWithType(withClient, c.json, google.CredentialsType(c.Kind), scopes...)
	}
	if err == nil {
		var token *oauth2.Token
		if token, err = found.TokenSource.Token(); err == nil {
			return token, nil
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case t.credentials == nil && found == nil:
		return nil, &credentialsError{errors.New("no ambient identity was found; set GOOGLE_APPLICATION_CREDENTIALS, or run where an identity is ambient")}
	}
	return nil, &credentialsError{fmt.Errorf("an access token cannot be had: %w", err)}
}

// credentialsError marks what went wrong while a token was fetched, not while it was used.
type credentialsError struct{ err error }

func (e *credentialsError) Error() string { return e.err.Error() }
func (e *credentialsError) Unwrap() error { return e.err }
