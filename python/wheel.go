package python

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// Version is the version of the helper as a Python package.
const Version = "0.1.0"

// WheelName is the file name of the wheel that pip expects.
const WheelName = "elastic_helper-" + Version + "-py3-none-any.whl"

const (
	distInfo = "elastic_helper-" + Version + ".dist-info/"
	metadata = `Metadata-Version: 2.1
Name: elastic-helper
Version: ` + Version + `
Summary: Training that gives the same result at any world size
License: Apache-2.0
Requires-Python: >=3.8
`
	wheelFile = `Wheel-Version: 1.0
Generator: elastic
Root-Is-Purelib: true
Tag: py3-none-any
`
)

// wheelTime is the time of all files in the archive, so that the same files make the same wheel. It
// is the earliest time that zip supports.
var wheelTime = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// Wheel returns the helper as a wheel for pip, with the same files that workers get.
func Wheel() ([]byte, error) {
	var b bytes.Buffer
	w := wheelWriter{zip: zip.NewWriter(&b)}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		return w.add(name, data)
	})
	if err != nil {
		return nil, err
	}
	if err := w.add(distInfo+"METADATA", []byte(metadata)); err != nil {
		return nil, err
	}
	if err := w.add(distInfo+"WHEEL", []byte(wheelFile)); err != nil {
		return nil, err
	}
	w.record.WriteString(distInfo + "RECORD,,\n")
	if err := w.file(distInfo+"RECORD", []byte(w.record.String())); err != nil {
		return nil, err
	}
	if err := w.zip.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// wheelWriter writes the archive and its list of files.
type wheelWriter struct {
	zip    *zip.Writer
	record strings.Builder
}

func (w *wheelWriter) add(name string, data []byte) error {
	sum := sha256.Sum256(data)
	fmt.Fprintf(&w.record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(data))
	return w.file(name, data)
}

func (w *wheelWriter) file(name string, data []byte) error {
	h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: wheelTime}
	h.SetMode(0o644)
	f, err := w.zip.CreateHeader(h)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return err
}
