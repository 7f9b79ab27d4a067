package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
)

// maxParameters is how many parameters a reader of a call can tell apart. More of them are a struct
// with named fields.
const maxParameters = 4

// TestNoBooleanParameters: a reader of f(x, true) does not know what is true. Two functions, a type
// with named constants or a struct say it. Allowed are the setter of a switch, whose only parameter
// is "on", a condition "ok" that is checked, and what the signature of another module asks for:
// function literals and unnamed parameters.
func TestNoBooleanParameters(t *testing.T) {
	for _, p := range list(t, "./...") {
		for _, name := range p.GoFiles {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			literals := map[*ast.FuncType]bool{}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncLit:
					literals[n.Type] = true
				case *ast.FuncType:
					if at := boolean(n); at != nil && !literals[n] {
						t.Errorf("%s: a boolean parameter: two functions, a named constant or a struct "+
							"instead",
							fset.Position(at.Pos()))
					}
				}
				return true
			})
		}
	}
}

// boolean is a parameter that TestNoBooleanParameters forbids; nil if there is none.
func boolean(fn *ast.FuncType) *ast.Field {
	for _, p := range fn.Params.List {
		of := p.Type
		if e, ok := of.(*ast.Ellipsis); ok {
			of = e.Elt
		}
		if i, ok := of.(*ast.Ident); !ok || i.Name != "bool" {
			continue
		}
		if len(p.Names) == 0 {
			return p
		}
		for _, name := range p.Names {
			if name.Name != "_" && name.Name != "ok" && (name.Name != "on" || fn.Params.NumFields() > 1) {
				return p
			}
		}
	}
	return nil
}

// TestParameters counts the parameters of functions, function literals and methods of interfaces.
// In packages for tests the testing.TB does not count.
func TestParameters(t *testing.T) {
	for _, p := range list(t, "./...") {
		limit := maxParameters
		if slices.Contains(forTests, p.name()) {
			limit++
		}
		for _, name := range p.GoFiles {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if fn, ok := n.(*ast.FuncType); ok && fn.Params.NumFields() > limit {
					t.Errorf("%s: %d parameters, limit %d: name them in a struct",
						fset.Position(fn.Pos()), fn.Params.NumFields(), limit)
				}
				return true
			})
		}
	}
}
