package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
)

type group struct {
	title     string
	constants []constant
}

type constant struct{ value, meaning string }

// constants are the string constants of files, group by group in their order. One that no comment
// explains is an error.
func constants(dir string, files ...string) ([]group, error) {
	var groups []group
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.CONST {
				continue
			}
			g := group{title: strings.Join(strings.Fields(decl.Doc.Text()), " ")}
			for _, spec := range decl.Specs {
				value := spec.(*ast.ValueSpec)
				literal, ok := value.Values[0].(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					continue
				}
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
				meaning := value.Comment.Text()
				if value.Doc != nil {
					meaning = afterName(value.Doc.Text(), value.Names[0].Name)
				}
				if meaning == "" {
					return nil, fmt.Errorf("%s: no comment says what %s is", name, value.Names[0].Name)
				}
				g.constants = append(g.constants, constant{text, meaning})
			}
			if len(g.constants) > 0 {
				groups = append(groups, g)
			}
		}
	}
	return groups, nil
}

// afterName is a comment without the name of the constant at its beginning.
func afterName(comment, name string) string {
	rest := strings.TrimPrefix(strings.TrimSpace(comment), name)
	return strings.TrimSpace(strings.TrimPrefix(rest, ":"))
}
