package open

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpproxy"

	"druid.internal/druid/internal/store/dial"
)

// Proxies are the values of the variables that name proxies.
type Proxies struct{ HTTP, HTTPS, None string }

func proxiesFrom(getenv func(string) string) Proxies {
	either := func(name string) string {
		if v := getenv(name); v != "" {
			return v
		}
		return getenv(strings.ToLower(name))
	}
	return Proxies{HTTP: either("HTTP_PROXY"), HTTPS: either("HTTPS_PROXY"), None: either("NO_PROXY")}
}

// unusable stands for a proxy that cannot be told from its variable.
const unusable = "http://unusable.invalid"

// checked is choose, except that a variable which is no URL is an error where it counts: net/http
// would go without a proxy and say nothing.
func (p Proxies) checked(choose func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	if choose == nil || isProxy(p.HTTP) && isProxy(p.HTTPS) {
		return choose
	}
	c := httpproxy.Config{NoProxy: p.None}
	if !isProxy(p.HTTP) {
		c.HTTPProxy = unusable
	}
	if !isProxy(p.HTTPS) {
		c.HTTPSProxy = unusable
	}
	applies := c.ProxyFunc()
	return func(r *http.Request) (*url.URL, error) {
		if u, err := applies(r.URL); err != nil || u == nil {
			return choose(r)
		}
		// The value is not shown, there may be a password in it.
		return nil, &dial.ProxyError{Err: errors.New(strings.ToUpper(r.URL.Scheme) + "_PROXY is not a URL like http://proxy.example.com:3128")}
	}
}

// isProxy says whether a value is empty or names a proxy, as net/http reads it.
func isProxy(value string) bool {
	if value == "" {
		return true
	}
	if u, err := url.Parse(value); err == nil && u.Scheme != "" && u.Host != "" {
		return true
	}
	u, err := url.Parse("http://" + value)
	return err == nil && u.Hostname() != ""
}
