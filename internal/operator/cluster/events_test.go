package cluster

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/client-go/tools/events"
)

// The page of events is made of Events, and nothing else may be sent.
func TestEveryEventThatIsSentIsInTheCatalogueAndTheOtherWayRound(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	sent, listed := map[string]bool{}, map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, is := d.(*ast.FuncDecl)
			if !is {
				continue
			}
			into := sent
			if fn.Name.Name == "Events" {
				into = listed
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				if id, is := n.(*ast.Ident); is {
					into[id.Name] = true
				}
				return true
			})
		}
	}
	events := declared(t)
	if len(events) != len(Events()) {
		t.Errorf("events.go declares %d events, and the catalogue has %d", len(events), len(Events()))
	}
	reasons := map[string]bool{}
	for _, e := range Events() {
		if reasons[e.Reason] || e.Type == "" || e.Action == "" || e.Meaning == "" {
			t.Errorf("%+v is there twice, or not whole", e)
		}
		reasons[e.Reason] = true
	}
	for _, name := range events {
		if !listed[name] {
			t.Errorf("%s is not in the catalogue", name)
		}
		if !sent[name] {
			t.Errorf("%s is never sent", name)
		}
		if !reasons[name] {
			t.Errorf("%s has another reason than its name", name)
		}
	}
}

// declared are the names of the variables in events.go, which are all events.
func declared(t *testing.T) (names []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "events.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		g, is := d.(*ast.GenDecl)
		if !is || g.Tok != token.VAR {
			continue
		}
		for _, s := range g.Specs {
			for _, name := range s.(*ast.ValueSpec).Names {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

// A store may say what is wrong in any language, and nothing that is no text reaches the API server.
func TestALongNoteIsCutBetweenCharacters(t *testing.T) {
	r := Reconciler{recorder: events.NewFakeRecorder(10)}
	for _, n := range []int{maxNote/3 - 1, maxNote / 3, maxNote/3 + 1, maxNote} { // of three bytes each
		r.event(newEtcd(1), BackupFailing, strings.Repeat("駄", n))
		note := <-r.recorder.(*events.FakeRecorder).Events
		if !utf8.ValidString(note) || len(note) > len("Warning BackupFailing ")+maxNote+len("...") || strings.HasSuffix(note, "...") != (3*n > maxNote) {
			t.Errorf("of %d characters are left %d bytes, which end with %q", n, len(note), note[max(0, len(note)-12):])
		}
	}
}
