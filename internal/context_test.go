package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// TestNoStructHoldsAContext: a context is an argument. A struct whose work ends with it has a
// scope.Scope, a channel or a cancel function. Exempt is a type with a method Context, which some
// interface of another module asks it for.
func TestNoStructHoldsAContext(t *testing.T) {
	for _, p := range list(t, "./...") {
		var files []*ast.File
		fset, answers := token.NewFileSet(), map[string]bool{}
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && fn.Name.Name == "Context" &&
					fn.Type.Params.NumFields() == 0 {
					answers[receiver(fn)] = true
				}
			}
		}
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				if spec, ok := n.(*ast.TypeSpec); ok && answers[spec.Name.Name] {
					return false
				}
				if s, ok := n.(*ast.StructType); ok {
					for _, field := range s.Fields.List {
						if isContext(field.Type) {
							t.Errorf("%s: a context in a struct: pass it, or keep what ends the work",
								fset.Position(field.Pos()))
						}
					}
				}
				return true
			})
		}
	}
}

func isContext(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "context" && s.Sel.Name == "Context"
}

// receiver is the name of the type of a method.
func receiver(fn *ast.FuncDecl) string {
	e := fn.Recv.List[0].Type
	if p, ok := e.(*ast.StarExpr); ok {
		e = p.X
	}
	name, _ := e.(*ast.Ident)
	if name == nil {
		return ""
	}
	return name.Name
}
