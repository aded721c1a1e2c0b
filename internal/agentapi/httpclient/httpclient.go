// Package httpclient makes the HTTP clients of this project, all but those of object stores and of
// the API server's own library. A client follows no redirect, dials with a timeout, and reads no
// more of an answer than a [Limit] allows.
//
// It knows no routes and no credentials, and repeats nothing.
package httpclient

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxHeader limits the header of an answer, in bytes.
const maxHeader = 64 << 10

// New returns a client that sends its calls through t. It does not follow redirects: a redirect
// would send credentials, or the caller's reach, to a host that the server chooses. A call ends with
// its context.
func New(t http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Transport returns a transport without a proxy: members of a cluster connect to each other directly.
func Transport(config *tls.Config) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	dialer := &net.Dialer{
		Timeout: 5 * time.Second,
		// A server that vanished during a long call is detected within half a minute.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
	}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    5 * time.Second,
		Protocols:              protocols,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        30 * time.Second, // below what servers grant
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true, // a small answer could unpack to a large one
	}
}

// Read reads a body of at most so many bytes. A longer body is an error, and what was read comes with it.
func Read(body io.Reader, most int64) ([]byte, error) {
	var content bytes.Buffer
	n, err := content.ReadFrom(io.LimitReader(body, most+1))
	if err == nil && n > most {
		return content.Bytes()[:most], fmt.Errorf("the answer is larger than %d bytes", most)
	}
	return content.Bytes(), err
}

// excerptLength limits an excerpt, in bytes before quoting.
const excerptLength = 256

// Excerpt returns the first line of an answer for an error or a log: quoted, in printable characters,
// and cut after 256 bytes. Empty for an empty answer.
func Excerpt(content []byte) string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(content[:min(len(content), 2*excerptLength)]), "?"))
	line, _, _ := strings.Cut(text, "\n")
	if line = strings.TrimSpace(line); line == "" {
		return ""
	}
	if len(line) > excerptLength {
		cut := excerptLength
		for !utf8.RuneStart(line[cut]) {
			cut--
		}
		line = line[:cut] + "..."
	}
	return strconv.QuoteToGraphic(line)
}
