package auth

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestATokenFileHoldsOneTokenPerLine(t *testing.T) {
	long := strings.Repeat("x", MaxToken)
	for name, c := range map[string]struct {
		content   string
		wantFirst string
		want      []string
		wantError string // part of it
	}{
		"one token":                      {content: tokenA, wantFirst: tokenA, want: []string{tokenA}},
		"one token and a newline":        {content: tokenA + "\n", wantFirst: tokenA, want: []string{tokenA}},
		"white space around":             {content: "\n \t" + tokenA + " \r\n\n", wantFirst: tokenA, want: []string{tokenA}},
		"two tokens":                     {content: tokenB + "\n" + tokenA + "\n", wantFirst: tokenB, want: []string{tokenA, tokenB}},
		"every character that may occur": {content: "azAZ09-._~+/0123==", wantFirst: "azAZ09-._~+/0123==", want: []string{"azAZ09-._~+/0123=="}},
		"the longest":                    {content: long, wantFirst: long, want: []string{long}},
		"nothing":                        {content: "", wantError: "no token"},
		"empty lines":                    {content: "\n\n \n", wantError: "no token"},
		"one that is too short":          {content: tokenA + "\n" + tokenB[:15], wantError: "line 2: a token of 15 bytes"},
		"one that is too long":           {content: long + "x", wantError: "line 1: a token of 4097 bytes"},
		"a space within":                 {content: tokenA + " " + tokenB, wantError: "line 1: a token may hold only"},
		"a byte that is no text":         {content: tokenA + "\x00", wantError: "line 1: a token may hold only"},
		"a letter beyond ASCII":          {content: tokenA + "ä", wantError: "line 1: a token may hold only"},
		"more than anybody exchanges":    {content: strings.Repeat(tokenA+"\n", maxTokens+1), wantError: "line 17: more than 16"},
	} {
		got, err := ParseTokens([]byte(c.content))
		if c.wantError != "" {
			if err == nil || !strings.Contains(err.Error(), c.wantError) || strings.Contains(err.Error(), tokenA) {
				t.Errorf("%s: %v, want %q and no token", name, err, c.wantError)
			}
			if got.Accept(tokenA) || got.Accept("") {
				t.Errorf("%s: what was refused is accepted", name)
			}
			continue
		}
		if err != nil || got.first != c.wantFirst || len(got.sums) != len(c.want) {
			t.Errorf("%s: first %q of %d, %v; want %q of %d", name, got.first, len(got.sums), err, c.wantFirst, len(c.want))
		}
		for _, token := range c.want {
			if !got.Accept(token) {
				t.Errorf("%s: %.30q is not accepted", name, token)
			}
			for _, not := range []string{token[1:], token[:len(token)-1], token + "x", strings.ToLower(token) + "x", ""} {
				if got.Accept(not) {
					t.Errorf("%s: %.30q is accepted", name, not)
				}
			}
		}
	}
}

func TestAPassIsThatOfOneOfTheTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(tokenA + "\n")
	f, err := NewTokenFile(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := f.Pass()
	if strings.Contains(a, tokenA) || len(a) != 64 {
		t.Errorf("the pass is %q", a)
	}
	for phrase, c := range map[string]struct {
		content string
		want    bool // a is accepted
	}{
		"the token is there":   {tokenA, true},
		"a new one is below":   {tokenA + "\n" + tokenB, true},
		"a new one is above":   {tokenB + "\n" + tokenA, true},
		"it is gone":           {tokenB, false},
		"nothing can be read":  {"short", false},
		"the file is empty":    {"", false},
		"the token came again": {tokenA + "\n", true},
	} {
		write(c.content)
		if got := f.AcceptPass(a); got != c.want {
			t.Errorf("%s: accepted %t, want %t", phrase, got, c.want)
		}
		for _, not := range []string{"", "00", a[:62], a + "00", tokenA, "g" + a[1:]} {
			if f.AcceptPass(not) {
				t.Errorf("%s: %q is accepted", phrase, not)
			}
		}
	}
	write("short")
	if got := f.Pass(); got != "" {
		t.Errorf("without a token the pass is %q", got)
	}
}

func TestTokensAreNeverPrinted(t *testing.T) {
	tokens, err := ParseTokens([]byte(tokenA + "\n" + tokenB))
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if got := fmt.Sprintf(verb, tokens) + fmt.Sprintf(verb, &tokens); strings.Contains(got, tokenA) || strings.Contains(got, tokenB) {
			t.Errorf("%s shows %s", verb, got)
		}
	}
}

func TestOnlyABearerTokenIsReadFromTheHeader(t *testing.T) {
	for name, c := range map[string]struct {
		values    []string
		want      string
		wantError bool
	}{
		"no header":           {},
		"a token":             {values: []string{"Bearer " + tokenA}, want: tokenA},
		"another case":        {values: []string{"bEARER " + tokenA}, want: tokenA},
		"more spaces":         {values: []string{"Bearer   " + tokenA + " "}, want: tokenA},
		"nothing after it":    {values: []string{"Bearer"}, wantError: true},
		"only spaces":         {values: []string{"Bearer   "}, wantError: true},
		"an empty header":     {values: []string{""}, wantError: true},
		"a user and password": {values: []string{"Basic dXNlcjpwYXNzd29yZA=="}, wantError: true},
		"a bare token":        {values: []string{tokenA}, wantError: true},
		"two headers":         {values: []string{"Bearer " + tokenA, "Bearer " + tokenB}, wantError: true},
		"two tokens":          {values: []string{"Bearer " + tokenA + "," + tokenB}, wantError: true},
		"what is too short":   {values: []string{"Bearer abc"}, wantError: true},
	} {
		got, err := ParseBearer(c.values)
		if got != c.want || (err != nil) != c.wantError {
			t.Errorf("%s: %q, %v; want %q, error %t", name, got, err, c.want, c.wantError)
		}
		if err != nil && strings.Contains(err.Error(), tokenA) {
			t.Errorf("%s: the error shows the token: %v", name, err)
		}
	}
}

func FuzzParseTokens(f *testing.F) {
	for _, seed := range []string{"", tokenA, tokenA + "\n" + tokenB + "\r\n", "\x00", strings.Repeat(tokenA+"\n", 20)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		tokens, err := ParseTokens(content)
		if err != nil {
			if len(tokens.sums) != 0 || tokens.first != "" {
				t.Fatal("tokens together with an error")
			}
			return
		}
		if !tokens.Accept(tokens.first) || tokens.Accept("") {
			t.Fatal("the first token is not accepted, or none is")
		}
		// What a file gives is what a header can carry.
		if got, err := ParseBearer([]string{"Bearer " + tokens.first}); err != nil || got != tokens.first {
			t.Fatalf("the header gives %q, %v", got, err)
		}
	})
}

func FuzzParseBearer(f *testing.F) {
	for _, seed := range []string{"", "Bearer " + tokenA, "Basic x", "Bearer \x00", "bearer\t" + tokenA} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		token, err := ParseBearer([]string{value})
		if (err == nil) != (token != "") {
			t.Fatalf("%q gives %q, %v", value, token, err)
		}
		if err == nil && (checkToken(token) != nil || !strings.Contains(value, token)) {
			t.Fatalf("%q gives %q", value, token)
		}
	})
}
