package python_test

import (
	"archive/zip"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/elasticd/elastic/internal/version"
	"github.com/elasticd/elastic/python"
)

// programs are scripts that say their name, in place of the real programs.
func programs() map[string][]byte {
	p := map[string][]byte{}
	for _, name := range python.Names() {
		p[name] = []byte("#!/bin/sh\necho this is " + name + "\n")
	}
	return p
}

// install writes the wheel and has pip install it into a directory.
func install(t *testing.T, w python.Wheel) string {
	t.Helper()
	data, err := w.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := w.Bytes(); err != nil || !bytes.Equal(again, data) {
		t.Errorf("the same files make another wheel (%v)", err)
	}
	dir := t.TempDir()
	file, to := filepath.Join(dir, w.Name()), filepath.Join(dir, "installed")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	pip := exec.CommandContext(t.Context(), "python3", "-m", "pip", "install", "--no-index", "--no-deps",
		"--no-compile", "--target", to, file)
	if out, err := pip.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return to
}

// pip installs the wheel, Python imports it, and its files are those that workers are given.
func TestWheel(t *testing.T) {
	for name, w := range map[string]python.Wheel{
		"alone": {},
		"whole": {Machine: runtime.GOARCH, Programs: programs()},
	} {
		t.Run(name, func(t *testing.T) {
			installed, given := install(t, w), filepath.Join(t.TempDir(), "given")
			if err := python.Write(given); err != nil {
				t.Fatal(err)
			}
			same := exec.CommandContext(t.Context(), "diff", "-r", filepath.Join(given, "elastic"),
				filepath.Join(installed, "elastic"))
			if out, err := same.CombinedOutput(); err != nil {
				t.Errorf("the wheel differs from what workers are given: %v\n%s", err, out)
			}
			script := "import elastic, importlib.metadata as m; print(elastic.world().size, " +
				"elastic.__version__, m.version('elasticd'), m.metadata('elasticd')['License-Expression'])"
			cmd := exec.CommandContext(t.Context(), "python3", "-B", "-c", script)
			cmd.Env = []string{"PYTHONPATH=" + installed, "PATH=" + os.Getenv("PATH")}
			want := "1 " + version.Python() + " " + version.Python() + " Apache-2.0\n"
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
				t.Errorf("%q, %v", out, err)
			}
			for _, name := range python.Names() {
				run := exec.CommandContext(t.Context(), filepath.Join(installed, "bin", name))
				run.Env = cmd.Env
				out, err := run.CombinedOutput()
				if w.Programs != nil && (err != nil || string(out) != "this is "+name+"\n") {
					t.Errorf("%s: %q, %v", name, out, err)
				}
				if w.Programs == nil && (err == nil || !strings.HasPrefix(string(out), name+": this wheel has only")) {
					t.Errorf("%s of a wheel without programs: %q, %v", name, out, err)
				}
			}
		})
	}
}

// The name of a wheel has the same platforms as the file WHEEL in it, and the list of files is complete.
func TestContentsOfAWheel(t *testing.T) {
	w := python.Wheel{Machine: "arm64", Programs: programs()}
	data, err := w.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var tags []string
	info := content(t, z, "elasticd-"+version.Python()+".dist-info/WHEEL")
	for line := range strings.Lines(info) {
		if tag, ok := strings.CutPrefix(line, "Tag: py3-none-"); ok {
			tags = append(tags, strings.TrimSpace(tag))
		}
	}
	want := "elasticd-" + version.Python() + "-py3-none-" + strings.Join(tags, ".") + ".whl"
	if len(tags) != 3 || w.Name() != want || !strings.Contains(info, "Root-Is-Purelib: false") {
		t.Errorf("%s has\n%s", w.Name(), info)
	}
	record := content(t, z, "elasticd-"+version.Python()+".dist-info/RECORD")
	for _, f := range z.File {
		if !strings.Contains(record, f.Name+",") {
			t.Errorf("RECORD has no %s", f.Name)
		}
		if executable := f.Mode()&0o111 != 0; executable != strings.Contains(f.Name, ".data/scripts/") {
			t.Errorf("%s has mode %v", f.Name, f.Mode())
		}
	}
}

func content(t *testing.T, z *zip.Reader, name string) string {
	f, err := z.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(f); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Programs for another machine are refused, because no name says where they run.
func TestWheelOfAnUnknownMachine(t *testing.T) {
	if _, err := (python.Wheel{Machine: "riscv64", Programs: programs()}).Bytes(); err == nil {
		t.Error("it is made")
	}
}

// Programs are found beside elastic.
func TestProgramsOfAWheel(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"elastic", "elastic-demo"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, missing, err := python.Programs(filepath.Join(dir, "elastic"))
	if err != nil || string(found["elastic-demo"]) != "elastic-demo" || !slices.Equal(missing, []string{"elasticd"}) {
		t.Errorf("%q, missing %q, %v", found, missing, err)
	}
}

// The licence in the wheel is that of the project.
func TestLicence(t *testing.T) {
	a, err := os.ReadFile("LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile("../LICENSE"); err != nil || !bytes.Equal(a, b) {
		t.Errorf("it is another one (%v)", err)
	}
}
