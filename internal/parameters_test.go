package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// maxParameters is how many parameters a reader of a call can tell apart. More of them are a struct
// with named fields.
const maxParameters = 4

// TestParameters counts the parameters of functions, function literals and methods of interfaces.
// Below pkg/checkpoint the limit does not hold yet.
func TestParameters(t *testing.T) {
	for _, p := range list(t, "./...") {
		if strings.HasPrefix(p.name(), "pkg/checkpoint") {
			continue
		}
		for _, name := range p.GoFiles {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if fn, ok := n.(*ast.FuncType); ok && fn.Params.NumFields() > maxParameters {
					t.Errorf("%s: %d parameters, limit %d: name them in a struct", fset.Position(fn.Pos()),
						fn.Params.NumFields(), maxParameters)
				}
				return true
			})
		}
	}
}
