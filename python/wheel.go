package python

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/version"
)

// project is the name under which pip knows the wheel. The name that Python imports is elastic.
const project = "elasticd"

// stem begins the names of the wheel and of its directories.
var stem = project + "-" + version.Python()

var (
	//go:embed README.md
	description []byte
	//go:embed LICENSE
	license []byte
)

var metadata = `Metadata-Version: 2.4
Name: ` + project + `
Version: ` + version.Python() + `
Summary: Keeps a distributed training job going while its machines come and go
Author: The Elastic authors
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.9
Keywords: distributed training,elastic,fault tolerance,checkpoint,torchrun,pytorch,paddle
Classifier: Development Status :: 4 - Beta
Classifier: Environment :: Console
Classifier: Intended Audience :: Developers
Classifier: Intended Audience :: Science/Research
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Go
Classifier: Programming Language :: Python :: 3
Classifier: Programming Language :: Python :: 3.9
Classifier: Programming Language :: Python :: 3.10
Classifier: Programming Language :: Python :: 3.11
Classifier: Programming Language :: Python :: 3.12
Classifier: Programming Language :: Python :: 3.13
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Classifier: Topic :: System :: Distributed Computing
Classifier: Typing :: Typed
Project-URL: Source, https://github.com/elasticd/elastic
Provides-Extra: torch
Requires-Dist: torch>=2.4; extra == "torch"
Description-Content-Type: text/markdown

`

// missing makes the programs' names say why they are not there, in a wheel without them.
const missing = `[console_scripts]
elastic = elastic.missing:main
elasticd = elastic.missing:main
elastic-demo = elastic.missing:main
`

// wheelTime is the time of all files in the archive, so that the same files make the same wheel. It
// is the earliest time that zip supports.
var wheelTime = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// Wheel is the helper as a wheel for pip, with the same files that workers get.
type Wheel struct {
	// Machine is the architecture of the programs, as Go names it. It is not used without them.
	Machine string
	// Programs are the contents of elastic, elasticd and elastic-demo, by these names. Without
	// them the wheel installs on any platform.
	Programs map[string][]byte
}

// Names are the programs of a whole wheel, in the order in which they are packed.
func Names() []string {
	return []string{"elastic", "elasticd", "elastic-demo"}
}

// Name returns the file name of the wheel. pip finds in it on which machines the wheel can be used.
func (w Wheel) Name() string {
	return stem + "-" + strings.Join(w.tags(), ".") + ".whl"
}

// tags returns the platforms. The programs are static, so they need neither glibc nor musl: the
// oldest version of each is named that pip and uv know.
func (w Wheel) tags() []string {
	if len(w.Programs) == 0 {
		return []string{"py3-none-any"}
	}
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[w.Machine]
	return []string{"py3-none-manylinux2014_" + machine, "manylinux_2_17_" + machine,
		"musllinux_1_1_" + machine}
}

// info returns the file WHEEL. It has a line for each platform that the name of the wheel has.
func (w Wheel) info() string {
	s := "Wheel-Version: 1.0\nGenerator: elastic\n"
	s += fmt.Sprintf("Root-Is-Purelib: %t\n", len(w.Programs) == 0)
	for i, tag := range w.tags() {
		if i > 0 {
			tag = "py3-none-" + tag
		}
		s += "Tag: " + tag + "\n"
	}
	return s
}

// Bytes returns the archive. The same helper and programs give the same bytes.
func (w Wheel) Bytes() ([]byte, error) {
	if _, known := map[string]bool{"amd64": true, "arm64": true}[w.Machine]; len(w.Programs) > 0 && !known {
		return nil, fmt.Errorf("no wheel for machine %q: amd64 or arm64", w.Machine)
	}
	var b bytes.Buffer
	a := archive{zip: zip.NewWriter(&b)}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := files.ReadFile(name)
		a.add(name, data, 0o644)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, name := range Names() {
		if program, ok := w.Programs[name]; ok {
			a.add(stem+".data/scripts/"+name, program, 0o755)
		}
	}
	if len(w.Programs) == 0 {
		a.add(stem+".dist-info/entry_points.txt", []byte(missing), 0o644)
	}
	a.add(stem+".dist-info/licenses/LICENSE", license, 0o644)
	a.add(stem+".dist-info/METADATA", append([]byte(metadata), description...), 0o644)
	a.add(stem+".dist-info/WHEEL", []byte(w.info()), 0o644)
	a.file(stem+".dist-info/RECORD", []byte(a.record.String()+stem+".dist-info/RECORD,,\n"), 0o644)
	if a.err == nil {
		a.err = a.zip.Close()
	}
	return b.Bytes(), a.err
}

// archive writes the files, and keeps the list of them. After an error it writes nothing more.
type archive struct {
	zip    *zip.Writer
	record strings.Builder
	err    error
}

func (a *archive) add(name string, data []byte, mode fs.FileMode) {
	sum := sha256.Sum256(data)
	fmt.Fprintf(&a.record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(data))
	a.file(name, data, mode)
}

func (a *archive) file(name string, data []byte, mode fs.FileMode) {
	if a.err != nil {
		return
	}
	h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: wheelTime}
	h.SetMode(mode)
	f, err := a.zip.CreateHeader(h)
	if err == nil {
		_, err = f.Write(data)
	}
	a.err = err
}
