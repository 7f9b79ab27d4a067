package launch

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPythonScript(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	python := file("python3.12", "\x7fELF…")
	script, module := func(name string) Script { return Script{"script", name} },
		func(name string) Script { return Script{"module", name} }
	for _, c := range []struct {
		name    string
		program string
		args    []string
		want    Script // zero: none
	}{
		{"script", python, []string{"train.py", "-E"}, script("train.py")},
		{"unbuffered", python, []string{"-u", "train.py"}, script("train.py")},
		{"switches together", python, []string{"-uB", "-W", "error", "-Xdev", "train.py"},
			script("train.py")},
		{"module", python, []string{"-u", "-m", "pkg.train", "x"}, module("pkg.train")},
		{"module in one word", python, []string{"-umpkg"}, module("pkg")},
		{"no environment", python, []string{"-E", "train.py"}, Script{}},
		{"isolated", python, []string{"-uI", "train.py"}, Script{}},
		{"no site", python, []string{"-S", "train.py"}, Script{}},
		{"a command", python, []string{"-c", "import torch"}, Script{}},
		{"standard input", python, []string{"-"}, Script{}},
		{"a long switch", python, []string{"--check-hash-based-pycs", "always", "train.py"}, Script{}},
		{"nothing", python, nil, Script{}},
		{"a switch without its word", python, []string{"-W"}, Script{}},
		{"a shim", file("python3", "#!/bin/sh\nexec python3.12 \"$@\""), []string{"train.py"}, Script{}},
		{"another program", file("train", "\x7fELF…"), []string{"train.py"}, Script{}},
		{"a program that is not there", filepath.Join(dir, "python"), []string{"train.py"}, Script{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := PythonScript(c.program, c.args)
			if got != c.want || ok != (c.want != Script{}) {
				t.Errorf("%q: %+v, %t", c.args, got, ok)
			}
		})
	}
}
