package launch_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/internal/launch"
)

func TestFindProgram(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	for file, mode := range map[string]os.FileMode{
		"bin1/plain": 0o644, "bin1/both": 0o755, "bin1/tool": 0o644,
		"bin2/both": 0o755, "bin2/tool": 0o755, "bin2/script.py": 0o644,
		"elastic/train": 0o755, "elastic/both": 0o755,
		"here": 0o755, "note": 0o644, "loop.py": 0o644, "bin1/adir/x": 0o644,
		"app/__main__.py": 0o644,
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range map[string]string{"lines": "echo 1\n", "short": "#", "void": ""} {
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(root, "bin1") + ":" + filepath.Join(root, "bin2")
	for name, c := range map[string]struct {
		program, want string // want: below root
		near          []string
		refused       bool
	}{
		"with a slash":                      {program: "./here", want: "here"},
		"with a slash, not in PATH":         {program: "./both", near: []string{}},
		"absolute":                          {program: filepath.Join(root, "bin2/tool"), want: "bin2/tool"},
		"first in PATH":                     {program: "both", want: "bin1/both"},
		"what cannot be run is passed over": {program: "tool", want: "bin2/tool"},
		"beside the elastic binary":         {program: "train", want: "elastic/train"},
		"not executable, with a slash":      {program: "./note", refused: true},
		"not executable, in PATH":           {program: "plain", refused: true},
		"a directory by path":               {program: "./bin1", refused: true},
		"no program, and no #!":             {program: "./lines", refused: true},
		"one byte":                          {program: "./short", refused: true},
		"empty":                             {program: "./void", refused: true},
		"a directory in PATH is nothing":    {program: "adir", near: []string{}},
		"below a file":                      {program: "here/x", near: []string{}},
		"here but not asked for so":         {program: "here", near: []string{"./here"}},
		"a file that cannot be run":         {program: "note", near: []string{"python note"}},
		"a package":                         {program: "app", near: []string{"python app"}},
		"a script without its ending":       {program: "loop", near: []string{"python loop.py"}},
		"a script without python":           {program: "loop.py", near: []string{"python loop.py"}},
		"a script by path, no ending":       {program: "./loop", near: []string{"python ./loop.py"}},
		"nothing":                           {program: "", near: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := launch.FindProgram(c.program, path, filepath.Join(root, "elastic"))
			switch {
			case c.refused:
				if _, ok := errors.AsType[*launch.NotExecutableError](err); !ok {
					t.Errorf("got %q, %v; want NotExecutableError", got, err)
				}
			case c.near != nil:
				e, ok := errors.AsType[*launch.NotFoundError](err)
				if !ok {
					t.Fatalf("got %q, %v; want NotFoundError", got, err)
				}
				if d := cmp.Diff(c.near, append([]string{}, e.Near...)); d != "" {
					t.Errorf("near (-want +got)\n%s", d)
				}
			case err != nil || got != filepath.Join(root, c.want):
				t.Errorf("got %q, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestEmptyPathElementIsTheWorkingDirectory(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	if err := os.WriteFile("prog", []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := launch.FindProgram("prog", "/nonexistent::", "/nonexistent"); err != nil ||
		got != filepath.Join(root, "prog") {
		t.Errorf("got %q, %v", got, err)
	}
}

// The line "elastic run train" runs the demo, unless the working directory has a file of that name,
// which is run or refused.
func TestTrainIsTheDemo(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	demo := filepath.Join(root, "bin", launch.Demo)
	find := func() (string, error) { return launch.FindProgram("train", filepath.Dir(demo), filepath.Dir(demo)) }
	write := func(file string, mode os.FileMode) {
		t.Helper()
		os.Remove(file)
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"bin", "train"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(demo, 0o755)
	if got, err := find(); got != demo {
		t.Errorf("a directory: %q, %v", got, err)
	}
	if err := os.Remove("train"); err != nil {
		t.Fatal(err)
	}
	write("train", 0o755)
	if got, err := find(); got != filepath.Join(root, "train") {
		t.Errorf("a file: %q, %v", got, err)
	}
	write("train", 0o644)
	got, err := find()
	if _, refused := errors.AsType[*launch.NotExecutableError](err); !refused {
		t.Errorf("a file that cannot be run: %q, %v", got, err)
	}
}
