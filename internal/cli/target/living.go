package target

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/local"
	"github.com/elasticd/elastic/internal/node/disk"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store/etcd"
)

// ofAgents says how to reach the server that the agents on this machine use, and tells the user which
// one that is. It is not found where no agent lives, or all of them use the local server.
func ofAgents(
	ctx context.Context, c *command.Call, own local.Runtime,
) (conf etcd.Config, found bool, err error) {
	state, err := local.State(c.Setting("state-dir").Text, c.Getenv)
	if err != nil {
		return conf, false, err
	}
	living, err := disk.LivingOf(state)
	if err != nil {
		return conf, false, err
	}
	for i := range living {
		if living[i].Server == disk.LocalServer {
			living[i].Server = "unix://" + own.Socket()
		}
	}
	job, err := JobName(c)
	if err != nil {
		return conf, false, err
	}
	use, err := onlyServer(living, job)
	if err != nil || use == nil || use.Server == "unix://"+own.Socket() {
		return conf, false, err
	}
	besides := "" // jobs that have ended may be on the local server
	if at, err := local.Find(ctx, own); err == nil {
		besides = "; your local server is --server=" + string(at)
	}
	c.Out.Say("elastic: server %s, which node %s on this machine uses%s", use.Server, use.Node, besides)
	conf, err = asAgent(c, use.Server)
	return conf, true, err
}

// onlyServer returns one of the agents of the job, or of all agents if none is in that, if they use the
// same server. Otherwise it names the servers.
func onlyServer(living []disk.Living, job schema.Job) (*disk.Living, error) {
	of := slices.DeleteFunc(slices.Clone(living), func(l disk.Living) bool { return l.Job != string(job) })
	if len(of) == 0 {
		of = living
	}
	var servers, who []string
	for _, l := range of {
		if !slices.Contains(servers, l.Server) {
			servers = append(servers, l.Server)
			who = append(who, l.Server+" (node "+l.Node+", job "+l.Job+")")
		}
	}
	switch len(servers) {
	case 0:
		return nil, nil
	case 1:
		return &of[0], nil
	}
	return nil, problem.New(problem.NoServer, "which server?").
		Because("no --server was given, and the agents on this machine use %d: %s", len(servers),
			phrase.List(who)).
		Cure("--server=%s", servers[0]).Detail("servers", servers)
}

// asAgent says how to reach a server by the name under which an agent of this user remembers it: its
// socket, or addresses. The token of a server that nodes started is in the state directory.
func asAgent(c *command.Call, server string) (etcd.Config, error) {
	if strings.HasPrefix(server, "unix://") {
		return onSocket(local.Endpoint(server)), nil
	}
	conf, err := named(c, command.Setting{Name: "server", Text: server, Given: true})
	at, https := strings.CutPrefix(server, "https://")
	if err != nil || !https || conf.TLS != nil || conf.CACert+conf.Cert+conf.Key != "" {
		return conf, err
	}
	path, err := local.TokenFile(at, c.Setting("state-dir").Text, c.Getenv)
	if err != nil {
		return conf, err
	}
	token, err := local.ReadToken(path)
	if errors.Is(err, fs.ErrNotExist) {
		return conf, nil
	}
	if err != nil {
		return conf, err
	}
	return byToken(conf, token)
}
