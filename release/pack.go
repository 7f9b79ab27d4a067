package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// sumsFile is the file with the checksums, for sha256sum -c.
const sumsFile = "SHA256SUMS"

//go:embed nfpm.yaml
var description string

// file is one file of an archive.
type file struct {
	name string // in the archive
	from string
	mode int64
}

// units are what systemd starts: a server, and an agent of a job.
func units() []string {
	return []string{"deploy/systemd/elasticd.service", "deploy/systemd/elastic@.service"}
}

// pack makes the archive and the packages of one architecture.
func (b build) pack(arch, bin string) error {
	top := fmt.Sprintf("elastic-%s-linux-%s", b.version, arch)
	var files []file
	for _, p := range programs {
		files = append(files, file{top + "/bin/" + p, filepath.Join(bin, p), 0o755})
	}
	for _, name := range append([]string{"CHANGELOG.md", "LICENSE", "README.md"}, units()...) {
		files = append(files, file{top + "/" + filepath.Base(name), filepath.Join(b.root, name), 0o644})
	}
	if err := archive(filepath.Join(b.out, top+".tar.gz"), files, b.at); err != nil {
		return err
	}
	for _, name := range units() {
		unit, err := os.ReadFile(filepath.Join(b.root, name))
		if err != nil {
			return err
		}
		installed := strings.ReplaceAll(string(unit), "/usr/local/bin/", "/usr/bin/")
		if err := os.WriteFile(filepath.Join(bin, filepath.Base(name)), []byte(installed), 0o644); err != nil {
			return err
		}
	}
	values := map[string]string{"VERSION": b.version, "ARCH": arch, "BIN": bin, "ROOT": b.root,
		"TIME": b.at.Format(time.RFC3339)}
	config := filepath.Join(bin, "nfpm.yaml")
	if err := os.WriteFile(config, []byte(os.Expand(description, func(k string) string { return values[k] })),
		0o644); err != nil {
		return err
	}
	root, err := filepath.Abs(b.root)
	if err != nil {
		return err
	}
	here := build{root: root}
	for _, kind := range []string{"deb", "rpm"} {
		target := filepath.Join(b.out, top+"."+kind)
		env := append(b.env, "GOFLAGS=", fmt.Sprint("SOURCE_DATE_EPOCH=", b.at.Unix()))
		if err := here.tool(env, "go", "run", nfpm, "package", "-f", config, "-p", kind, "-t",
			target); err != nil {
			return err
		}
	}
	return nil
}

// archive writes a tar that depends only on the files' names, modes and contents, and on at.
func archive(to string, files []file, at time.Time) error {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	for _, x := range files {
		content, err := os.ReadFile(x.from)
		if err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: x.name, Mode: x.mode, Size: int64(len(content)),
			ModTime: at, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(content); err != nil {
			return err
		}
	}
	for _, c := range []interface{ Close() error }{w, z, f} {
		if err := c.Close(); err != nil {
			return err
		}
	}
	return nil
}

// sums writes the checksums of all files of a directory.
func sums(dir string) error {
	all, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var lines []string
	for _, e := range all {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		lines = append(lines, hex.EncodeToString(sum[:])+"  "+e.Name()+"\n")
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	return os.WriteFile(filepath.Join(dir, sumsFile), []byte(strings.Join(lines, "")), 0o644)
}
