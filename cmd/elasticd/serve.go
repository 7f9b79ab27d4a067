package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/elasticd/elastic/internal/coordinator"
	"github.com/elasticd/elastic/internal/version"
)

// ownSocket is the value of --http for a socket in the data directory.
const ownSocket = "socket"

// serve runs a member until ctx ends. It then stops cleanly.
func serve(ctx context.Context, cfg coordinator.Config, address string, stderr io.Writer) error {
	cfg.Log, cfg.Version = coordinator.Logger(stderr), version.String()
	var l net.Listener
	if address != "" && address != ownSocket { // before the start of etcd, so that a busy port fails early
		var err error
		if l, err = cfg.ListenHTTP(address); err != nil {
			return err
		}
		defer l.Close()
	}
	m, err := coordinator.Start(cfg)
	if err != nil {
		return err
	}
	defer m.Close()
	if address == ownSocket { // after the start, because the data directory must be locked
		if l, err = m.ListenHTTP(); err != nil {
			return err
		}
		defer l.Close()
	}

	g, ctx := errgroup.WithContext(ctx)
	if l != nil {
		serveHTTP(ctx, g, l, m.Handler())
	}
	g.Go(func() error {
		if err := ready(ctx, m, stderr); err != nil {
			return err
		}
		return m.Run(ctx)
	})
	return g.Wait()
}

// ready waits for the cluster, and prints a message if that takes long. It returns nil if ctx ends.
func ready(ctx context.Context, m *coordinator.Member, stderr io.Writer) error {
	slow := time.AfterFunc(5*time.Second, func() {
		fmt.Fprintln(stderr, "elasticd: waiting for a majority of the members; "+
			"if the others are gone for good: --force-new-cluster")
	})
	defer slow.Stop()
	if err := m.Ready(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	fmt.Fprintf(stderr, "elasticd: ready: clients %s\n", strings.Join(m.URLs(), ","))
	return nil
}

func serveHTTP(ctx context.Context, g *errgroup.Group, l net.Listener, h http.Handler) {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
	g.Go(func() error {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve %s: %w", l.Addr(), err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		return srv.Close()
	})
}
