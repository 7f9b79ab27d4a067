// Package ckpt is the commands elastic ckpt: list, show, verify, get and restore checkpoints.
package ckpt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/overview"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

func Command() command.Command {
	return command.Command{Name: "ckpt", Args: "ls | show [N] | verify [N] | get [N] DIR | rm N | restore N",
		Most:  4,
		Usage: "the checkpoints of a job: list, check, fetch, go back", Action: ckptAction,
		Flags: []command.Flag{
			command.JobFlag(),
			{Name: "number", Arg: "N", Usage: "the checkpoint (the newest)"},
		}}
}

// saves is one run of `elastic ckpt`.
type saves struct {
	*command.Call
	s      *target.Server
	snap   rendezvous.Snapshot
	number checkpoint.Number // 0: no number was given
	dir    string            // the directory for get
	lone   bool              // it is the only word, and may have been meant as the job
}

// verb is one subcommand of elastic ckpt.
type verb struct {
	name   string
	number bool // the checkpoint must be named
	action func(*saves, context.Context) error
}

func verbs() []verb {
	return []verb{{"ls", false, (*saves).list}, {"show", false, (*saves).show},
		{"verify", false, (*saves).verify},
		{"get", false, (*saves).get}, {"rm", true, (*saves).remove}, {"restore", true, (*saves).restore}}
}

