package target

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/elasticd/elastic/internal/certs"
	"github.com/elasticd/elastic/internal/cli/command"

	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/local"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/store/etcd"
)

// meeting is an address at which the nodes of a job start their server themselves.
type meeting struct {
	at      string // HOST:PORT, as on every node
	purpose purpose
}

// meet says how to reach the server of such an address. On its machine its user reaches it by the
// socket, and the first node starts it. From another machine it is reached by the token. Only
// --insecure opens the address itself.
func (s *Server) meet(ctx context.Context, c *command.Call, m meeting) (etcd.Config, error) {
	r, err := ownShared(c, m.at)
	if errors.Is(err, errNotHere) {
		return elsewhere(c, m)
	}
	if err != nil {
		return etcd.Config{}, err
	}
	socket, err := local.Find(ctx, *r)
	if errors.Is(err, local.ErrNone) {
		if conf, again, err := s.unmet(ctx, c, m, r); !again {
			return conf, err
		}
		socket, s.Started, err = local.Ensure(ctx, *r)
	}
	if err != nil {
		return etcd.Config{}, err
	}
	s.Shared = r
	return onSocket(socket), nil
}

// unmet decides what to do if no server of this user is on this machine. again reports whether it
// is to be started.
func (s *Server) unmet(ctx context.Context, c *command.Call, m meeting, r *local.Runtime) (
	conf etcd.Config, again bool, err error,
) {
	busy := listens(ctx, m.at)
	switch {
	case r.Listen != "" && (busy || m.purpose == Ask):
		conf, err = elsewhere(c, m) // the token shows whose it is
		return conf, false, err
	case m.purpose == Ask && !r.HasData():
		return conf, false, problem.New(problem.NoServer, "no server of yours for %s", m.at).
			Because("it ended, or was never started").Cure("begin a job: elastic run --rdzv-endpoint=%s", m.at)
	case busy:
		return conf, false, problem.New(problem.ServerWrong, "another program listens at %s", m.at).
			Because("run does not use a server that it did not start, and any user can listen there").
			Cure("--server=%s if that is the etcd or elasticd to use; or another port", m.at)
	}
	return conf, true, nil
}

func listens(ctx context.Context, at string) bool {
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(ctx, "tcp", at)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

var errNotHere = errors.New("another machine has the server")

// ownShared returns the runtime directory of the server of an address. Errors: errNotHere.
func ownShared(c *command.Call, at string) (*local.Runtime, error) {
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return nil, err
	}
	ip, err := Ours(host)
	if err != nil {
		return nil, errNotHere
	}
	address, err := netip.ParseAddr(ip)
	n, perr := strconv.ParseUint(port, 10, 16)
	if err = errors.Join(err, perr); err != nil {
		return nil, err
	}
	a := local.Access{Open: c.Truth("insecure")}
	if !a.Open && !address.IsLoopback() {
		if a.Token, err = tokenFor(c, at); err != nil {
			return nil, err
		}
	}
	r, err := local.Locate(c.Setting("state-dir").Text, c.Getenv)
	if err != nil {
		return nil, err
	}
	r = r.Shared(netip.AddrPortFrom(address.Unmap(), uint16(n)), a)
	return &r, nil
}

// elsewhere is a server at an address of TCP.
func elsewhere(c *command.Call, m meeting) (etcd.Config, error) {
	if c.Truth("insecure") {
		return etcd.Config{Endpoints: []string{m.at}}, nil
	}
	token, err := tokenFor(c, m.at)
	if err != nil {
		return etcd.Config{}, err
	}
	return byToken(etcd.Config{Endpoints: []string{"https://" + m.at}}, token)
}

// tokenFor returns the token of the server of an address: the one given, else that of the state
// directory.
func tokenFor(c *command.Call, at string) (certs.Token, error) {
	if t, err := givenToken(c); t != "" || err != nil {
		return t, err
	}
	path, err := local.TokenFile(at, c.Setting("state-dir").Text, c.Getenv)
	if err != nil {
		return "", err
	}
	return local.KeepToken(path)
}

// givenToken returns the token of --token-file or ELASTIC_TOKEN, if there is one. A flag counts
// before a variable.
func givenToken(c *command.Call) (certs.Token, error) {
	file := c.Setting("token-file")
	if text := c.Getenv(local.TokenEnv); text != "" && file.From != command.FromFlag {
		t, err := certs.ParseToken(text)
		if err != nil {
			return "", problem.New(problem.Usage, "%s: %v", local.TokenEnv, err).Of(err).
				Cure("a random word of at least 20 characters: openssl rand -hex 16")
		}
		return t, nil
	}
	if !file.Given {
		return "", nil
	}
	t, err := local.ReadToken(file.Text)
	if err != nil {
		return "", problem.New(problem.Usage, "%v", err).Of(err).
			Cure("a file of yours, with mode 0600 and the token that the first node names")
	}
	return t, nil
}

func byToken(conf etcd.Config, t certs.Token) (etcd.Config, error) {
	var err error
	conf.TLS, err = t.Client()
	conf.ErrOtherKey = certs.ErrOtherToken.Error()
	return conf, err
}

// TokenLine returns the line about the token of a server for nodes elsewhere; "" if they need none
// or were given theirs as this one was. Only a terminal shows the token itself: others may read
// logs.
func TokenLine(c *command.Call, r *local.Runtime) string {
	at, _, err := shared(c)
	if given, gerr := givenToken(c); err != nil || gerr != nil || given != "" || r.Token == "" {
		return ""
	}
	path, err := local.TokenFile(at, c.Setting("state-dir").Text, c.Getenv)
	if err != nil {
		return ""
	}
	line := "elastic: machines that do not share " + path + " need a copy of it: --token-file=FILE"
	if screen.IsTerminal(c.Stderr) {
		line += ", or ELASTIC_TOKEN=" + string(r.Token)
	}
	return line + "\n"
}
