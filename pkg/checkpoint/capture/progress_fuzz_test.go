package capture

import (
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
)

// FuzzProgress puts any bytes into the files with which workers and frameworks say that a save is
// complete, and how far training was: they name no entry that is none.
func FuzzProgress(f *testing.F) {
	f.Add(uint8(0), []byte(`{"step":3,"samples":7,"cursor":{"a":1}}`))
	f.Add(uint8(1), []byte(`{"global_step":9223372036854775808}`))
	f.Add(uint8(2), []byte("-3"))
	f.Add(uint8(3), []byte("../step-1"))
	names := []string{"step-1/" + markFile, "step-1/trainer_state.json",
		"latest_checkpointed_iteration.txt", "latest"}
	f.Fuzz(func(t *testing.T, which uint8, bytes []byte) {
		tree := memfs.New()
		memfs.WriteFile(t, tree, "step-1/model.pt", []byte("weights"), 0o600)
		memfs.WriteFile(t, tree, names[int(which)%len(names)], bytes, 0o600)
		l, err := look(tree, nil, nil)
		must(t, err)
		for name, e := range l.entries {
			if e.name != name || len(e.files) == 0 {
				t.Errorf("%q: %+v", name, e)
			}
			reported, err := progressOf(tree, e)
			must(t, err)
			reported.cursor()
		}
	})
}
