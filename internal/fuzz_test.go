package internal_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every fuzz target is in the list of `make fuzz`, and nothing else is.
func TestMakeFuzzHasEveryTarget(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	listed := regexp.MustCompile(`[\w/]+:Fuzz\w+`).FindAllString(string(makefile), -1)
	var has []string
	target := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(f \*testing\.F\)`)
	err = filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		code, err := os.ReadFile(path)
		for _, m := range target.FindAllSubmatch(code, -1) {
			has = append(has, filepath.ToSlash(filepath.Dir(path))[len("../"):]+":"+string(m[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(listed)
	slices.Sort(has)
	if diff := cmp.Diff(has, listed); diff != "" {
		t.Error(diff)
	}
}
