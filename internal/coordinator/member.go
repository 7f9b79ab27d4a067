// Package coordinator runs an embedded etcd member with the care that etcd
// itself leaves to its operator: one process per data directory, errors that
// say what to do, a store that does not fill up, ended jobs removed, health
// and metrics. It is the inside of elasticd, and decides nothing about jobs.
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

	"github.com/elasticd/elastic/pkg/schema"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"
)

// Member is a running etcd member.
type Member struct {
	cfg     Config
	etcd    *embed.Etcd
	client  *clientv3.Client // in process: neither network nor TLS
	conns   *conns
	streams *Streams
	dir     *directory
	log     *zap.Logger
	closing *atomic.Bool
	care    care
}

// Start starts a member; it serves when Ready returns.
//
// Errors: ErrUsage, ErrDataDir, ErrInUse, ErrOtherMember, ErrListen.
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
	if err := dir.roomy(); err != nil {
		return nil, err
	}

	conns, streams, closing := new(conns), NewStreams(), new(atomic.Bool)
	log := c.Log
	c.Log = log.WithOptions(
		zap.WrapCore(func(core zapcore.Core) zapcore.Core { return muted{core, closing} }))
	e, err := c.etcd(id.Token, dir.pages(), conns, streams)
	if err != nil {
		return nil, fmt.Errorf("configure etcd: %w", err)
	}
	etcd, err := embed.StartEtcd(e)
	if err != nil {
		return nil, starting(err)
	}
	if err := dir.unlink(); err != nil {
		etcd.Close()
		return nil, unusable("unlink a socket in the data directory", err)
	}
	m := &Member{cfg: c, etcd: etcd, client: v3client.New(etcd.Server), conns: conns, streams: streams,
		dir: dir, log: log, closing: closing}
	if fresh {
		if err := dir.remember(id); err != nil {
			m.stop()
			return nil, err
		}
	}
	return m, nil
}

// starting says what to do about an etcd that did not start.
func starting(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "listen" && op.Addr != nil {
		return listening(op.Addr.String(), op.Err)
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return unusable("start etcd", err)
	}
	return &Problem{Kind: ErrDataDir, Text: fmt.Sprintf("start etcd: %v", err),
		Why: "etcd refuses what it found in the data directory, or its settings",
		Fix: "compare the flags with those of the first start; a damaged data directory: another " +
			"--data-dir, or a copy of it from before"}
}

func listening(address string, err error) error {
	return &Problem{Kind: ErrListen, Text: fmt.Sprintf("cannot listen on %s: %v", address, err),
		Why: "another process has the port, or the address is not of this machine",
		Fix: "stop that one (ss -ltnp shows it), or another address"}
}

// Ready waits until the member serves: it has its data, and the cluster a
// leader. That needs a majority of the members, however long they take.
//
// Errors: ErrStopped, and the cause of ctx.
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

// Run takes care of the store until ctx ends; only then it returns nil.
//
// Errors: ErrStopped.
func (m *Member) Run(ctx context.Context) error {
	look, tidy := time.NewTicker(lookEvery), time.NewTicker(tidyEvery)
	defer look.Stop()
	defer tidy.Stop()
	settled := time.NewTimer(schema.SettleTime)
	defer settled.Stop()
	m.sign(ctx)
	m.tidy(ctx, time.Now())
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-m.etcd.Err():
			return m.failed(err)
		case <-m.etcd.Server.StopNotify():
			return m.failed(nil)
		case <-settled.C:
			m.settle(ctx)
		case now := <-look.C:
			m.look(ctx, now)
		case now := <-tidy.C:
			m.tidy(ctx, now)
		}
	}
}

func (m *Member) failed(err error) error {
	p := &Problem{Kind: ErrStopped, Text: "etcd stopped", Why: "see the lines above",
		Fix: fmt.Sprintf("start again; if this member was removed from its cluster, delete %s first", m.cfg.Dir)}
	if err != nil {
		p.Why = err.Error()
	}
	return p
}

// Close stops serving, hands leadership over and gives the data directory back.
func (m *Member) Close() {
	m.stop()
	m.dir.release()
}

func (m *Member) stop() {
	m.closing.Store(true)
	m.streams.Stop()
	m.etcd.Server.Stop() // before Close, which would wait for ever for a member that was never ready
	m.etcd.Close()
	m.client.Close()
}

// URLs returns the addresses that are announced to clients.
func (m *Member) URLs() []string {
	var urls []string
	for _, u := range m.cfg.AdvertiseClients {
		urls = append(urls, u.String())
	}
	return urls
}

// leads reports whether this member is the leader, which does the work that is done once per
// cluster.
func (m *Member) leads() bool { return m.etcd.Server.Leader() == m.etcd.Server.MemberID() }
