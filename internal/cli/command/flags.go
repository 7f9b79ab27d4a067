package command

import (
	"context"
	"slices"
)

// kind says how a flag takes its value.
type kind int

const (
	value   kind = iota // the last value counts
	list                // all values count; each may be a comma list
	Boolean             // no value is needed
)

// Flag is one flag, in our own spelling. The spellings of other launchers are mapped to it before
// the line is parsed.
type Flag struct {
	Name   string
	Kind   kind
	Arg    string // name of the value in help
	Usage  string
	Short  string
	Same   []string // other spellings
	Env    []string // variables that are read, in this order, if the flag is not given
	Values []string // the possible values; nil: any
	Once   bool     // for one invocation only: elastic.yaml cannot set it
	Group  string   // what it is about, in help; "": nothing in particular
	Apart  bool     // help shows its group by --help=GROUP alone: it is for users of another launcher
	hidden bool
}

// Command is one row of the table of commands.
type Command struct {
	Name   string
	Args   string // name of the positionals in help
	Most   int    // largest number of positionals; -1: a program with its own arguments
	Usage  string
	Flags  []Flag
	File   FileUse
	Action func(context.Context, *Call) error
}

// All returns the flags of the command: its own, and those of every command that it does not have itself.
func (c *Command) All() []Flag {
	all := slices.Clone(c.Flags)
	for _, f := range Everywhere() {
		if !slices.ContainsFunc(c.Flags, func(own Flag) bool { return own.Name == f.Name }) {
			all = append(all, f)
		}
	}
	return all
}

// hasTopic reports whether help of the command shows a group of flags apart.
func (c *Command) hasTopic(name string) bool {
	return c != nil && slices.ContainsFunc(c.Flags, func(f Flag) bool { return f.Apart && f.Group == name })
}

// Everywhere returns the flags of all commands.
func Everywhere() []Flag {
	return []Flag{
		{Name: "server", Kind: list, Arg: "HOST:PORT",
			Usage: "the etcd or elasticd to use; repeatable, or a comma list",
			Same:  []string{"elastic-server"}, Env: []string{"ELASTIC_SERVER", "PADDLE_ELASTIC_SERVER"}},
		{Name: "rdzv-endpoint", Arg: "HOST:PORT",
			Usage: "the same; run starts one there if HOST is this machine and nothing listens",
			Same:  []string{"master"}, Env: []string{"PET_RDZV_ENDPOINT"}},
		{Name: "token-file", Arg: "FILE",
			Usage: "secret of a server that run started on another machine; or ELASTIC_TOKEN",
			Env:   []string{"ELASTIC_TOKEN_FILE"}},
		{Name: "insecure", Kind: Boolean, Usage: "such a server serves whoever reaches its address",
			Env: []string{"ELASTIC_INSECURE"}},
		{Name: "cacert", Arg: "FILE", Usage: "certificate authority of the server",
			Env: []string{"ELASTIC_CACERT"}},
		{Name: "cert", Arg: "FILE", Usage: "our certificate", Env: []string{"ELASTIC_CERT"}},
		{Name: "key", Arg: "FILE", Usage: "its key", Env: []string{"ELASTIC_KEY"}},
		{Name: "user", Arg: "NAME", Usage: "user of etcd; the password is ELASTIC_PASSWORD",
			Env: []string{"ELASTIC_USER"}},
		{Name: "output", Short: "o", Arg: "json", Usage: "for scripts", Values: []string{"json"}, Once: true},
		{Name: "quiet", Short: "q", Kind: Boolean, Usage: "no messages; tables have one column", Once: true},
		{Name: "no-color", Kind: Boolean, Usage: "no colours (also NO_COLOR)", Once: true},
		{Name: "help", Short: "h", Kind: Boolean, Usage: "show this help", Once: true},
		{Name: "state-dir", Arg: "DIR", Usage: "what this machine keeps",
			Env: []string{"ELASTIC_STATE_DIR", "PADDLE_ELASTIC_STATE_DIR"}, hidden: true},
	}
}

// JobFlag names the job, if no positional does.
func JobFlag() Flag {
	return Flag{Name: "job-id", Arg: "JOB", Usage: "the job", Same: []string{"rdzv-id"},
		Env: []string{"ELASTIC_JOB_ID", "PADDLE_ELASTIC_JOB_ID", "PET_RDZV_ID"}}
}
