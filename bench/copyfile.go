package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// copyFile copies a file with cp, and syncs it.
func copyFile(from, to string) error {
	if out, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w: %s", err, out)
	}
	f, err := os.OpenFile(to, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
