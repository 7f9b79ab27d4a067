//go:build frameworks

package integration

import (
	"os"
	"path/filepath"
	"testing"
)

// The examples of the helper's files for frameworks, through the same story.
func TestIntegrations(t *testing.T) {
	python := filepath.Join(os.Getenv("FRAMEWORKS"), "torch", "bin", "python")
	for name, flags := range map[string][]string{
		"transformers": fixedBatch(), "lightning": fixedBatch(), "accelerate": fixedBatch(),
		"dcp": {"--save-from=all"}, "jax": nil,
	} {
		t.Run(name, func(t *testing.T) {
			story{script: name + "/train.py", python: python, flags: flags, tolerance: 1e-9}.play(t)
		})
	}
}
