package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// Bounds of a token, in bytes. Shorter ones can be guessed.
const (
	MinToken = 16
	MaxToken = 4096

	maxTokens = 16
)

// Tokens are the content of a token file: one token per line. A server accepts all of them, a client
// shows the first. So a token is exchanged without a moment in which anybody is refused: add the new
// one below the old one everywhere, then put it above, then remove the old one.
//
// Tokens never shows itself when printed.
type Tokens struct {
	first string
	sums  [][sha256.Size]byte
}

// ParseTokens reads the content of a token file. Empty lines and white space around a token do not
// count. Its errors never hold what it read.
func ParseTokens(content []byte) (Tokens, error) {
	var t Tokens
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		token := strings.Trim(line, " \t\r\n")
		if token == "" {
			continue
		}
		if err := checkToken(token); err != nil {
			return Tokens{}, fmt.Errorf("line %d: %w", number, err)
		}
		if len(t.sums) == maxTokens {
			return Tokens{}, fmt.Errorf("line %d: more than %d tokens", number, maxTokens)
		}
		if t.first == "" {
			t.first = token
		}
		t.sums = append(t.sums, sha256.Sum256([]byte(token)))
	}
	if len(t.sums) == 0 {
		return Tokens{}, errors.New("no token; write at least one line")
	}
	return t, nil
}

// checkToken reports what makes a token unfit for an HTTP header or easy to guess.
func checkToken(token string) error {
	if len(token) < MinToken || len(token) > MaxToken {
		return fmt.Errorf("a token of %d bytes; it must have %d to %d", len(token), MinToken, MaxToken)
	}
	for i := range len(token) {
		if !tokenByte(token[i]) {
			return errors.New("a token may hold only letters, digits and - . _ ~ + / =")
		}
	}
	return nil
}

// tokenByte are the characters of a bearer token in RFC 6750.
func tokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~+/=", c) >= 0
}

// Accept reports whether the token is one of t. How long that takes tells nothing about them.
func (t Tokens) Accept(token string) bool {
	sum := sha256.Sum256([]byte(token))
	found := 0
	for i := range t.sums {
		found |= subtle.ConstantTimeCompare(sum[:], t.sums[i][:])
	}
	return found == 1
}

// PassKey is the metadata of gRPC in which a sidecar shows its pass to etcd.
const PassKey = "druid-sidecar"

// passFor is what a pass says, so that it is worth nothing anywhere else.
const passFor = "a sidecar's call to an etcd that refuses clients"

// pass proves that somebody has a token without showing it.
func pass(sum [sha256.Size]byte) []byte {
	m := hmac.New(sha256.New, sum[:])
	m.Write([]byte(passFor))
	return m.Sum(nil)
}

// AcceptPass reports whether the pass is that of one of t, see [TokenFile.Pass].
func (t Tokens) AcceptPass(shown string) bool {
	got, err := hex.DecodeString(shown)
	if err != nil {
		return false
	}
	for _, sum := range t.sums {
		if hmac.Equal(got, pass(sum)) {
			return true
		}
	}
	return false
}

// String does not show the tokens.
func (t Tokens) String() string { return fmt.Sprintf("%d tokens, not shown", len(t.sums)) }

// GoString does not show the tokens either.
func (t Tokens) GoString() string { return t.String() }

// TokenFile is a file of tokens.
type TokenFile struct {
	file *source[Tokens]
}

// NewTokenFile reads the file. Later changes are told to log, which may be nil.
func NewTokenFile(path string, log *slog.Logger) (*TokenFile, error) {
	parse := func(contents [][]byte) (Tokens, error) {
		t, err := ParseTokens(contents[0])
		if err != nil {
			return Tokens{}, fmt.Errorf("%s: %w", path, err)
		}
		return t, nil
	}
	s, err := newSource("a token file", []string{path}, parse, log)
	if err != nil {
		return nil, err
	}
	return &TokenFile{s}, nil
}

// Current are the tokens in the file now, and none if it cannot be used.
func (f *TokenFile) Current() (Tokens, error) {
	t, _, err := f.file.get()
	if err != nil {
		return Tokens{}, err
	}
	return t, nil
}

// Pass is what a sidecar shows to etcds, to which it must not show the token itself: etcd's clients may be
// proxies, and their connections plain text. It is empty if the file cannot be used now, which its log tells.
func (f *TokenFile) Pass() string {
	t, err := f.Current()
	if err != nil {
		return ""
	}
	return hex.EncodeToString(pass(t.sums[0]))
}

// AcceptPass reports whether the pass is that of a token in the file now.
func (f *TokenFile) AcceptPass(shown string) bool {
	t, err := f.Current()
	return err == nil && t.AcceptPass(shown)
}

// ParseBearer returns the token of an Authorization header, whose values are given. It is empty if
// there is no such header; more than one, another scheme, or what cannot be a token, is an error.
func ParseBearer(values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", nil
	case 1:
	default:
		return "", errors.New("more than one Authorization header")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", errors.New("of the kinds of authorization only Bearer is understood")
	}
	token = strings.Trim(token, " ")
	if err := checkToken(token); err != nil {
		return "", errors.New("what follows Bearer cannot be a token")
	}
	return token, nil
}
