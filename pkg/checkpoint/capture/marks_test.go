package capture

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
)

// archive is a file as torch.save writes it.
func archive(t *testing.T, weights string) string {
	t.Helper()
	return string(checkpointtest.Zip(t, map[string]string{"w": weights}))
}

func TestFrameworks(t *testing.T) {
	t.Run("hugging face", func(t *testing.T) {
		b := newBench(t)
		b.write("checkpoint-500/checkpoint-is-incomplete.txt", "")
		b.write("checkpoint-500/model.safetensors", string(checkpointtest.Safetensors()))
		b.write("checkpoint-500/trainer_state.json", `{"global_step": 499}`)
		b.want(b.look(30*time.Second), "", "", 0)
		must(t, os.Remove(filepath.Join(b.dir, "checkpoint-500/checkpoint-is-incomplete.txt")))
		b.want(b.look(time.Second), "checkpoint-500/model.safetensors checkpoint-500/trainer_state.json",
			"checkpoint-500", 499)
	})
	t.Run("megatron", func(t *testing.T) {
		b := newBench(t)
		b.write("iter_0000100/mp_rank_00/model_optim_rng.pt", archive(t, "x"))
		b.want(b.look(5*time.Second), "", "", 0)
		b.write("latest_checkpointed_iteration.txt", "100")
		b.want(b.look(2*time.Second),
			"iter_0000100/mp_rank_00/model_optim_rng.pt latest_checkpointed_iteration.txt",
			"iter_0000100", 100)
	})
	t.Run("deepspeed", func(t *testing.T) {
		b := newBench(t)
		b.write("global_step7/mp_rank_00_model_states.pt", archive(t, "x"))
		b.want(b.look(5*time.Second), "", "", 0)
		b.write("latest", "global_step7")
		b.want(b.look(2*time.Second), "global_step7/mp_rank_00_model_states.pt latest", "global_step7", 7)
		// The next one has the same names, and the tracker still names the one before.
		b.write("global_step14/mp_rank_00_model_states.pt", archive(t, "y"))
		b.want(b.look(5*time.Second), "", "", 0)
		b.write("latest", "global_step14")
		b.want(b.look(2*time.Second), "global_step14/mp_rank_00_model_states.pt latest", "global_step14", 14)
		// Of two saves in a row one look finds the first one, and the tracker of the second.
		b.write("global_step21/mp_rank_00_model_states.pt", archive(t, "z"))
		b.write("latest", "global_step28")
		b.want(b.look(2*time.Second), "", "", 0)
		b.write("global_step28/mp_rank_00_model_states.pt", archive(t, "a"))
		b.write("latest", "global_step28")
		b.want(b.look(2*time.Second), "global_step28/mp_rank_00_model_states.pt latest", "global_step28", 28)
	})
	t.Run("dcp", func(t *testing.T) {
		b := newBench(t)
		b.write("step_3/__0_0.distcp", "shard")
		b.want(b.look(30*time.Second), "", "", 0)
		b.write("step_3/.metadata", "meta")
		b.want(b.look(time.Second), "step_3/.metadata step_3/__0_0.distcp", "step_3", 3)
	})
	t.Run("lightning", func(t *testing.T) {
		b := newBench(t)
		z := archive(t, "x")
		b.write("epoch=0-step=100.ckpt", z)
		b.want(b.look(time.Second), "epoch=0-step=100.ckpt", "epoch=0-step=100.ckpt", 100)
		b.write("epoch=1-step=200.ckpt", z)
		b.want(b.look(time.Second), "epoch=1-step=200.ckpt", "epoch=1-step=200.ckpt", 200)
	})
	t.Run("paddle", func(t *testing.T) {
		b := newBench(t)
		b.write("resnet.chkpt", string(checkpointtest.Pickle()))
		b.want(b.look(time.Second), "resnet.chkpt", "resnet.chkpt", unknown)
	})
}

func TestMarkOfASave(t *testing.T) {
	b := newBench(t)
	mark := func(name, text string) {
		b.write(".mark", text)
		must(t, os.Rename(filepath.Join(b.dir, ".mark"), filepath.Join(b.dir, name)))
	}
	b.write("save/model.raw", "x")
	b.write("save/deep/opt.raw", "y")
	mark("save/.elastic-commit",
		`{"step":120,"samples":30720,"epoch":2,"seed":7,"consumed":720,"dataset_size":15000}`)
	s := b.look(0)
	b.want(s, "save/.elastic-commit save/deep/opt.raw save/model.raw", "save", 120)
	if s.Save.Samples == nil || *s.Save.Samples != 30720 {
		t.Errorf("samples: %v", s.Save.Samples)
	}
	if c := s.Save.Cursor; c == nil || c.String() != "epoch 2, 720 of 15000 samples of it" || *c.Seed != 7 {
		t.Errorf("cursor: %v", c)
	}
	// From now on nothing counts without a mark.
	b.write("step-130/model.raw", "x")
	b.want(b.look(time.Minute), "", "", 0)
	mark("step-130/.elastic-commit", `{"samples":7}`)
	b.want(b.look(0),
		"save/.elastic-commit save/deep/opt.raw save/model.raw step-130/.elastic-commit step-130/model.raw",
		"step-130", 130)

	b = newBench(t)
	b.write("model.raw", "1")
	mark("model.raw.elastic-commit", `{"step":1}`)
	b.want(b.look(0), "model.raw model.raw.elastic-commit", "model.raw", 1)
	b.afterWrite(filepath.Join(b.dir, "model.raw.elastic-commit"))
	b.write("model.raw", "2, half of it")
	b.want(b.look(time.Minute), "", "", 0)
	mark("model.raw.elastic-commit", `junk`)
	b.want(b.look(0), "model.raw model.raw.elastic-commit", "model.raw", unknown)
	// The mark is of one save, and the next is being written.
	mark("model.raw.elastic-commit", `{"step":3}`)
	b.afterWrite(filepath.Join(b.dir, "model.raw.elastic-commit"))
	b.write("model.raw", "4, half of it")
	b.want(b.look(time.Minute), "", "", 0)
}

// A file without a mark is in the save of a mark that was written after it. A file that was written
// later may be of the next save.
func TestFileBesideOneWithAMark(t *testing.T) {
	b := newBench(t)
	save := func(text string) {
		b.write("optimizer.raw", text)
		b.write("model.raw", text)
		b.write(".mark", "{}")
		b.rename(".mark", "model.raw.elastic-commit")
		b.now = time.Now()
	}
	save("1")
	b.want(b.look(time.Second), "model.raw model.raw.elastic-commit optimizer.raw", "model.raw", unknown)
	save("2")
	b.afterWrite(filepath.Join(b.dir, "model.raw.elastic-commit"))
	b.write("optimizer.raw", "3")
	b.want(b.look(time.Second), "model.raw model.raw.elastic-commit", "model.raw", unknown)
	save("3")
	b.want(b.look(time.Second), "model.raw model.raw.elastic-commit optimizer.raw", "model.raw", unknown)
}
