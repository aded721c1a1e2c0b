package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// providersPath is where the packages of the providers are imported from.
const providersPath = "druid.internal/druid/internal/store/"

// measureSizes builds etcdbrctl whole and without each provider, as `make build` does. What a
// provider adds is what goes with it, its SDK above all; what two share goes with neither.
func measureSizes(ctx context.Context, b *bench) (*result, error) {
	root, err := filepath.Abs("..")
	if err != nil {
		return nil, err
	}
	dir := b.scratch("size")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	build := func(overlay string) (int64, error) {
		out := filepath.Join(dir, "etcdbrctl")
		args := []string{"build", "-tags=disable_grpc_modules", "-trimpath", "-ldflags=-s -w", "-o", out}
		if overlay != "" {
			args = append(args, "-overlay="+overlay)
		}
		cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/etcdbrctl")...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
		if text, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("%w:\n%s", err, text)
		}
		info, err := os.Stat(out)
		if err != nil {
			return 0, err
		}
		return info.Size(), nil
	}
	done := doing("building etcdbrctl whole and without each provider")
	whole, err := build("")
	if err != nil {
		return nil, err
	}
	open := filepath.Join(root, "internal/store/open")
	providers, err := importedProviders(open)
	if err != nil {
		return nil, err
	}
	var added []string
	for _, p := range providers {
		overlay, err := without(open, p, dir)
		if err != nil {
			return nil, err
		}
		size, err := build(overlay)
		if err != nil {
			return nil, fmt.Errorf("without %s: %w", p, err)
		}
		added = append(added, fmt.Sprintf("%s %.1f MB", p, float64(whole-size)/1e6))
	}
	done()
	return &result{remarks: []string{fmt.Sprintf("etcdbrctl, as `make build` makes it, has %.1f MB. Each provider and its SDK add: %s.", float64(whole)/1e6, strings.Join(added, ", "))}}, nil
}

// withoutSDK are packages beside the providers that have one.
var withoutSDK = []string{"admin", "dial", "local", "open"}

// importedProviders are the packages of providers that the package at open imports, sorted.
func importedProviders(open string) (names []string, err error) {
	files, err := filepath.Glob(filepath.Join(open, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return nil, err
		}
		for _, i := range f.Imports {
			if name, is := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), providersPath); is && !slices.Contains(withoutSDK, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// without writes an overlay in which the package at open does not import the provider. What it
// declares in terms of the provider is left out, so are cases that need any of that, and other functions that do do nothing.
func without(open, provider, dir string) (overlay string, err error) {
	names, err := filepath.Glob(filepath.Join(open, "*.go"))
	if err != nil {
		return "", err
	}
	fset := token.NewFileSet()
	files := map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return "", err
		}
		f.Comments = nil
		files[name] = f
	}
	gone := map[string]bool{}
	for again := true; again; { // what is declared in terms of what is gone is gone, too
		again = false
		for _, f := range files {
			before := len(gone)
			f.Decls = slices.DeleteFunc(f.Decls, func(d ast.Decl) bool { return leftOut(d, provider, gone) })
			again = again || len(gone) > before
		}
	}
	replace := map[string]string{}
	for name, f := range files {
		for _, d := range f.Decls {
			fn, is := d.(*ast.FuncDecl)
			if !is {
				continue
			}
			dropCases(fn.Body, provider, gone)
			if needs(fn.Body, provider, gone) {
				fn.Body = &ast.BlockStmt{List: []ast.Stmt{&ast.ExprStmt{X: &ast.CallExpr{Fun: ast.NewIdent("panic"), Args: []ast.Expr{ast.NewIdent(`"left out"`)}}}}}
			}
		}
		dropImports(f)
		to := filepath.Join(dir, provider+"-"+filepath.Base(name))
		var b bytes.Buffer
		if err := format.Node(&b, fset, f); err != nil {
			return "", err
		}
		if err := os.WriteFile(to, b.Bytes(), 0o600); err != nil {
			return "", err
		}
		replace[name] = to
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, provider+".json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// dropCases empties the cases of a function that need what is gone, and drops what it names for them alone.
func dropCases(body *ast.BlockStmt, provider string, gone map[string]bool) {
	gone = maps.Clone(gone)
	body.List = slices.DeleteFunc(body.List, func(s ast.Stmt) bool {
		a, is := s.(*ast.AssignStmt)
		if !is || a.Tok != token.DEFINE || len(a.Lhs) != 1 || !needs(a, provider, gone) {
			return false
		}
		gone[a.Lhs[0].(*ast.Ident).Name] = true
		return true
	})
	ast.Inspect(body, func(n ast.Node) bool {
		if c, is := n.(*ast.CaseClause); is && slices.ContainsFunc(c.Body, func(s ast.Stmt) bool { return needs(s, provider, gone) }) {
			c.Body = nil
		}
		return true
	})
}

// leftOut reports whether a declaration is in terms of the provider, and notes its name.
func leftOut(d ast.Decl, provider string, gone map[string]bool) bool {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil && needs(d.Recv, provider, gone) {
			return true
		}
		if !needs(d.Type, provider, gone) {
			return false
		}
		if d.Recv == nil { // others may have a method of that name
			gone[d.Name.Name] = true
		}
		return true
	case *ast.GenDecl:
		if d.Tok != token.TYPE {
			return false
		}
		d.Specs = slices.DeleteFunc(d.Specs, func(s ast.Spec) bool {
			t := s.(*ast.TypeSpec)
			if needs(t.Type, provider, gone) {
				gone[t.Name.Name] = true
			}
			return gone[t.Name.Name]
		})
		return len(d.Specs) == 0
	}
	return false
}

// needs reports whether something in n belongs to the provider's package or is gone.
func needs(n ast.Node, provider string, gone map[string]bool) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			x, is := n.X.(*ast.Ident)
			found = found || is && x.Name == provider || gone[n.Sel.Name]
		case *ast.Ident:
			found = found || gone[n.Name]
		}
		return !found
	})
	return found
}

// dropImports removes imports that nothing needs any more.
func dropImports(f *ast.File) {
	for _, d := range f.Decls {
		imports, is := d.(*ast.GenDecl)
		if !is || imports.Tok != token.IMPORT {
			continue
		}
		imports.Specs = slices.DeleteFunc(imports.Specs, func(s ast.Spec) bool {
			path := strings.Trim(s.(*ast.ImportSpec).Path.Value, `"`)
			name := path[strings.LastIndex(path, "/")+1:]
			return !slices.ContainsFunc(f.Decls, func(d ast.Decl) bool { return d != imports && needs(d, name, nil) })
		})
	}
}
