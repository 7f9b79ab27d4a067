package main

import (
	"context"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"golang.org/x/sync/errgroup"

	"github.com/elasticd/elastic/internal/coordinator"
	"github.com/elasticd/elastic/internal/local"
	"github.com/elasticd/elastic/internal/version"
)

// The local server has one member and no network, so its timeouts can be short. It elects itself
// one to five heartbeats after its start, and wakes up at each heartbeat. With an election timeout
// above 660 ms its shortest lease would be two seconds.
const (
	localHeartbeat = 130 * time.Millisecond
	localElection  = 5 * localHeartbeat
	localFlush     = 500 * time.Millisecond
	localQuota     = 512 << 20
	localSegment   = 4 << 20 // by default etcd allocates two of 64 MiB
)

// localServer is one local server.
type localServer struct {
	local.Runtime
	ensured bool // a command started it, and waits for it
}

// serveLocal runs a local server until ctx ends, no client uses it, or its socket is removed.
func serveLocal(ctx context.Context, r localServer, stderr io.Writer) error {
	m, l, err := startLocal(ctx, r, stderr)
	if r.ensured {
		local.AnswerEnsure(err)
	}
	if err != nil {
		return err
	}
	release := func() {}
	defer func() { release() }() // last: the next server may start then
	defer m.Close()
	defer l.Close()

	ctx, end := context.WithCancel(ctx)
	defer end()
	var g errgroup.Group
	serveHTTP(ctx, &g, l, m.Handler())
	g.Go(func() error { defer end(); return m.Run(ctx) })
	g.Go(func() error { defer end(); r.WaitLost(ctx); return nil })
	for {
		used := m.WaitIdle(ctx, r.Idle)
		give, ok := r.Retire()
		if ok {
			release = give
		}
		if ok || used != nil {
			end()
			return g.Wait()
		}
	}
}

// startLocal starts a local server. It returns when clients can find and use it, and after an error nothing
// of it is left.
func startLocal(ctx context.Context, r localServer, stderr io.Writer) (_ *coordinator.Member, _ net.Listener,
	err error,
) {
	wal.SegmentSizeBytes = localSegment
	listen := []url.URL{{Scheme: "unix", Path: r.Socket()}}
	if r.Listen != "" { // it also serves other machines
		listen = append(listen, url.URL{Scheme: "http", Host: r.Listen})
	}
	m, err := coordinator.Start(coordinator.Config{
		Name: "local", Dir: r.Data,
		ListenClients: listen, Insecure: r.Open, Secret: r.Token, Own: true,
		Heartbeat: localHeartbeat, Election: localElection, Flush: localFlush, Quota: localQuota,
		Log: coordinator.Logger(stderr), Version: version.String(),
	})
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if err := m.Ready(ctx); err != nil {
		return nil, nil, err
	}
	// the page, for those who can enter the directory of the socket
	l, err := coordinator.Config{}.ListenHTTP("unix:" + filepath.Join(r.Dir, "http.sock"))
	if err != nil {
		return nil, nil, err
	}
	if err := r.Announce(version.String()); err != nil {
		l.Close()
		return nil, nil, err
	}
	return m, l, nil
}
