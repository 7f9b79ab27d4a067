//go:build frameworks

package integration

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"
)

// The examples, through the story, from the wheel: no Go, no repository. TestFrameworksServers has wide_and_deep.
func TestIntegrations(t *testing.T) {
	stripes := []string{"--float64", "--samples=500", "--epochs=6"}
	sharded := []string{"--save-from=all"}
	for _, s := range append(ofTheTrainingFunction(),
		story{example: "torch/train.py", flags: fixedBatch(), args: stripes, tolerance: 1e-9},
		story{example: "paddle/train.py", flags: fixedBatch(), args: stripes, tolerance: 1e-9, python: "paddle"},
		story{example: "accelerate/train.py", flags: fixedBatch(), tolerance: 1e-9},
		story{example: "transformers/train.py", flags: fixedBatch(), tolerance: 1e-6}, // its loss is in float32
		story{example: "lightning/train.py", flags: fixedBatch(), tolerance: 1e-9},
		story{example: "dcp/train.py", flags: sharded, tolerance: 1e-9},
		story{example: "fsdp/train.py", flags: sharded, tolerance: 1e-9,
			args: []string{"--float64", "--steps=120", "--save-every=5", "--lr=0.001"}},
		story{example: "jax/train.py", tolerance: 1e-9},
	) {
		t.Run(filepath.Dir(s.example), func(t *testing.T) {
			s.python = framework(cmp.Or(s.python, "torch"))
			s.wheel = true
			s.play(t)
		})
	}
}

// framework returns the interpreter of an environment of integration/frameworks.sh.
func framework(venv string) string {
	return filepath.Join(os.Getenv("FRAMEWORKS"), venv, "bin", "python")
}
