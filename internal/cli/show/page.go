package show

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/page"
	"github.com/elasticd/elastic/internal/problem"
)

// Page is the command that serves the page of a server's jobs to a browser on this machine.
func Page() command.Command {
	return command.Command{Name: "page", Args: "[JOB]", Most: 1, Usage: "show the jobs in a browser",
		Action: pageAction, Flags: []command.Flag{
			command.JobFlag(),
			{Name: "port", Arg: "N", Usage: "port on 127.0.0.1 (any)"},
		}}
}

// pageAction serves the page until it is interrupted. Its reader has the rights of this command.
func pageAction(ctx context.Context, c *command.Call) error {
	port, err := c.Setting("port").Number(0, 0)
	if err != nil {
		return err
	}
	s, name, err := target.JobServer(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	s.TellKind(ctx)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return problem.New(problem.Usage, "--port=%d: %v", port, err).Of(err).Cure("another port, or none")
	}
	p := page.New(page.Config{Source: s.Store, Health: healthOf(s), Lines: page.NodeLines(s.Store)})
	defer p.Close()
	prefix := "/" + strings.ToLower(rand.Text()) + "/"
	mux := http.NewServeMux()
	mux.Handle(prefix, http.StripPrefix(strings.TrimSuffix(prefix, "/"), p))
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10}
	at := "http://" + l.Addr().String() + prefix
	if name != "" {
		at += "#/" + string(name)
	}
	if err := c.Out.Line("%s", at); err != nil {
		return err
	}
	c.Out.Say("open it in a browser on this machine; it shows what you may read, until Ctrl-C")
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	p.Close() // ends the streams, so that the server can end
	srv.Close()
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// healthOf returns the health of the server of a command: which of its addresses answer.
func healthOf(s *target.Server) func(context.Context) page.Health {
	return func(ctx context.Context) page.Health {
		h := page.Health{Kind: s.At.Kind, Name: strings.Join(s.At.Endpoints, ", "),
			Members: []page.Member{}, Warnings: []string{}}
		if len(s.At.Endpoints) < 2 {
			return h
		}
		silent := target.Silent(ctx, s.At.Endpoints)
		for _, e := range s.At.Endpoints {
			h.Members = append(h.Members, page.Member{Name: e, Down: slices.Contains(silent, e)})
		}
		return h
	}
}
