package main

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// The archive does not depend on the times and permissions of the files on disk.
func TestArchiveDependsOnContentsAlone(t *testing.T) {
	var made [2]string
	for i := range made {
		dir := t.TempDir()
		from := filepath.Join(dir, "from")
		if err := os.WriteFile(from, []byte("the same"), os.FileMode(0o600+i*0o44)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(from, time.Now(), time.Unix(int64(i)*1e6, 0)); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, "to.tar.gz")
		if err := archive(to, []file{{"top/bin/x", from, 0o755}}, time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(to)
		if err != nil {
			t.Fatal(err)
		}
		made[i] = string(b)
	}
	if made[0] != made[1] || len(made[0]) == 0 {
		t.Error("two archives of the same files differ")
	}
}

// An invalid version, or one that the Python package does not have, is refused before anything is built.
func TestVersionsThatAreNone(t *testing.T) {
	for _, v := range []string{"", "1.2.3", "v", "v1/2", "v1 2", "v99.0.0"} {
		if _, err := run(v, filepath.Join(t.TempDir(), "dist")); err == nil {
			t.Errorf("%q is taken", v)
		}
	}
}

// A package has each program of the archive in /usr/bin, and its files are what pack makes.
func TestPackagesHaveThePrograms(t *testing.T) {
	for _, p := range programs {
		if !strings.Contains(description, `"${BIN}/`+p+`", dst: /usr/bin/`+p+",") {
			t.Errorf("nfpm.yaml does not install %s", p)
		}
	}
	made := slices.Clone(programs)
	for _, u := range units() {
		made = append(made, filepath.Base(u))
	}
	for _, found := range regexp.MustCompile(`\$\{BIN\}/([^"]+)`).FindAllStringSubmatch(description, -1) {
		if !slices.Contains(made, found[1]) {
			t.Errorf("nfpm.yaml installs %s, which is not built", found[1])
		}
	}
}

// A program is packed only for the architecture that it is for, and only if it needs no C library.
func TestProgramsRunWhereTheirTagsSay(t *testing.T) {
	b := build{root: "..", out: t.TempDir(), env: os.Environ()}
	for _, arch := range architectures {
		bin := filepath.Join(b.out, arch)
		if err := b.tool(append(b.env, "CGO_ENABLED=0", "GOARCH="+arch), "go", "build", "-o", bin+"/",
			"./integration/kube/pause"); err != nil {
			t.Fatal(err)
		}
		for _, asked := range architectures {
			if err := runsOn(asked, filepath.Join(bin, "pause")); (err == nil) != (asked == arch) {
				t.Errorf("a program for %s, packed for %s: %v", arch, asked, err)
			}
		}
	}
	if err := runsOn(runtime.GOARCH, "/bin/sh"); err == nil {
		t.Error("a program that needs a C library is packed")
	}
}
