package plants_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPlantsCompile type-checks each bug: one that does not compile would be caught by the compiler, and
// says nothing about the tests.
func TestPlantsCompile(t *testing.T) {
	packages, exports := compiled(t)
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, errors.New("no export data of " + path)
		}
		return os.Open(exports[path])
	})
	for _, p := range slices.Concat(plants, guards) {
		files := packages[filepath.Dir(p.file)]
		if !strings.HasSuffix(p.file, ".go") || files == nil {
			continue // Python, the model: their own programs say
		}
		text, err := p.plant("../..")
		if err != nil {
			continue // TestPlantsFit says so
		}
		if err := check(fset, imports, files, p.file, text); err != nil {
			t.Errorf("%s does not compile: %v", p.bug, err)
		}
	}
}

// check type-checks a package in which the file named changed has another text.
func check(fset *token.FileSet, from types.Importer, files []string, changed string, text []byte) error {
	var parsed []*ast.File
	for _, name := range files {
		var source any
		if filepath.Base(name) == filepath.Base(changed) {
			source = text
		}
		f, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		parsed = append(parsed, f)
	}
	c := types.Config{Importer: from}
	_, err := c.Check(filepath.Dir(changed), fset, parsed, nil)
	return err
}

// compiled is the files of each package of this module, by its directory, and the export data of all
// packages, by import path.
func compiled(t *testing.T) (files map[string][]string, exports map[string]string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps",
		"-json=ImportPath,Dir,GoFiles,Export", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/elasticd/elastic/"
	files, exports = map[string][]string{}, map[string]string{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, Dir, Export string
			GoFiles                 []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return files, exports
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if dir, ok := strings.CutPrefix(p.ImportPath, module); ok {
			for _, name := range p.GoFiles {
				files[dir] = append(files[dir], filepath.Join(p.Dir, name))
			}
		}
	}
}
