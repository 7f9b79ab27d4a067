package options

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// names sets the names of the job and of this node.
func names(c *command.Call, o *node.Options) error {
	if len(c.Args) == 0 {
		return problem.New(problem.Usage, "no program to run").Cure("elastic run [flags] PROGRAM [ARGS…]")
	}
	o.Again, o.Resume, o.OtherProgram = c.Truth("again"), c.Truth("resume"), c.Truth("other-program")
	if o.Again && o.Resume {
		return problem.New(problem.Usage, "--again and --resume are both given").
			Because("one begins anew, the other goes on from what is there").Cure("one of them")
	}
	o.DoneOK = c.Truth("done-ok")
	o.Job.Origin = rendezvous.NewOrigin(c.UserName(), hostName(), c.Args)
	if err := jobName(c, o); err != nil {
		return err
	}
	if o.NodeGiven { // byAddress has set the name
		return nil
	}
	if n := c.Setting("node"); n.Given {
		o.Node, o.NodeGiven = n.Text, true
		return command.ValidName("node", n.Text)
	}
	o.Node = toName(cmp.Or(c.Getenv("POD_NAME"), hostName()), "node")
	return nil
}

// jobName sets the name of the job. A job of --standalone is always one of its own.
func jobName(c *command.Call, o *node.Options) error {
	id := c.Setting("job-id")
	switch {
	case c.Truth("standalone") && o.Job.Limits.Min > 1:
		return problem.New(problem.Usage, "--standalone and %s", c.Setting("np")).
			Because("--standalone is a job of its own, which no other node can join").
			Cure("leave --standalone out, and give the nodes one --job-id")
	case c.Truth("standalone"):
		o.Job.Name, o.Job.Made = schema.Job(madeUp(c.Args)), true
	case id.Given:
		if err := command.ValidName("job", id.Text); err != nil {
			return err
		}
		o.Job.Name, o.Borrowed = schema.Job(id.Text), borrowed(id)
	case setDefaultName(c, o):
	case o.Job.Limits.Max > 1:
		return problem.New(problem.JobID, "no job id").Because("with %s other nodes have to find the job",
			c.Setting("np")).Cure("--job-id=NAME, the same on every node")
	default:
		o.Job.Name, o.Job.Made = schema.Job(madeUp(c.Args)), true
	}
	return nil
}

// borrowed reports whether a job id was given to torchrun, to Paddle's launcher or by Slurm. There
// each run is one of its own, whatever ran under that id before.
func borrowed(id command.Setting) bool {
	switch id.From {
	case command.FromFlag:
		return id.Typed != "--job-id"
	case command.FromEnvironment:
		return id.Origin != "ELASTIC_JOB_ID"
	}
	return false
}

// Alone reports whether no other node can join the job of this one, although it was given a name:
// the job has one node, and the server of this user.
func Alone(c *command.Call, o *node.Options) bool {
	return o.Borrowed && o.Job.Limits.Max == 1 && !target.Remote(c)
}

// Rename gives the job a name of its own that begins with the one that it has.
func Rename(o *node.Options) {
	o.Job.Name, o.Job.Made = schema.Job(unique(string(o.Job.Name))), true
}

// setDefaultName sets the name of a job without one if its nodes start their server themselves, because it
// is the only job on that server. As with torchrun and Paddle's launcher, a new run starts the job
// again if it is done.
func setDefaultName(c *command.Call, o *node.Options) bool {
	if len(o.Job.Hosts) == 0 && (o.Job.Limits.Max == 1 || !target.OwnServer(c)) {
		return false
	}
	o.Job.Name, o.Borrowed = schema.Job(defaultJob), true
	return true
}

// hostName returns the name of this machine without its domain.
func hostName() string {
	host, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	host, _, _ = strings.Cut(host, ".")
	return host
}

// madeUp returns a name for a job without one, made from its program: train-7f3a.
func madeUp(argv []string) string {
	name := filepath.Base(argv[0])
	if strings.HasPrefix(name, "python") {
		for _, a := range argv[1:] {
			if strings.HasSuffix(a, ".py") {
				name = filepath.Base(a)
				break
			}
		}
	}
	return unique(toName(strings.TrimSuffix(name, filepath.Ext(name)), "job"))
}

// unique returns a name that begins with name.
func unique(name string) string {
	var b [2]byte
	rand.Read(b[:])
	return name[:min(len(name), 56)] + "-" + hex.EncodeToString(b[:])
}

// toName returns s as a valid name: it replaces other characters, and returns otherwise if none is
// left.
func toName(s, otherwise string) string {
	s = strings.Map(func(r rune) rune {
		if schema.ValidName("x" + string(r)) {
			return r
		}
		return '-'
	}, s)
	s = strings.TrimLeft(s[:min(len(s), 56)], "-._")
	if !schema.ValidName(s) {
		return otherwise
	}
	return s
}
