// Package target finds the server and the job of a command, and follows the job.
package target

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/problem"
	"github.com/elasticd/elastic/internal/local"
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

// purpose says why a command needs the server.
type purpose int

const (
	Ask  purpose = iota // start the local server only if it has data of earlier jobs
	Join                // start the local server
)

// Open connects to the server, and waits for its first answer. It tries again for limit if the
// server does not answer; 0: it tries once.
func Open(ctx context.Context, c *command.Call, p purpose, limit time.Duration) (*Server, error) {
	given := given(c)
	at, from, err := shared(c)
	if err != nil {
		return nil, err
	}
	if at != "" {
		given = from
		given.Text = at
	}
	if user := c.Setting("user"); strings.Contains(user.Text, ":") {
		return nil, problem.New(problem.Usage, "--user is a name without its password").
			Because("other users can see command lines in the process list").Cure("--user=NAME with ELASTIC_PASSWORD")
	}
	s := &Server{}
	conf := etcd.Config{CACert: c.Setting("cacert").Text, Cert: c.Setting("cert").Text,
		Key:  c.Setting("key").Text,
		User: c.Setting("user").Text, Password: c.Getenv("ELASTIC_PASSWORD")}
	if at != "" && p == Join {
		if s.Shared, s.Started, err = serve(ctx, c, at); err != nil {
			return nil, err
		}
	}
	if given.Given && !(at == "" && c.Truth("standalone")) {
		for e := range strings.SplitSeq(given.Text, ",") {
			e = strings.TrimPrefix(strings.TrimSpace(e), "etcd://")
			if e == "" {
				return nil, given.Refuse("an empty address").Cure("--server=HOST:2379")
			}
			conf.Endpoints = append(conf.Endpoints, e)
		}
		s.At.Kind = "etcd"
	} else {
		at, r, started, err := localServer(ctx, c, p)
		if err != nil {
			return nil, err
		}
		s.Local, s.Started, s.At.Kind = &r, started, "local"
		conf = etcd.Config{Endpoints: []string{string(at)}}
	}
	s.At.Endpoints = conf.Endpoints
	if s.Store, err = etcd.Open(ctx, conf); errors.Is(err, etcd.ErrPlain) ||
		errors.Is(err, etcd.ErrTLSFiles) {
		return nil, err
	} else if err != nil {
		return nil, problem.New(problem.Usage, "%v", err).Of(err).Cure("--server=HOST:2379")
	}
	if err := answer(ctx, c, s.Store, limit); err != nil {
		s.Close()
		return nil, err
	}
	s.At.Reachable = true
	return s, nil
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

// serve starts a server for all nodes at HOST:PORT, if HOST is this machine and nothing listens
// there. If HOST is another machine, the agent on it starts the server.
func serve(ctx context.Context, c *command.Call, at string) (*local.Runtime, local.Started, error) {
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return nil, local.Started{}, err
	}
	ip, err := Ours(host)
	if err != nil {
		return nil, local.Started{}, nil
	}
	r, err := local.Locate(c.Setting("state-dir").Text, c.Getenv)
	if err == nil {
		r, err = r.Shared(net.JoinHostPort(ip, port))
	}
	if err != nil {
		return nil, local.Started{}, err
	}
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(ctx, "tcp", r.Listen)
	if err == nil {
		conn.Close()
		if _, err := local.Find(ctx, r); err != nil {
			// Something else listens, or a server of another user. The first request shows which.
			return nil, local.Started{}, nil
		}
		return &r, local.Started{}, nil
	}
	_, started, err := local.Ensure(ctx, r)
	return &r, started, err
}

// localServer finds or starts the local server of this user.
func localServer(
	ctx context.Context, c *command.Call, p purpose,
) (local.Endpoint, local.Runtime, local.Started, error) {
	r, err := local.Locate(c.Setting("state-dir").Text, c.Getenv)
	if err != nil {
		return "", r, local.Started{}, err
	}
	at, err := local.Find(ctx, r)
	if !errors.Is(err, local.ErrNone) {
		return at, r, local.Started{}, err
	}
	if p == Ask && !r.HasData() {
		return "", r, local.Started{}, problem.New(problem.NoServer, "no server").
			Because("no --server was given, and your local server does not run").
			Cure("--server=HOST:2379, or begin a job: elastic run")
	}
	at, started, err := local.Ensure(ctx, r)
	return at, r, started, err
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
		e := problem.Known(err)
		if e.Code == problem.Server && limit > 0 {
			e.Status = problem.Timeout.Status()
			e.Message += " (waited " + limit.String() + ")"
		}
		return e
	}
}