func ckptAction(ctx context.Context, c *command.Call) error {
	k := &saves{Call: c}
	v, err := k.words()
	if err != nil {
		return err
	}
	s, name, err := target.JobServer(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	k.s = s
	if k.lone {
		if err := k.notJob(ctx); err != nil {
			return err
		}
	}
	read := target.JobOrNewest
	if v.number {
		read = target.LivingJob
	}
	k.snap, err = read(ctx, c, s, name)
	if err != nil {
		return err
	}
	return v.action(k, ctx)
}

// words parses VERB [JOB] [N] [DIR]. A lone number is a checkpoint, and not a job.
func (k *saves) words() (verb, error) {
	v, err := takeVerb(k.Args)
	if err != nil {
		return v, err
	}
	k.Command.Name = "ckpt " + v.name // for messages
	words, number := k.Args[1:], k.Setting("number")
	if v.name == "get" {
		if len(words) == 0 || len(words) == 1 && command.Digits(words[0]) && !number.Given {
			return v, problem.New(problem.Usage, "no directory is given").Cure("elastic ckpt get N DIR")
		}
		k.lone = len(words) == 1 && !k.Setting("job-id").Given && schema.ValidName(words[0])
		k.dir, words = words[len(words)-1], words[:len(words)-1]
	}
	if n := len(words); n > 0 && command.Digits(words[n-1]) {
		if number.Given {
			return v, problem.New(problem.Usage, "the checkpoint is given twice: %s and %s", number, words[n-1])
		}
		number = command.Setting{Name: "number", Text: words[n-1], Origin: "--number", Given: true}
		words = words[:n-1]
	}
	switch {
	case len(words) > 1:
		return v, problem.New(problem.Usage, "elastic %s does not take %q", k.Command.Name, words[1]).
			Cure("elastic ckpt %s", k.Command.Args)
	case v.name == "ls" && number.Given:
		return v, problem.New(problem.Usage, "%s: ls lists all", number).
			Cure("elastic ckpt show %s", number.Text)
	case v.number && !number.Given:
		return v, problem.New(problem.Usage, "which checkpoint?").
			Cure("elastic %s N; elastic ckpt ls has the numbers", k.Command.Name)
	}
	k.Args = words
	n, err := number.Number(0, 1)
	k.number = checkpoint.Number(n)
	return v, err
}

// notJob fails if the directory for get is the name of a job.
func (k *saves) notJob(ctx context.Context) error {
	snap, err := rendezvous.Read(ctx, k.s, schema.Job(k.dir))
	if store.Refused(err) || err == nil && snap.Job == nil {
		return nil
	}
	if err != nil {
		return err
	}
	return problem.New(problem.Usage, "no directory is given").
		Because("%s is a job", k.dir).Cure("elastic ckpt get %s DIR; for a directory of that name ./%[1]s", k.dir)
}

func takeVerb(words []string) (verb, error) {
	usage := problem.New(problem.Usage, "no subcommand is given").
		Because("elastic ckpt needs a subcommand").Cure("elastic ckpt %s", Command().Args)
	if len(words) == 0 {
		return verb{}, usage
	}
	var names []string
	for _, v := range verbs() {
		if v.name == words[0] {
			return v, nil
		}
		names = append(names, v.name)
	}
	usage.Message = fmt.Sprintf("elastic ckpt does not know %q", words[0])
	if near := phrase.Nearest(words[0], names); near != "" {
		usage.Cure("did you mean elastic ckpt %s?", near)
	}
	return verb{}, usage
}

// wanted returns the record of the named checkpoint, else of the newest one.
func (k *saves) wanted() (checkpoint.Head, error) {
	n, job := k.number, k.snap.Job.Name
	if n == 0 {
		n = k.snap.Head.Number
	}
	all := []checkpoint.Number{}
	var shown []string
	for _, h := range k.snap.History {
		if h.Number == n {
			return h, nil
		}
		all, shown = append(all, h.Number), append(shown, fmt.Sprint(h.Number))
	}
	if len(all) == 0 {
		return checkpoint.Head{}, problem.New(problem.CkptNone, "job %s has no checkpoint", job).
			Detail("numbers", all)
	}
	return checkpoint.Head{}, problem.New(problem.CkptNone, "job %s has no checkpoint %d", job, n).
		Because("there are %s", phrase.List(shown)).
		Detail("numbers", all)
}

// holdersOf returns the nodes that have a checkpoint: those that are registered, and the others.
func (k *saves) holdersOf(h checkpoint.Head) (here []membership.Ref, away []string) {
	return overview.HoldersOf(&k.snap, h)
}

// localStore has the checkpoints of one node of this machine.
type localStore struct {
	node string
	*readonly.Store
}

// here opens the checkpoints that nodes of this machine keep of the job.
func (k *saves) here() (all []localStore, done func(), err error) {
	done = func() {
		for _, s := range all {
			s.Close()
		}
	}
	kept, err := target.Kept(k.Call, k.snap.Job.Name, k.snap.Job.UID)
	for _, n := range kept {
		s, bad := n.OpenStore()
		if errors.Is(bad, fs.ErrNotExist) {
			continue // the node never had checkpoints, or they are being removed
		}
		if bad != nil {
			return all, done, bad
		}
		all = append(all, localStore{n.Node, s})
	}
	return all, done, err
}

// sources returns the places from which a checkpoint can be read: this machine, then the registered
// holders.
func (k *saves) sources(
	ctx context.Context, h checkpoint.Head,
) (from []transfer.Source, done func(), err error) {
	stores, closeAll, err := k.here()
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	for _, s := range stores {
		from = append(from, s)
	}
	secret, err := rendezvous.ReadSecret(ctx, k.s, k.snap.Job.Name, k.snap.Job.UID)
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	peers, hangUp, err := node.Reach(secret, k.snap.Job.Name, k.snap.Job.Identity())
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	there, _ := k.holdersOf(h)
	for _, r := range there {
		from = append(from, &transfer.RemoteSource{Peers: peers, Node: r})
	}
	return from, func() { hangUp(); closeAll() }, nil
}

// unreadable returns the error for a checkpoint that no source can provide.
func (k *saves) unreadable(h checkpoint.Head, err error) *problem.Error {
	here, away := k.holdersOf(h)
	e := problem.New(problem.CkptLost, "checkpoint %d of job %s cannot be read", h.Number, k.snap.Job.Name).
		Of(err).Because("%s", oneLine(err))
	switch {
	case errors.Is(err, fs.ErrPermission): // the files are on this machine
		e.Cure("as the user of the agent; or make the state directory readable for this one")
	case len(here) == 0 && len(away) > 0:
		e.Because("nothing of it is on this machine, and the nodes that have it are not registered: %s",
			phrase.List(away)).
			Cure("on a machine that has it: elastic %s; or start a node there", k.Command.Name)
	case len(here) == 0:
		e.Cure("bring back the --state-dir of a node that had it (%s), and start the node",
			phrase.List(refNames(h.Holders)))
	case errors.Is(err, transfer.ErrNoAnswer):
		e.Because("nothing of it is on this machine, and it gets no answer from the nodes that have it: %s (%s)",
			phrase.List(refNames(here)), oneLine(err)).
			Cure("on a machine that reaches one of them, or on that node itself: elastic %s", k.Command.Name)
	}
	return e.Detail("holders", refNames(here)).Detail("away", append([]string{}, away...))
}

// oneLine returns the text of an error, of several errors too, on one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

func refNames(refs []membership.Ref) []string {
	names := []string{}
	for _, r := range refs {
		names = append(names, r.Node)
	}
	return names
}
