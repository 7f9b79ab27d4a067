// Package target finds the server and the job of a command, and follows the job.
package target

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/local"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store/etcd"
)

// Server is the connection of a command to its etcd, which has answered.
type Server struct {
	*etcd.Store
	At    status.Server
	Local *local.Runtime // nil: a server was given

	Started local.Started  // the server that this command started, if any
	Shared  *local.Runtime // a server for all nodes on this machine; nil: it is elsewhere
}

// Explain returns the status of a job on this server, with the reason.
func (s *Server) Explain(snap *rendezvous.Snapshot, now time.Time) status.Status {
	st := status.Explain(snap, now)
	st.Server = &s.At
	return st
}

// Towards returns the address of the interface at which nodes elsewhere reach this one, "" if there
// is none.
func (s *Server) Towards() string {
	if s.Shared != nil && s.Shared.Listen != "" {
		return towards([]string{s.Shared.Listen}) // as they reach the server
	}
	return towards(s.At.Endpoints)
}

// purpose says why a command needs the server.
type purpose int

const (
	Ask  purpose = iota // start the local server only if it has data of earlier jobs
	Join                // start the local server
)

// Open connects to the server, and waits for its first answer. It tries again for limit if the
// server does not answer; 0: it tries once.
func Open(ctx context.Context, c *command.Call, p purpose, limit time.Duration) (*Server, error) {
	if user := c.Setting("user"); strings.Contains(user.Text, ":") {
		return nil, problem.New(problem.Usage, "--user is a name without its password").
			Because("other users can see command lines in the process list").Cure("--user=NAME with ELASTIC_PASSWORD")
	}
	s := &Server{}
	conf, err := s.find(ctx, c, p)
	if err != nil {
		return nil, err
	}
	s.At.Endpoints = conf.Endpoints
	if s.Store, err = etcd.Open(ctx, conf); errors.Is(err, etcd.ErrPlain) ||
		errors.Is(err, etcd.ErrTLSFiles) {
		return nil, err
	} else if err != nil {
		return nil, problem.New(problem.Usage, "%v", err).Of(err).Cure("--server=HOST:2379")
	}
	err = answer(ctx, c, s.Store, limit)
	if err == nil && p == Join && len(conf.Endpoints) > 1 {
		err = s.Store.OneCluster(ctx)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	s.At.Reachable = true
	return s, nil
}

// find says how to reach the server, and starts it if the command may.
func (s *Server) find(ctx context.Context, c *command.Call, p purpose) (etcd.Config, error) {
	at, _, err := shared(c)
	if err != nil {
		return etcd.Config{}, err
	}
	if at != "" {
		s.At.Kind = "elasticd"
		return s.meet(ctx, c, meeting{at: at, purpose: p})
	}
	if given := given(c); given.Given && !c.Truth("standalone") {
		s.At.Kind = "etcd"
		return named(c, given)
	}
	return s.localServer(ctx, c, p)
}

// onSocket is a server of this user on this machine.
func onSocket(at local.Endpoint) etcd.Config {
	return etcd.Config{Endpoints: []string{string(at)}, OwnSocket: true}
}

// named is the server that the user named. With a token, addresses without a scheme are dialled by
// it.
func named(c *command.Call, given command.Setting) (etcd.Config, error) {
	conf := etcd.Config{CACert: c.Setting("cacert").Text, Cert: c.Setting("cert").Text,
		Key:  c.Setting("key").Text,
		User: c.Setting("user").Text, Password: c.Getenv("ELASTIC_PASSWORD")}
	token, err := givenToken(c)
	if err != nil {
		return conf, err
	}
	for e := range strings.SplitSeq(given.Text, ",") {
		e = strings.TrimPrefix(strings.TrimSpace(e), "etcd://")
		if e == "" {
			return conf, given.Refuse("an empty address").Cure("--server=HOST:2379")
		}
		if token != "" && !strings.Contains(e, "://") {
			e = "https://" + e
		}
		conf.Endpoints = append(conf.Endpoints, e)
	}
	if token != "" && conf.CACert+conf.Cert+conf.Key == "" {
		return byToken(conf, token)
	}
	return conf, nil
}

// given returns the server that the user named. --rdzv-endpoint names an existing server if it has
// a scheme or several addresses.
func given(c *command.Call) command.Setting {
	s, at := c.Setting("server"), c.Setting("rdzv-endpoint")
	if !s.Given && strings.ContainsAny(at.Text, "/,") {
		return at
	}
	return s
}

// TellKind finds out whether a given server is an elasticd. If the user may not read its key, the
// server counts as an etcd.
func (s *Server) TellKind(ctx context.Context) {
	if s.At.Kind != "etcd" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	if r, err := s.Get(ctx, schema.Elasticd, ""); err == nil && r.One() != nil {
		s.At.Kind = "elasticd"
	}
}

// TellSilent finds out which members do not answer, where several were given.
func (s *Server) TellSilent(ctx context.Context) {
	if len(s.At.Endpoints) > 1 {
		s.At.Silent = Silent(ctx, s.At.Endpoints)
	}
}

// localServer finds or starts the local server of this user. A command that only asks uses the server of
// the agents on this machine, if there are any.
func (s *Server) localServer(ctx context.Context, c *command.Call, p purpose) (etcd.Config, error) {
	r, err := local.Locate(c.Setting("state-dir").Text, c.Getenv)
	if err != nil {
		return etcd.Config{}, err
	}
	if p == Ask {
		if conf, found, err := ofAgents(ctx, c, r); found || err != nil {
			s.At.Kind = "etcd"
			return conf, err
		}
	}
	at, err := local.Find(ctx, r)
	if errors.Is(err, local.ErrNone) {
		if p == Ask && !r.HasData() {
			return etcd.Config{}, problem.New(problem.NoServer, "no server").
				Because("no --server was given, and your local server does not run").
				Cure("--server=HOST:2379, or begin a job: elastic run")
		}
		at, s.Started, err = local.Ensure(ctx, r)
	}
	if err != nil {
		return etcd.Config{}, err
	}
	s.Local, s.At.Kind = &r, "local"
	return onSocket(at), nil
}

// Patience is how long a command other than run waits for a server that is slow or has no leader.
// It does not wait if nothing listens.
const Patience = 3 * time.Second

// answer sends requests until the server answers, or fails with an error that remains. limit is how
// long run waits for a server that does not listen yet.
func answer(ctx context.Context, c *command.Call, st *etcd.Store, limit time.Duration) error {
	most := Patience
	if limit > 0 {
		most = limit
	}
	up := time.NewTimer(most)
	defer up.Stop()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := st.Probe(ctx) // Probe has time limits of its own
		again := limit > 0 && errors.Is(err, etcd.ErrUnreachable) || errors.Is(err, etcd.ErrNoQuorum) ||
			errors.Is(err, etcd.ErrUnreachable) && errors.Is(err, context.DeadlineExceeded)
		if !again {
			return err
		}
		if limit > 0 && wait == 100*time.Millisecond {
			c.Out.Say("elastic: the server does not answer yet; waiting up to %s", limit)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
			continue
		case <-up.C:
		}
		e := screen.KnownProblem(err)
		if e.Code == problem.Server && limit > 0 {
			e.Status = problem.Timeout.Status()
			e.Message += " (waited " + limit.String() + ")"
		}
		if errors.Is(err, etcd.ErrNoQuorum) {
			return noMajority(ctx, st.Endpoints(), e)
		}
		return e
	}
}

// noMajority adds to an error which of the given members do not answer, and that training goes on.
func noMajority(ctx context.Context, endpoints []string, e *problem.Error) *problem.Error {
	silent := Silent(ctx, endpoints)
	on := "workers train on; nothing is committed or repaired until a majority is back"
	if len(silent) == 0 {
		return e.Because("%s", on)
	}
	return e.Because("no answer from %s; %s", phrase.List(silent), on).
		Cure("start the members that do not answer")
}

// Silent returns those of the endpoints that accept no connection.
func Silent(ctx context.Context, endpoints []string) []string {
	listens := make([]bool, len(endpoints))
	var dials sync.WaitGroup
	for i, at := range endpoints {
		dials.Go(func() { listens[i] = etcd.Listens(ctx, at) })
	}
	dials.Wait()
	var silent []string
	for i, at := range endpoints {
		if !listens[i] {
			silent = append(silent, at)
		}
	}
	return silent
}
