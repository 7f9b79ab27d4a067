package cli

import "context"

// kind says how a flag takes its value.
type kind int

const (
	value   kind = iota // the last one counts
	list                // every one counts, each may be a comma list
	boolean             // none is needed
)

// flag is one flag, in our own spelling. The spellings of other launchers are
// mapped to it before anything is parsed.
type flag struct {
	name   string
	kind   kind
	arg    string // how help calls its value
	usage  string
	short  string
	same   []string // other spellings
	env    []string // read, in this order, when it is not given
	hidden bool
}

// command is one row of the table of commands.
type command struct {
	name   string
	args   string // how help calls its positionals
	most   int    // positionals; -1: a program with its own arguments
	usage  string
	flags  []flag
	action func(context.Context, *call) error
}

// everywhere are the flags of all commands.
func everywhere() []flag {
	return []flag{
		{name: "server", kind: list, arg: "HOST:PORT", usage: "the etcd or elasticd to use; repeatable, or a comma list",
			same: []string{"elastic-server"}, env: []string{"ELASTIC_SERVER", "PADDLE_ELASTIC_SERVER"}},
		{name: "rdzv-endpoint", arg: "HOST:PORT", usage: "the same; run starts one there if HOST is this machine and nothing listens",
			same: []string{"master"}, env: []string{"PET_RDZV_ENDPOINT"}},
		{name: "cacert", arg: "FILE", usage: "certificate authority of the server", env: []string{"ELASTIC_CACERT"}},
		{name: "cert", arg: "FILE", usage: "our certificate", env: []string{"ELASTIC_CERT"}},
		{name: "key", arg: "FILE", usage: "its key", env: []string{"ELASTIC_KEY"}},
		{name: "user", arg: "NAME", usage: "user of etcd; the password is ELASTIC_PASSWORD", env: []string{"ELASTIC_USER"}},
		{name: "output", short: "o", arg: "json", usage: "for scripts"},
		{name: "quiet", short: "q", kind: boolean, usage: "no words; names only"},
		{name: "no-color", kind: boolean, usage: "no colours (also NO_COLOR)"},
		{name: "help", short: "h", kind: boolean, usage: "say this"},
		{name: "state-dir", arg: "DIR", usage: "what this machine keeps", env: []string{"ELASTIC_STATE_DIR", "PADDLE_ELASTIC_STATE_DIR"}, hidden: true},
	}
}

// jobFlag names the job, where a positional does not.
func jobFlag() flag {
	return flag{name: "job-id", arg: "JOB", usage: "the job", same: []string{"rdzv-id"},
		env: []string{"ELASTIC_JOB_ID", "PADDLE_ELASTIC_JOB_ID", "PET_RDZV_ID"}}
}

// commands is the whole table.
func commands() []command {
	all := []command{
		runCommand(), scaleCommand(), statusCommand(), eventsCommand(), logsCommand(), explainCommand(), jobsCommand(), nodesCommand(),
		stopCommand(), admitCommand(), rmCommand(), ckptCommand(), planCommand(), goodputCommand(), installCommand(), kubeCommand(), readyCommand(), certsCommand(), versionCommand(),
	}
	for i := range all {
		own := map[string]bool{}
		for _, f := range all[i].flags {
			own[f.name] = true
		}
		for _, f := range everywhere() {
			if !own[f.name] {
				all[i].flags = append(all[i].flags, f)
			}
		}
	}
	return all
}
