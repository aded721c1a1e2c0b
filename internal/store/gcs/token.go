package gcs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	exchange    *exchange

	slot  chan struct{} // holds one element while nobody uses what follows
	from  []byte        // the credentials that token was had with
	token *oauth2.Token
}

func newTokens(o Options, base http.RoundTripper) *tokens {
	t := &tokens{credentials: o.Credentials, exchange: &exchange{base: base}, slot: make(chan struct{}, 1)}
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
			return nil, &credentialsError{err: err}
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
	t.exchange.failure = nil
	withClient := context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: t.exchange})
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
		return nil, &credentialsError{err: errors.New("no ambient identity was found; set GOOGLE_APPLICATION_CREDENTIALS, or run where an identity is ambient")}
	case t.exchange.failure != nil:
		return nil, t.exchange.failure
	}
	return nil, &credentialsError{err: fmt.Errorf("an access token cannot be had: %w", err)}
}

// exchange is the way to those who issue tokens. It remembers what went wrong, because the
// SDK's errors only say so in words. One token is fetched at a time.
type exchange struct {
	base    http.RoundTripper
	failure *credentialsError
}

// RoundTrip implements http.RoundTripper.
func (e *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := e.base.RoundTrip(r)
	if err != nil {
		e.failure = &credentialsError{err: err, issuer: r.URL.Scheme + "://" + r.URL.Host + r.URL.Path}
		return nil, err
	}
	e.failure = nil
	if resp.StatusCode < http.StatusBadRequest {
		return resp, nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	e.failure = &credentialsError{status: resp.StatusCode, err: errors.New(refusal(resp.Status, body))}
	return resp, nil
}

// refusal is why a token was refused: the words of OAuth, or of Google's API, or the status.
func refusal(status string, body []byte) string {
	var oauth struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	var api struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	switch {
	case json.Unmarshal(body, &oauth) == nil && oauth.Error != "" && oauth.Description != "":
		return oneLine(oauth.Error + ": " + oauth.Description)
	case oauth.Error != "":
		return oneLine(oauth.Error)
	case json.Unmarshal(body, &api) == nil && api.Error.Message != "":
		return oneLine(api.Error.Message)
	}
	return status
}

// credentialsError marks what went wrong while a token was fetched, not while it was used.
type credentialsError struct {
	err    error
	status int    // of the answer of those who issue tokens; 0: there was none
	issuer string // the URL that was called, without its query; empty: not known
}

func (e *credentialsError) Error() string { return e.err.Error() }
func (e *credentialsError) Unwrap() error { return e.err }
