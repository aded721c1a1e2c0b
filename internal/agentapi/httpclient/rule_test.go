package httpclient

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOnlyThisPackageMakesClients reads the source of all programs: every other client would follow
// redirects, or wait for ever. Object stores have clients of their own, made by internal/store/dial.
func TestOnlyThisPackageMakesClients(t *testing.T) {
	files := 0
	for _, dir := range []string{"../../../cmd", "../../../internal"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (strings.HasSuffix(path, "/internal/store") || strings.HasSuffix(path, "/agentapi/httpclient")):
				return fs.SkipDir
			case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			files++
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, at := range clientsIn(file) {
				t.Errorf("%s: make the client with httpclient.New", set.Position(at))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 100 {
		t.Errorf("%d files were read; are the directories right?", files)
	}
}

// clientsIn returns where a file makes or uses another client of net/http.
func clientsIn(file *ast.File) (at []token.Pos) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if name := selected(n.Type); name == "Client" || name == "Transport" {
				at = append(at, n.Pos())
			}
		case *ast.SelectorExpr:
			if slices.Contains([]string{"DefaultClient", "DefaultTransport", "Get", "Head", "Post", "PostForm"}, selected(n)) {
				at = append(at, n.Pos())
			}
		case *ast.CallExpr:
			if id, is := n.Fun.(*ast.Ident); is && id.Name == "new" && len(n.Args) == 1 && slices.Contains([]string{"Client", "Transport"}, selected(n.Args[0])) {
				at = append(at, n.Pos())
			}
		}
		return true
	})
	return at
}

// selected is the name that an expression selects from package http; empty: none.
func selected(e ast.Expr) string {
	s, is := e.(*ast.SelectorExpr)
	if !is {
		return ""
	}
	if id, is := s.X.(*ast.Ident); !is || id.Name != "http" {
		return ""
	}
	return s.Sel.Name
}

func TestRuleFindsClients(t *testing.T) {
	for source, want := range map[string]int{
		"var c = &http.Client{}":               1,
		"var c = http.DefaultClient":           1,
		"var c = new(http.Client)":             1,
		"var c, _ = http.Get(u)":               1,
		"var c = http.Transport{}":             1,
		"var c *http.Client":                   0,
		"var c = http.Server{}":                0,
		"func f(c *http.Client) { c.Get(``) }": 0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+source, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(clientsIn(file)); got != want {
			t.Errorf("%s: %d clients, want %d", source, got, want)
		}
	}
}
