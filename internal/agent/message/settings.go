package message

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// ErrLocked: another agent of this host has the node's name.
var ErrLocked = errors.New("held by another agent of this host")

// DiffersError: given settings are not those of the job.
type DiffersError struct{ Settings []Setting }

// Setting is a setting that differs.
type Setting struct{ Flag, Job, Yours string }

func (e *DiffersError) Error() string {
	var s []string
	for _, d := range e.Settings {
		s = append(s, fmt.Sprintf("--%s=%s: the job has %s", d.Flag, d.Yours, d.Job))
	}
	return strings.Join(s, "; ")
}

// Settings returns the given settings that differ from those of job j.
func Settings(j, mine *rendezvous.Job, given map[string]bool) []Setting {
	var out []Setting
	add := func(flag string, job, yours any) {
		if given[flag] && job != yours {
			out = append(out, Setting{flag, fmt.Sprint(job), fmt.Sprint(yours)})
		}
	}
	add("ips", strings.Join(j.Hosts, ","), strings.Join(mine.Hosts, ","))
	add("run-mode", j.Roles.String(), mine.Roles.String())
	add("nproc-per-node", j.Slots, mine.Slots)
	add("batch-size", j.Base.Batch, mine.Base.Batch)
	add("lr", j.Base.LR, mine.Base.LR)
	add("base-np", j.Base.Nodes, mine.Base.Nodes)
	add("scaling", string(j.Base.Policy), string(mine.Base.Policy))
	add("warmup-samples", j.Base.WarmupSamples, mine.Base.WarmupSamples)
	add("replicas", j.Rules.Replicas, mine.Rules.Replicas)
	add("keep", j.Rules.Keep, mine.Rules.Keep)
	add("on-nan", j.Rules.NaNRule(), mine.Rules.NaNRule())
	add("load", j.Rules.Load, mine.Rules.Load)
	add("save-from", j.Rules.SaveFrom, mine.Rules.SaveFrom)
	add("save-files", j.Rules.SaveFiles, mine.Rules.SaveFiles)
	add("max-restarts", j.Rules.MaxRestarts, mine.Rules.MaxRestarts)
	add("last-call", time.Duration(j.Rules.LastCall), time.Duration(mine.Rules.LastCall))
	add("grace", time.Duration(j.Rules.Grace), time.Duration(mine.Rules.Grace))
	return out
}
