// Package coordinator runs an embedded etcd member, and does the work that etcd leaves to its
// operator. It locks the data directory, explains errors, frees space, removes jobs that ended long
// ago, and serves health and metrics. elasticd is made of it. It decides nothing about jobs.
package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"

	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/coordinator/streams"
	"github.com/elasticd/elastic/internal/page"
	"github.com/elasticd/elastic/internal/problem"
)

// Member is a running etcd member.
type Member struct {
	cfg     Config
	etcd    *embed.Etcd
	client  *clientv3.Client // in-process, without network and TLS
	conns   *conns
	streams *streams.Streams
	dir     *directory
	log     *zap.Logger
	closing *atomic.Bool
	care    care
	page    *page.Page
}

// Start starts a member. It serves after Ready has returned.
func Start(cfg Config) (*Member, error) {
	c, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	dir, err := hold(c.Dir)
	if err != nil {
		return nil, err
	}
	m, err := start(c, cfg.Name, dir)
	if err != nil {
		dir.release()
		return nil, err
	}
	return m, nil
}

func start(c Config, given string, dir *directory) (*Member, error) {
	id, fresh, err := dir.identify(c, given)
	if err != nil {
		return nil, err
	}
	c.Name = id.Name
	if err := dir.checkSpace(); err != nil {
		return nil, err
	}

	conns, open, closing := new(conns), streams.New(), new(atomic.Bool)
	log := c.Log
	c.Log = log.WithOptions(
		zap.WrapCore(func(core zapcore.Core) zapcore.Core { return muted{core, closing} }))
	e, err := c.etcd(id.Token, dir.pages(), conns, open)
	if err != nil {
		return nil, fmt.Errorf("configure etcd: %w", err)
	}
	etcd, err := embed.StartEtcd(e)
	if err != nil {
		return nil, startError(err)
	}
	if err := dir.unlink(); err != nil {
		etcd.Close()
		return nil, dirError("unlink a socket in the data directory", err)
	}
	m := &Member{cfg: c, etcd: etcd, client: v3client.New(etcd.Server), conns: conns, streams: open,
		dir: dir, log: log, closing: closing}
	m.page = m.newPage()
	if fresh {
		if err := dir.remember(id); err != nil {
			m.stop()
			return nil, err
		}
	}
	return m, nil
}

// startError returns the error for an etcd that did not start, with a fix.
func startError(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "listen" && op.Addr != nil {
		return listening(op.Addr.String(), op.Err)
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return dirError("start etcd", err)
	}
	return problem.New(problem.DataDir, "start etcd: %v", err).
		Because("etcd refuses what it found in the data directory, or its settings").
		Cure("compare the flags with those of the first start; a damaged data directory: another --data-dir, " +
			"or a copy of it from before")
}

func listening(address string, err error) error {
	return problem.New(problem.Listen, "cannot listen on %s: %v", address, err).
		Because("another process has the port, or the address is not of this machine").
		Cure("stop that one (ss -ltnp shows it), or another address")
}

// Ready waits until the member has its data and the cluster has a leader. It needs a majority of
// the members, and has no time limit.
func (m *Member) Ready(ctx context.Context) error {
	select {
	case <-m.etcd.Server.ReadyNotify():
		return nil
	case err := <-m.etcd.Err():
		return m.failed(err)
	case <-m.etcd.Server.StopNotify():
		return m.failed(nil)
	case <-ctx.Done():
		return fmt.Errorf("wait for a majority of the members: %w", context.Cause(ctx))
	}
}

// Run maintains the store until ctx ends. It then returns nil.
func (m *Member) Run(ctx context.Context) error {
	look, tidy := time.NewTicker(lookEvery), time.NewTicker(tidyEvery)
	defer look.Stop()
	defer tidy.Stop()
	m.writeVersion(ctx)
	m.tidy(ctx, time.Now())
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-m.etcd.Err():
			return m.failed(err)
		case <-m.etcd.Server.StopNotify():
			return m.failed(nil)
		case now := <-look.C:
			m.look(ctx, now)
		case now := <-tidy.C:
			m.tidy(ctx, now)
		}
	}
}

func (m *Member) failed(err error) error {
	p := problem.New(problem.Failed, "etcd stopped").Because("see the lines above").
		Cure("start again; if this member was removed from its cluster, delete %s first", m.cfg.Dir)
	if err != nil {
		p.Because("%v", err)
	}
	return p
}

// Close stops serving, transfers the leadership and unlocks the data directory.
func (m *Member) Close() {
	m.stop()
	m.dir.release()
}

func (m *Member) stop() {
	m.closing.Store(true)
	m.page.Close()
	m.streams.Stop()
	m.etcd.Server.Stop() // Close alone would wait forever for a member that was never ready
	m.etcd.Close()
	m.client.Close()
}

// asRoot returns the context of a request of the in-process client. While etcd has roles, it has the
// rights of root.
func (m *Member) asRoot(ctx context.Context) context.Context {
	return m.etcd.Server.AuthStore().WithRoot(ctx)
}

// URLs returns the addresses that clients are given.
func (m *Member) URLs() []string {
	var urls []string
	for _, u := range m.cfg.AdvertiseClients {
		urls = append(urls, u.String())
	}
	return urls
}

// leads reports whether this member is the leader. The leader does the work that is needed once per
// cluster.
func (m *Member) leads() bool { return m.etcd.Server.Leader() == m.etcd.Server.MemberID() }
