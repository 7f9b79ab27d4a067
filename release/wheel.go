package main

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/elasticd/elastic/python"
)

// wheel makes the wheel for pip of one architecture.
func (b build) wheel(arch, bin string) error {
	found, missing, err := python.Programs(filepath.Join(bin, "elastic"))
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("the wheel for %s has no %s", arch, strings.Join(missing, ", "))
	}
	return b.write(python.Wheel{Machine: arch, Programs: found})
}

func (b build) write(w python.Wheel) error {
	data, err := w.Bytes()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.out, w.Name()), data, 0o644)
}

// runsOn returns an error unless a program runs on each Linux of an architecture: the tags of a wheel, and the names
// of the packages, promise that. A program that needs an interpreter needs the C library of one of them.
func runsOn(arch, program string) error {
	f, err := elf.Open(program)
	if err != nil {
		return fmt.Errorf("read the program %s: %w", program, err)
	}
	defer f.Close()
	if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]; f.Machine != want {
		return fmt.Errorf("%s is for %v, not for %s", program, f.Machine, arch)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is not static", program)
		}
	}
	return nil
}
