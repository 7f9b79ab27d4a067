package capture

import (
	"fmt"
)

// moment says which save of a layout is taken at once, as the table in docs/CHECKPOINTS.md has it.
type moment int

const (
	atOnce  moment = iota // each save
	second                // from the second save on
	nextOne               // each save when the next one begins
	never                 // saves are refused
)

// layouts are those of the table, and some that it refuses.
var layouts = []struct {
	name  string
	files int // of one save
	taken moment
	names []string // of --save-files
	save  func(s *script, in string)
}{
	{"torch.save in place", 1, second, nil, func(s *script, in string) { s.write(in + "model.pt") }},
	{"any format in place", 1, second, nil, func(s *script, in string) { s.write(in + "weights.raw") }},
	{"any format in place, named", 1, atOnce, []string{"weights.raw"},
		func(s *script, in string) { s.write(in + "weights.raw") }},
	{"two files, not named", 2, never, nil,
		func(s *script, in string) { s.write(in + "model.pt"); s.write(in + "optimizer.pt") }},
	{"two files in place", 2, atOnce, []string{"model.pt", "optimizer.pt"},
		func(s *script, in string) { s.write(in + "model.pt"); s.write(in + "optimizer.pt") }},
	{"two files of any format", 2, atOnce, []string{"model.raw", "optimizer.raw"},
		func(s *script, in string) {
			s.write(in + "model.raw")
			s.write(in + "optimizer.raw")
		}},
	{"rename", 1, second, nil, func(s *script, in string) {
		s.write(in + "model.raw.tmp")
		s.rename(in+"model.raw.tmp", in+"model.raw")
	}},
	{"two renames", 2, atOnce, []string{"model.raw", "optimizer.raw"}, func(s *script, in string) {
		for _, n := range []string{"model.raw", "optimizer.raw"} {
			s.write(in + n + ".tmp")
			s.rename(in+n+".tmp", in+n)
		}
	}},
	{"two renames at the end", 2, atOnce, []string{"model.raw", "optimizer.raw"},
		func(s *script, in string) {
			s.write(in + "model.raw.tmp")
			s.write(in + "optimizer.raw.tmp")
			s.rename(in+"model.raw.tmp", in+"model.raw")
			s.rename(in+"optimizer.raw.tmp", in+"optimizer.raw")
		}},
	{"a file a step", 1, second, nil,
		func(s *script, in string) { s.write(fmt.Sprintf("%smodel_step%d.pt", in, s.step)) }},
	{"two files a step", 2, atOnce, []string{"model_step*.raw", "optim_step*.raw"},
		func(s *script, in string) {
			s.write(fmt.Sprintf("%smodel_step%d.raw", in, s.step))
			s.write(fmt.Sprintf("%soptim_step%d.raw", in, s.step))
		}},
	{"a directory a step", 2, nextOne, nil, func(s *script, in string) {
		s.write(fmt.Sprintf("%sstep-%d/shard0.raw", in, s.step))
		s.write(fmt.Sprintf("%sstep-%d/shard1.raw", in, s.step))
	}},
	{"a directory a step, the oldest removed", 2, nextOne, nil, func(s *script, in string) {
		s.do(call{Op: "remove", Name: fmt.Sprintf("%sstep-%d/shard0.raw", in, s.step-2)})
		s.do(call{Op: "remove", Name: fmt.Sprintf("%sstep-%d/shard1.raw", in, s.step-2)})
		s.write(fmt.Sprintf("%sstep-%d/shard0.raw", in, s.step))
		s.write(fmt.Sprintf("%sstep-%d/shard1.raw", in, s.step))
	}},
	{"a directory a step, renamed", 2, atOnce, nil, func(s *script, in string) {
		s.write(in + "saving.tmp/model.raw")
		s.write(in + "saving.tmp/optimizer.raw")
		s.rename(in+"saving.tmp", fmt.Sprintf("%scheckpoint-%d", in, s.step))
	}},
	{"Hugging Face", 3, atOnce, nil, func(s *script, in string) {
		s.write(fmt.Sprintf("%scheckpoint-%d/model.raw", in, s.step))
		s.write(fmt.Sprintf("%scheckpoint-%d/rng_state_1.pth", in, s.step))
		s.write(fmt.Sprintf("%scheckpoint-%d/trainer_state.json", in, s.step))
	}},
	{"DCP", 2, atOnce, nil, func(s *script, in string) {
		s.write(fmt.Sprintf("%sstep%d/__0_0.distcp", in, s.step))
		s.write(fmt.Sprintf("%sstep%d/.metadata", in, s.step))
	}},
	{"Lightning", 1, atOnce, nil,
		func(s *script, in string) { s.write(fmt.Sprintf("%sepoch=0-step=%d.ckpt", in, s.step)) }},
	{"a mark in a directory", 2, atOnce, nil, func(s *script, in string) {
		s.write(in + "save/model.raw")
		s.write(in + "save/mark.tmp")
		s.rename(in+"save/mark.tmp", in+"save/.elastic-commit")
	}},
	{"a mark beside a file", 2, atOnce, nil, func(s *script, in string) {
		s.write(in + "model.raw")
		s.synced(in + "model.raw.elastic-commit")
	}},
	{"memory map", 1, second, nil, func(s *script, in string) { s.mapped(in + "weights.raw") }},
	{"two memory maps", 2, atOnce, []string{"weights.raw", "moments.raw"}, func(s *script, in string) {
		s.mapped(in + "weights.raw")
		s.mapped(in + "moments.raw")
	}},
	{"fsync and rename", 2, atOnce, []string{"model.raw", "optimizer.raw"}, func(s *script, in string) {
		s.synced(in + "model.raw")
		s.synced(in + "optimizer.raw")
	}},
	{"written over without truncation", 1, second, nil,
		func(s *script, in string) { s.writes(in+"weights.raw", "open") }},
	{"numbered parts", 3, atOnce, []string{"rank_0.raw", "rank_1.raw", "rank_2.raw"},
		func(s *script, in string) {
			for rank := range 3 {
				s.write(fmt.Sprintf("%srank_%d.raw", in, rank))
			}
		}},
	{"a number that says nothing", 1, never, nil,
		func(s *script, in string) { s.write(fmt.Sprintf("%sstate.%d.raw", in, s.step)) }},
	{"a number that is named", 1, atOnce, []string{"state.*.raw"},
		func(s *script, in string) { s.write(fmt.Sprintf("%sstate.%d.raw", in, s.step)) }},
	{"a file a step, the oldest removed", 2, atOnce, []string{"model_step*.pt", "optim_step*.pt"},
		func(s *script, in string) {
			s.write(fmt.Sprintf("%smodel_step%d.pt", in, s.step))
			s.write(fmt.Sprintf("%soptim_step%d.pt", in, s.step))
			s.do(call{Op: "remove", Name: fmt.Sprintf("%smodel_step%d.pt", in, s.step-2)})
			s.do(call{Op: "remove", Name: fmt.Sprintf("%soptim_step%d.pt", in, s.step-2)})
		}},
	{"Megatron", 3, atOnce, nil, func(s *script, in string) {
		s.write(fmt.Sprintf("iter_%07d/mp_rank_00/model.pt", s.step))
		s.write(fmt.Sprintf("iter_%07d/mp_rank_01/model.pt", s.step))
		s.tracker("latest_checkpointed_iteration.txt", fmt.Sprint(s.step))
	}},
	{"DeepSpeed", 3, atOnce, nil, func(s *script, in string) {
		s.write(fmt.Sprintf("global_step%d/mp_rank_00_model_states.pt", s.step))
		s.write(fmt.Sprintf("global_step%d/zero_pp_rank_0_mp_rank_00_optim_states.pt", s.step))
		s.write("zero_to_fp32.py")
		s.tracker("latest", fmt.Sprintf("global_step%d", s.step))
	}},
	{"three files in place", 3, atOnce, []string{"model.raw", "optimizer.raw", "scheduler.raw"},
		func(s *script, in string) {
			s.write(in + "model.raw")
			s.write(in + "optimizer.raw")
			s.write(in + "scheduler.raw")
		}},
	{"a configuration in each save", 2, atOnce, []string{"config.json", "model.raw"},
		func(s *script, in string) {
			s.write(in + staticFile)
			s.write(in + "model.raw")
		}},
	{"a configuration beside the file that is named", 1, atOnce, []string{"model.raw"},
		func(s *script, in string) {
			s.write(in + staticFile)
			s.write(in + "model.raw")
		}},
}

// tracker names the newest save, as its framework does.
func (s *script) tracker(name, text string) {
	s.do(call{Op: "create", Name: name})
	s.do(call{Op: "write", Name: name, Data: []byte(text)})
	s.do(call{Op: "close", Name: name})
}
