package swift_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/swift"
)

// keystone reaches a container by Keystone v3.
func (f *fake) keystoneOptions(container string, c swift.Credentials) swift.Options {
	o := f.options(container)
	o.AuthURL, o.Region = f.URL, "north"
	o.Credentials = func() (swift.Credentials, error) { return c, nil }
	return o
}

var person = swift.Credentials{UserName: "me", Password: "hunter2", DomainName: "d", ProjectName: "p"}

func TestKeystoneIsToldWhoAsks(t *testing.T) {
	cases := map[string]struct {
		credentials swift.Credentials
		want        map[string]any
	}{
		"a password": {person, map[string]any{
			"identity": map[string]any{"methods": []any{"password"}, "password": map[string]any{"user": map[string]any{"name": "me", "password": "hunter2", "domain": map[string]any{"name": "d"}}}},
			"scope":    map[string]any{"project": map[string]any{"name": "p", "domain": map[string]any{"name": "d"}}},
		}},
		"a project of another domain": {swift.Credentials{UserName: "me", Password: "x", DomainName: "d", ProjectName: "p", ProjectDomainName: "other"}, map[string]any{
			"identity": map[string]any{"methods": []any{"password"}, "password": map[string]any{"user": map[string]any{"name": "me", "password": "x", "domain": map[string]any{"name": "d"}}}},
			"scope":    map[string]any{"project": map[string]any{"name": "p", "domain": map[string]any{"name": "other"}}},
		}},
		"an application credential by its ID": {swift.Credentials{ApplicationID: "id", ApplicationName: "ignored", ApplicationSecret: "s", DomainName: "d", ProjectName: "p"}, map[string]any{
			"identity": map[string]any{"methods": []any{"application_credential"}, "application_credential": map[string]any{"id": "id", "secret": "s", "user": map[string]any{}}},
		}},
		"an application credential by its name": {swift.Credentials{UserName: "me", ApplicationName: "n", ApplicationSecret: "s", DomainName: "d"}, map[string]any{
			"identity": map[string]any{"methods": []any{"application_credential"}, "application_credential": map[string]any{"name": "n", "secret": "s", "user": map[string]any{"name": "me", "domain": map[string]any{"name": "d"}}}},
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			var got map[string]any
			f.keystone = func(auth map[string]any) int { got = auth; return http.StatusCreated }
			s := open(t, f.keystoneOptions(f.container(t), c.credentials))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("what Keystone was told (-want +got):\n%s", diff)
			}
			if _, err := s.Put(t.Context(), "k", strings.NewReader("x"), store.PutOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestATokenIsRenewedWhenItEndsOrIsForgottenOrTheCredentialsChange(t *testing.T) {
	f := newFake(t)
	asked := 0
	f.keystone = func(map[string]any) int { asked++; return http.StatusCreated }
	who := person
	o := f.keystoneOptions(f.container(t), person)
	o.Credentials = func() (swift.Credentials, error) { return who, nil }
	s := open(t, o)
	use := func(what string, want int) {
		t.Helper()
		if _, err := s.Put(t.Context(), fmt.Sprintf("k%d", len(f.seen(0))), strings.NewReader("x"), store.PutOptions{}); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if asked != want {
			t.Errorf("%s: Keystone was asked %d times, want %d", what, asked, want)
		}
	}
	use("at first", 1)
	use("again", 1)
	f.set(func() { f.revoked[f.tokens[len(f.tokens)-1]] = true })
	use("after the server forgot it", 2)
	who.Password = "rotated"
	f.set(func() { f.expires = time.Now().Add(30 * time.Second) })
	use("after the password changed", 4) // by each of two requests: the token ends too soon to be used twice
}

func TestWhoGetsNoTokenIsToldWhy(t *testing.T) {
	cases := map[string]struct {
		change func(f *fake, o *swift.Options)
		want   error
		words  []string
	}{
		"refused": {func(f *fake, _ *swift.Options) {
			f.keystone = func(map[string]any) int { return http.StatusUnauthorized }
		}, store.ErrCredentials, []string{"tenantName", "password"}},
		"a line break in a header": {func(f *fake, o *swift.Options) {
			o.AuthURL = f.URL + "/v1.0"
			o.Credentials = func() (swift.Credentials, error) {
				return swift.Credentials{UserName: user, Password: "hunter2\nhunter2"}, nil
			}
		}, store.ErrCredentials, []string{"field password", "line break"}},
		"another region":    {func(_ *fake, o *swift.Options) { o.Region = "west" }, store.ErrCredentials, []string{"region west"}},
		"no Keystone there": {func(f *fake, o *swift.Options) { o.AuthURL = f.URL + "/identity/v3" }, store.ErrCredentials, []string{"/identity/v3", "authURL"}},
		"Keystone has failed": {func(f *fake, _ *swift.Options) {
			f.keystone = func(map[string]any) int { return http.StatusBadGateway }
		}, store.ErrUnreachable, []string{"identity service", "502"}},
		"nobody serves it": {func(_ *fake, o *swift.Options) { o.AuthURL = "http://127.0.0.1:1/v3" }, store.ErrUnreachable, []string{"127.0.0.1:1"}},
		"credentials unread": {func(_ *fake, o *swift.Options) {
			o.Credentials = func() (swift.Credentials, error) { return swift.Credentials{}, errors.New("the file is gone") }
		}, store.ErrCredentials, []string{"the file is gone"}},
		"a storage URL no one": {func(_ *fake, o *swift.Options) { o.StorageURL = "http://127.0.0.1:1/v1/x" }, store.ErrUnreachable, []string{"127.0.0.1:1"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.keystone = func(map[string]any) int { return http.StatusCreated }
			o := f.keystoneOptions(f.container(t), person)
			o.Attempts = 1
			c.change(f, &o)
			_, err := swift.New(t.Context(), o)
			if !errors.Is(err, c.want) {
				t.Fatalf("New = %v, want %v", err, c.want)
			}
			for _, words := range c.words {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("%q does not say %q", err, words)
				}
			}
			isOneLine(t, err)
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%q shows the password", err)
			}
		})
	}
}

func TestAStorageURLMakesTheCatalogUnnecessary(t *testing.T) {
	f := newFake(t)
	f.keystone = func(map[string]any) int { return http.StatusCreated }
	o := f.keystoneOptions(f.container(t), person)
	o.Region, o.StorageURL = "west", f.URL+"/v1/AUTH_"+user
	s := open(t, o)
	if _, err := s.Put(t.Context(), "k", strings.NewReader("x"), store.PutOptions{}); err != nil {
		t.Error(err)
	}
}

func TestWrongOptionsAreNamed(t *testing.T) {
	f := newFake(t)
	cases := map[string]struct {
		change func(*swift.Options)
		words  string
	}{
		"no container":           {func(o *swift.Options) { o.Container = "" }, "--store-container"},
		"a container with path":  {func(o *swift.Options) { o.Container = "a/b" }, "slash"},
		"no authURL":             {func(o *swift.Options) { o.AuthURL = "" }, "authURL"},
		"an authURL that is no":  {func(o *swift.Options) { o.AuthURL = "ftp://x" }, "authURL"},
		"a secret in the URL":    {func(o *swift.Options) { o.AuthURL = "https://me:hunter2@x/v3" }, "must not contain"},
		"no credentials":         {func(o *swift.Options) { o.Credentials = nil }, "credentials"},
		"no certificate":         {func(o *swift.Options) { o.TrustedCAs = []byte("x") }, "trustedCaCert"},
		"a storage URL with key": {func(o *swift.Options) { o.StorageURL = "https://me:hunter2@x/v1" }, "must not contain"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := f.options("c")
			c.change(&o)
			_, err := swift.New(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("New = %v, want %q and no secret", err, c.words)
			}
			isOneLine(t, err)
		})
	}
}

func TestAnswersAreClassified(t *testing.T) {
	cases := map[int]error{
		http.StatusForbidden: store.ErrForbidden, http.StatusTooManyRequests: store.ErrThrottled, 498: store.ErrThrottled,
		http.StatusInsufficientStorage: store.ErrNoSpace, http.StatusRequestEntityTooLarge: store.ErrNoSpace,
		http.StatusNotImplemented: store.ErrUnsupported, http.StatusUnauthorized: store.ErrCredentials,
		http.StatusServiceUnavailable: store.ErrUnreachable, http.StatusInternalServerError: store.ErrUnreachable,
	}
	for status, want := range cases {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			f := newFake(t)
			s := open(t, f.options(f.container(t)))
			f.set(func() { f.fault = func(*http.Request) fault { return fault{status: status} } })
			_, err := contentOf(t, s, "k")
			wants(t, "Open", err, want)
			isOneLine(t, err)
			if strings.Contains(fmt.Sprint(err), "<") {
				t.Errorf("%q shows the server's markup", err)
			}
			err = s.List(t.Context(), "", func(store.Object) error { return nil })
			wants(t, "List", err, want)
		})
	}
}

func TestWaitingForAnotherCallersTokenEndsWithTheContext(t *testing.T) {
	f := newFake(t)
	asked, release := make(chan struct{}), make(chan struct{})
	renewing := false
	f.keystone = func(map[string]any) int {
		if renewing {
			close(asked)
			<-release
		}
		return http.StatusCreated
	}
	who := person
	o := f.keystoneOptions(f.container(t), person)
	o.Credentials = func() (swift.Credentials, error) { return who, nil }
	s := open(t, o)
	renewing, who.Password = true, "rotated"
	first := make(chan error, 1)
	go func() {
		_, err := s.Put(t.Context(), "first", strings.NewReader("x"), store.PutOptions{})
		first <- err
	}()
	<-asked // the first caller waits for Keystone
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() {
		_, err := s.Put(ctx, "second", strings.NewReader("x"), store.PutOptions{})
		second <- err
	}()
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("the second caller got %v", err)
	}
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
}
