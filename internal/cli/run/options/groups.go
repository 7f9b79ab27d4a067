package options

import (
	"slices"

	"github.com/elasticd/elastic/internal/cli/command"
)

// groups has the flags of elastic run by what they are about, in the order of help. Flags of no group
// here are those of every command.
var groups = []struct {
	name  string
	flags []string
}{
	{"job", []string{"np", "nproc-per-node", "job-id", "again", "resume", "done-ok", "last-call",
		"grace", "other-program", "dry-run"}},
	{"this node", []string{"node", "host", "port", "worker-ports", "gpus", "module", "warm", "pre-hook",
		"pre-hook-timeout", "wait-timeout", "state-dir", "tty"}},
	{"batch", []string{"batch-size", "lr", "base-np", "scaling", "warmup-samples"}},
	{"checkpoints", []string{"checkpoint-dir", "save-files", "save-from", "load", "replicas", "keep",
		"verify-every"}},
	{"failures", []string{"max-restarts", "on-nan", "hang-look", "hang-timeout"}},
	{"logs", []string{"log-dir", "log-keep", "split-logs", "console", "progress-regex"}},
	{"server", []string{"lease-ttl", "connect-timeout"}},
	{"torchrun", []string{"standalone", "node-rank", "master-addr", "master-port", "role", "tee", "redirects",
		"no-python", "run-path", "device-binding", "numa-binding", "virtual-local-rank",
		"log-line-prefix-template", "duplicate-stdout-filters", "duplicate-stderr-filters",
		"signals-to-handle", "shutdown-timeout"}},
	{"paddle", []string{"ips", "rank", "run-mode", "server-num", "worker-num", "servers", "workers",
		"heter-worker-num", "heter-workers", "heter-devices", "http-port", "verbose"}},
}

// apart are the groups for users of other launchers, which help shows by --help=NAME alone.
var apart = []string{"torchrun", "paddle"}

// grouped returns the flags in the order of groups.
func grouped(flags []command.Flag) (all []command.Flag) {
	for _, g := range groups {
		for _, name := range g.flags {
			i := slices.IndexFunc(flags, func(f command.Flag) bool { return f.Name == name })
			if i < 0 {
				continue
			}
			f := flags[i]
			f.Group, f.Apart = g.name, slices.Contains(apart, g.name)
			all = append(all, f)
		}
	}
	for _, f := range flags {
		if !slices.ContainsFunc(all, func(x command.Flag) bool { return x.Name == f.Name }) {
			all = append(all, f)
		}
	}
	return all
}
