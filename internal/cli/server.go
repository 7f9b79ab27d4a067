package cli

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/local"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store/etcd"
)

// server is the etcd of this call, open and answering.
type server struct {
	*etcd.Store
	at    status.Server
	local *local.Runtime // nil: a server was given

	started local.Started  // the server, if it had to be started
	shared  *local.Runtime // of a server for all nodes that runs on this machine; nil: it does not
}

// purpose is what a command wants of the server.
type purpose int

const (
	ask  purpose = iota // the local server is started only if it has data of earlier jobs
	join                // it is started
)

// server finds the server and has it answer, or says why not. limit is for how long a server that
// does not answer is asked again; 0: once.
func (c *call) server(ctx context.Context, p purpose, limit time.Duration) (*server, error) {
	given := c.given()
	at, from, err := c.shared()
	if err != nil {
		return nil, err
	}
	if at != "" {
		given = from
		given.text = at
	}
	if user := c.setting("user"); strings.Contains(user.text, ":") {
		return nil, fail(Usage, "--user is a name without its password").
			because("what is typed stands in the list of processes").cure("--user=NAME with ELASTIC_PASSWORD")
	}
	s := &server{}
	conf := etcd.Config{CACert: c.setting("cacert").text, Cert: c.setting("cert").text, Key: c.setting("key").text,
		User: c.setting("user").text, Password: c.Getenv("ELASTIC_PASSWORD")}
	if at != "" && p == join {
		if s.shared, s.started, err = c.serve(ctx, at); err != nil {
			return nil, err
		}
	}
	if given.given && !(at == "" && c.truth("standalone")) {
		for e := range strings.SplitSeq(given.text, ",") {
			e = strings.TrimPrefix(strings.TrimSpace(e), "etcd://")
			if e == "" {
				return nil, given.refuse("an empty address").cure("--server=HOST:2379")
			}
			conf.Endpoints = append(conf.Endpoints, e)
		}
		s.at.Kind = "etcd"
	} else {
		at, r, started, err := c.localServer(ctx, p)
		if err != nil {
			return nil, err
		}
		s.local, s.started, s.at.Kind = &r, started, "local"
		conf = etcd.Config{Endpoints: []string{string(at)}}
	}
	s.at.Endpoints = conf.Endpoints
	if s.Store, err = etcd.Open(ctx, conf); errors.Is(err, etcd.ErrPlain) || errors.Is(err, etcd.ErrTLSFiles) {
		return nil, err
	} else if err != nil {
		return nil, fail(Usage, "%v", err).of(err).cure("--server=HOST:2379")
	}
	if err := c.answer(ctx, s.Store, limit); err != nil {
		s.Close()
		return nil, err
	}
	s.at.Reachable = true
	return s, nil
}

// given is the server that was named, by whichever flag: an endpoint with a scheme, or several, are those of a
// server that is there.
func (c *call) given() setting {
	s, at := c.setting("server"), c.setting("rdzv-endpoint")
	if !s.given && strings.ContainsAny(at.text, "/,") {
		return at
	}
	return s
}

// tellKind finds out whether a server that was given is an elasticd. Who may not read it sees an etcd.
func (s *server) tellKind(ctx context.Context) {
	if s.at.Kind != "etcd" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if r, err := s.Get(ctx, schema.Elasticd, ""); err == nil && r.One() != nil {
		s.at.Kind = "elasticd"
	}
}

// serve starts a server for all nodes at HOST:PORT, if HOST is this machine and nothing listens there. Where
// HOST is another machine its agent does.
func (c *call) serve(ctx context.Context, at string) (*local.Runtime, local.Started, error) {
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return nil, local.Started{}, err
	}
	ip, err := ours(host)
	if err != nil {
		return nil, local.Started{}, nil
	}
	r, err := local.Locate(c.setting("state-dir").text, c.Getenv)
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
			return nil, local.Started{}, nil // somebody else's: whether it is one shows when it is asked
		}
		return &r, local.Started{}, nil
	}
	_, started, err := local.Ensure(ctx, r)
	return &r, started, err
}

// localServer is the one of this user and machine.
func (c *call) localServer(ctx context.Context, p purpose) (local.Endpoint, local.Runtime, local.Started, error) {
	r, err := local.Locate(c.setting("state-dir").text, c.Getenv)
	if err != nil {
		return "", r, local.Started{}, err
	}
	at, err := local.Find(ctx, r)
	if !errors.Is(err, local.ErrNone) {
		return at, r, local.Started{}, err
	}
	if p == ask && !r.HasData() {
		return "", r, local.Started{}, fail(NoServer, "no server").because("none was given, and none of yours runs here").
			cure("--server=HOST:2379, or begin a job: elastic run")
	}
	at, started, err := local.Ensure(ctx, r)
	return at, r, started, err
}

// patience is for how long a command that only asks bears with a server that is slow, or has no
// leader at the moment. Where nobody listens it bears nothing.
const patience = 3 * time.Second

// answer asks the server until it answers, or says something that more asking does not change.
// limit is for how long run waits for one where nobody listens yet.
func (c *call) answer(ctx context.Context, st *etcd.Store, limit time.Duration) error {
	most := patience
	if limit > 0 {
		most = limit
	}
	up := time.NewTimer(most)
	defer up.Stop()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := st.Probe(ctx) // which has limits of its own
		again := limit > 0 && errors.Is(err, etcd.ErrUnreachable) || errors.Is(err, etcd.ErrNoQuorum) ||
			errors.Is(err, etcd.ErrUnreachable) && errors.Is(err, context.DeadlineExceeded)
		if !again {
			return err
		}
		if limit > 0 && wait == 100*time.Millisecond {
			c.out.say("elastic: the server does not answer yet; waiting up to %s", limit)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
			continue
		case <-up.C:
		}
		e := Known(err)
		if e.Code == Server && limit > 0 {
			e.Status = Timeout.status()
			e.Message += " (waited " + limit.String() + ")"
		}
		return e
	}
}
