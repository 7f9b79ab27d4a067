package internal_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What a reader can take in at once. `make check` prints the largest of each.
const (
	maxPackage  = 2000 // lines of code of one package, without tests, comments and empty lines
	maxFile     = 400  // lines of one file without tests
	maxFunction = 60   // lines of one function
	maxColumns  = 120  // of one line, a tab is four

	maxLines    = 77500 // of Go without tests
	maxPackages = 89    // with code, without those that have tests only
	maxWords    = 36000 // of all documents
)

// size is how large one thing is.
type size struct {
	of string
	n  int
}

// TestSizes measures packages, files, functions and lines, and the whole.
func TestSizes(t *testing.T) {
	var packages, files, functions, lines []size
	whole := size{of: "Go without tests"}
	for _, p := range list(t, "./...") {
		total := 0
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			n := strings.Count(string(text), "\n")
			total += code(string(text))
			whole.n += n
			of := p.name() + "/" + name
			files = append(files, size{of, n})
			lines = append(lines, longest(of, string(text)))
			functions = append(functions, bodies(t, path, of)...)
		}
		if len(p.GoFiles) > 0 {
			packages = append(packages, size{p.name(), total})
		}
	}
	for _, m := range []struct {
		what  string
		sizes []size
		limit int
	}{
		{"largest package", packages, maxPackage}, {"largest file", files, maxFile},
		{"longest function", functions, maxFunction}, {"longest line", lines, maxColumns},
		{"all lines", []size{whole}, maxLines}, {"all packages", []size{{"with code", len(packages)}}, maxPackages},
		{"all words", []size{words(t)}, maxWords},
	} {
		top := slices.MaxFunc(m.sizes, func(a, b size) int { return cmp.Compare(a.n, b.n) })
		t.Logf("%-17s %5d (limit %d)  %s", m.what, top.n, m.limit, top.of)
		for _, s := range m.sizes {
			if s.n > m.limit {
				t.Errorf("%s: %d, limit %d: %s", m.what, s.n, m.limit, s.of)
			}
		}
	}
}

// words counts those of all documents.
func words(t *testing.T) size {
	t.Helper()
	all := size{of: "documents"}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "dist"):
			return fs.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		all.n += len(strings.Fields(string(text)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// code counts the lines of a file that are neither empty nor a comment of their own.
func code(text string) (n int) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}

// longest is the longest line of a file.
func longest(of, text string) size {
	top := size{of: of}
	for i, line := range strings.Split(text, "\n") {
		if n := len([]rune(strings.ReplaceAll(line, "\t", "    "))); n > top.n {
			top = size{fmt.Sprintf("%s:%d", of, i+1), n}
		}
	}
	return top
}

// bodies are the functions of a file.
func bodies(t *testing.T, path, of string) []size {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var all []size
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			n := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1
			all = append(all, size{of + ": " + fn.Name.Name, n})
		}
	}
	return all
}
