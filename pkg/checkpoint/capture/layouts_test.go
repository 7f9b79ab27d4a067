package capture

import (
	"fmt"
)

// numbered saves that follow each other at once look like the parts of one.
const numbered = "a number in the middle"

// lateFile is written by the save of lateStep and those after it.
const (
	lateFile  = "average.raw"
	lateFirst = "a file that comes late, first"
	lateStep  = 3
)

// Saves that open their files more than once.
const (
	headerLater         = "a body, then its header"
	filledLater         = "space that is filled later"
	bothTwice           = "two bodies, each with its header"
	bodiesFirst         = "two bodies, then their headers"
	headerOfAStep       = "a body, then its header, a file a step"
	headersInADirectory = "a body, then its header, a directory a step"
)

var reopened = map[string]bool{headerLater: true, filledLater: true, bothTwice: true, bodiesFirst: true,
	headerOfAStep: true, headersInADirectory: true}

// layouts are those of docs/CHECKPOINTS.md, and those that were once taken in part.
var layouts = []struct {
	name  string
	files int  // of one save
	late  bool // lateFile is one of them
	save  func(s *script, in string)
}{
	{"torch.save in place", 1, false, func(s *script, in string) { s.write(in + "model.pt") }},
	{"any format in place", 1, false, func(s *script, in string) { s.write(in + "weights.raw") }},
	{"two files in place", 2, false,
		func(s *script, in string) { s.write(in + "model.pt"); s.write(in + "optimizer.pt") }},
	{"two files of any format", 2, false, func(s *script, in string) {
		s.write(in + "model.raw")
		s.write(in + "optimizer.raw")
	}},
	{"rename", 1, false, func(s *script, in string) {
		s.write(in + "model.raw.tmp")
		s.rename(in+"model.raw.tmp", in+"model.raw")
	}},
	{"two renames", 2, false, func(s *script, in string) {
		for _, n := range []string{"model.raw", "optimizer.raw"} {
			s.write(in + n + ".tmp")
			s.rename(in+n+".tmp", in+n)
		}
	}},
	{"two renames at the end", 2, false, func(s *script, in string) {
		s.write(in + "model.raw.tmp")
		s.write(in + "optimizer.raw.tmp")
		s.rename(in+"model.raw.tmp", in+"model.raw")
		s.rename(in+"optimizer.raw.tmp", in+"optimizer.raw")
	}},
	{"a file a step", 1, false,
		func(s *script, in string) { s.write(fmt.Sprintf("%smodel_step%d.pt", in, s.step)) }},
	{"two files a step", 2, false, func(s *script, in string) {
		s.write(fmt.Sprintf("%smodel_step%d.raw", in, s.step))
		s.write(fmt.Sprintf("%soptim_step%d.raw", in, s.step))
	}},
	{"a directory a step", 2, false, func(s *script, in string) {
		s.write(fmt.Sprintf("%sstep-%d/shard0.raw", in, s.step))
		s.write(fmt.Sprintf("%sstep-%d/shard1.raw", in, s.step))
	}},
	{"a directory a step, renamed", 2, false, func(s *script, in string) {
		s.write(in + "saving.tmp/model.raw")
		s.write(in + "saving.tmp/optimizer.raw")
		s.rename(in+"saving.tmp", fmt.Sprintf("%scheckpoint-%d", in, s.step))
	}},
	{"Hugging Face", 2, false, func(s *script, in string) {
		s.write(fmt.Sprintf("%scheckpoint-%d/model.raw", in, s.step))
		s.write(fmt.Sprintf("%scheckpoint-%d/trainer_state.json", in, s.step))
	}},
	{"DCP", 2, false, func(s *script, in string) {
		s.write(fmt.Sprintf("%sstep%d/__0_0.distcp", in, s.step))
		s.write(fmt.Sprintf("%sstep%d/.metadata", in, s.step))
	}},
	{"a mark in a directory", 2, false, func(s *script, in string) {
		s.write(in + "save/model.raw")
		s.write(in + "save/mark.tmp")
		s.rename(in+"save/mark.tmp", in+"save/.elastic-commit")
	}},
	{"memory map", 1, false, func(s *script, in string) { s.mapped(in + "weights.raw") }},
	{"two memory maps", 2, false, func(s *script, in string) {
		s.mapped(in + "weights.raw")
		s.mapped(in + "moments.raw")
	}},
	{"fsync and rename", 2, false, func(s *script, in string) {
		s.synced(in + "model.raw")
		s.synced(in + "optimizer.raw")
	}},
	{"written over without truncation", 1, false,
		func(s *script, in string) { s.writes(in+"weights.raw", "open") }},
	{"numbered parts", 3, false, func(s *script, in string) {
		for rank := range 3 {
			s.write(fmt.Sprintf("%srank_%d.raw", in, rank))
		}
	}},
	{numbered, 1, false, func(s *script, in string) { s.write(fmt.Sprintf("%sstate.%d.raw", in, s.step)) }},
	{"a file a step, the oldest removed", 2, false, func(s *script, in string) {
		s.write(fmt.Sprintf("%smodel_step%d.pt", in, s.step))
		s.write(fmt.Sprintf("%soptim_step%d.pt", in, s.step))
		s.do(call{Op: "remove", Name: fmt.Sprintf("%smodel_step%d.pt", in, s.step-2)})
		s.do(call{Op: "remove", Name: fmt.Sprintf("%soptim_step%d.pt", in, s.step-2)})
	}},
	{"a mark beside a file", 2, false, func(s *script, in string) {
		s.write(in + "model.raw")
		s.synced(in + "model.raw.elastic-commit")
	}},
	{"Megatron", 3, false, func(s *script, in string) {
		s.write(fmt.Sprintf("iter_%07d/mp_rank_00/model.pt", s.step))
		s.write(fmt.Sprintf("iter_%07d/mp_rank_01/model.pt", s.step))
		s.tracker("latest_checkpointed_iteration.txt", fmt.Sprint(s.step))
	}},
	{"DeepSpeed", 3, false, func(s *script, in string) {
		s.write(fmt.Sprintf("global_step%d/mp_rank_00_model_states.pt", s.step))
		s.write(fmt.Sprintf("global_step%d/zero_pp_rank_0_mp_rank_00_optim_states.pt", s.step))
		s.tracker("latest", fmt.Sprintf("global_step%d", s.step))
	}},
	{"a file a step, and the newest under one name", 2, false, func(s *script, in string) {
		s.write(fmt.Sprintf("%smodel_step%d.raw", in, s.step))
		s.write(in + "latest.raw")
		s.do(call{Op: "remove", Name: fmt.Sprintf("%smodel_step%d.raw", in, s.step-1)})
	}},
	{"the newest under one name, and a file a step", 2, false, func(s *script, in string) {
		s.write(in + "latest.raw")
		s.write(fmt.Sprintf("%smodel_step%d.raw", in, s.step))
	}},
	{"three files in place", 3, false, func(s *script, in string) {
		s.write(in + "model.raw")
		s.write(in + "optimizer.raw")
		s.write(in + "scheduler.raw")
	}},
	{lateFirst, 2, true, func(s *script, in string) {
		if s.step >= lateStep {
			s.write(in + lateFile)
		}
		s.write(in + "model.raw")
	}},
	{"a file that comes late, last", 2, true, func(s *script, in string) {
		s.write(in + "model.raw")
		if s.step >= lateStep {
			s.write(in + lateFile)
		}
	}},
	{headerLater, 1, false, func(s *script, in string) {
		s.body(in + "weights.raw")
		s.header(in + "weights.raw")
	}},
	{filledLater, 1, false, func(s *script, in string) { s.filled(in + "weights.raw") }},
	{bothTwice, 2, false, func(s *script, in string) {
		for _, n := range []string{"model.raw", "optimizer.raw"} {
			s.body(in + n)
			s.header(in + n)
		}
	}},
	{bodiesFirst, 2, false, func(s *script, in string) {
		s.body(in + "model.raw")
		s.body(in + "optimizer.raw")
		s.header(in + "model.raw")
		s.header(in + "optimizer.raw")
	}},
	{headerOfAStep, 1, false, func(s *script, in string) {
		s.body(fmt.Sprintf("%smodel_step%d.raw", in, s.step))
		s.header(fmt.Sprintf("%smodel_step%d.raw", in, s.step))
	}},
	{headersInADirectory, 2, false, func(s *script, in string) {
		for _, n := range []string{"model.raw", "optimizer.raw"} {
			s.body(fmt.Sprintf("%sstep-%d/%s", in, s.step, n))
			s.header(fmt.Sprintf("%sstep-%d/%s", in, s.step, n))
		}
	}},
	{"a configuration in each save", 2, false, func(s *script, in string) {
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
