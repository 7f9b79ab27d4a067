package saves

import (
	"strings"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// A trainer that counts steps is named where it goes on at another size. A save that says which samples were
// taken is that of an integration, which is right at each size.
func TestTrainersThatCountSteps(t *testing.T) {
	for _, c := range []struct {
		file   string
		size   int
		cursor *manifest.Cursor
		want   string
	}{
		{"checkpoint-500/trainer_state.json", 3, nil, "elastic.hf.attach"},
		{"checkpoint-500/trainer_state.json", 2, nil, ""},
		{"checkpoint-500/trainer_state.json", 3, &manifest.Cursor{}, ""},
		{"checkpoint_3/random_states_0.pkl", 3, nil, "elastic.accelerate.prepare"},
		{"checkpoint-500/rng_state_0.pth", 2, nil, "random numbers of 1 of 2 ranks"},
		{"checkpoint-500/rng_state_0.pth", 2, &manifest.Cursor{}, "--save-from=all"},
		{"epoch=1-step=40.ckpt", 3, nil, "elastic.lightning.fit"},
		{"a script's/last.ckpt", 3, nil, ""},
		{"step-5/state.pt", 3, nil, ""},
	} {
		m := &checkpoint.Manifest{WorldSize: 2, Cursor: c.cursor,
			Files: manifest.Files{{Path: "a/model.bin"}, {Path: c.file}}}
		got := counted(m, c.size, func(_ int, text string) bool {
			return text == "pytorch-lightning_version" && !strings.HasPrefix(c.file, "a script's")
		})
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s at size %d: %q", c.file, c.size, got)
		}
	}
}
