package copies

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Plain copies a file with cp, and syncs it.
func Plain(from, to string) error {
	if out, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w: %s", err, out)
	}
	f, err := os.OpenFile(to, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
