package main

import (
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
