// Package run has the command elastic run, with which this machine takes part in a job.
package run

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/run/options"
	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/checkpoint/capture"
)

func Command() command.Command {
	return command.Command{Name: "run", Args: "[--] PROGRAM [ARGS…]", Most: -1,
		Usage:  "take part in a job with this machine",
		Action: runAction, File: command.FileAll, Flags: options.Flags()}
}

func runAction(ctx context.Context, c *command.Call) error {
	var last strings.Builder
	err := takePart(ctx, c, &last)
	screen.Report(&last, err)
	leaveMessage(terminationLog, last.String())
	return err
}

// takePart runs this node. If the job failed or was stopped, it writes the reason to last.
func takePart(ctx context.Context, c *command.Call, last *strings.Builder) error {
	sources(c)
	o, err := options.Parse(c)
	if err != nil {
		return err
	}
	if err := options.Fit(ctx, &o); err != nil {
		return err
	}
	if c.Truth("dry-run") {
		return dryRun(c, &o)
	}
	more, err := options.Signals(c)
	if err != nil {
		return err
	}
	if o.Launcher.Announce && !c.Out.Quiet {
		fmt.Fprint(c.Stderr, options.Announcement(c, &o))
	}
	signals := make(chan os.Signal, 4)
	defer notify(signals, more)()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o.Queue = capture.NewQueue() // before the first connection
	defer o.Queue.Close()
	s, err := connect(ctx, c, o.ConnectTimeout, signals)
	if err != nil {
		return err
	}
	defer s.Close()
	single, err := alone(c, s, &o)
	if err != nil {
		return err
	}
	defer single.Close()
	o.Store, o.Endpoints, o.Local = s.Store, s.At.Endpoints, s.Local
	o.Shared = s.Shared
	if o.Host == "" {
		o.Reaches = s.Towards
		o.Host = cmp.Or(o.Reaches(), "127.0.0.1")
	}
	o.PreHook.Env = hookEnviron(c, s)
	stderr := &words{out: c.Stderr, terminal: c.Stderr, quiet: c.Out.Quiet}
	stderr.after = serverStarted(c, s)
	o.Stdout, o.Stderr, o.Signals = c.Stdout, stderr, signals
	defer showProgress(c, &o, stderr)()
	r := c.Run(ctx, o)
	stderr.close()
	if r.Err == nil && r.Status != 0 {
		last.WriteString(endMessage(ctx, s, o.Job.Name))
	}
	if path := c.Getenv(errorFileName); path != "" && r.Err == nil && r.Status != 0 {
		if err := leaveErrorFile(ctx, path, s, o.Job.Name); err != nil {
			c.Out.Say("elastic: %s: %v", errorFileName, err)
		}
	}
	return part{c, s, &o}.outcome(ctx, r)
}

// sources says where settings come from that are not on the command line, and which are not used.
func sources(c *command.Call) {
	if options.Nested(c.Getenv) {
		c.Out.Say("elastic: this is a worker of job %s: the run is a job of its own, without the variables of "+
			"that job and without %s", c.Getenv("ELASTIC_JOB_ID"), command.FileName)
		c.Leave(options.Outside(c.Getenv))
	}
	c.Unused = append(c.Unused, options.Unneeded(c)...)
	if len(c.Unused) > 0 {
		c.Out.Say("elastic: not needed, and not used: %s", phrase.List(c.Unused))
	}
	if names := c.FromFile(); len(names) > 0 {
		c.Out.Say("elastic: settings from %s: %s", command.FileName, phrase.List(names))
	}
	if word := behind(c); word != "" {
		c.Out.Say("elastic: %s is passed to %s: flags of elastic come before the program", word, c.Args[0])
	}
}

// behind returns a word after the program that looks as if it were to give the size or the name of the
// job, if nothing else gives that.
func behind(c *command.Call) string {
	if len(c.Args) == 0 {
		return ""
	}
	for _, name := range []string{"np", "job-id"} {
		if c.Setting(name).Given {
			continue
		}
		for _, word := range c.Args[1:] {
			flag, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
			if strings.HasPrefix(word, "--") && strings.ReplaceAll(flag, "_", "-") == name {
				return word
			}
		}
	}
	return ""
}

// hookEnviron returns the variables with which an elastic command in the pre-hook finds the server and
// the state directory.
func hookEnviron(c *command.Call, s *target.Server) []string {
	env := []string{"ELASTIC_SERVER=", "ELASTIC_STATE_DIR=" + c.Setting("state-dir").Text}
	if s.Local == nil {
		env[0] += strings.Join(s.At.Endpoints, ",")
	}
	for name, to := range map[string]string{"cacert": "ELASTIC_CACERT", "cert": "ELASTIC_CERT",
		"key": "ELASTIC_KEY", "user": "ELASTIC_USER"} {
		if v := c.Setting(name); v.Given {
			env = append(env, to+"="+v.Text)
		}
	}
	return env
}

// serverStarted returns the lines about a server that was started.
func serverStarted(c *command.Call, s *target.Server) string {
	switch {
	case s.Started.PID == 0:
		return ""
	case s.Shared == nil:
		return fmt.Sprintf("elastic: started the local server for user %s (pid %d); your terminals share "+
			"it; it ends by itself\n",
			c.UserName(), s.Started.PID)
	}
	where, _ := target.Where(c)
	text := fmt.Sprintf("elastic: started the server of %s (pid %d); it ends by itself\n", where, s.Started.PID)
	if s.Shared.Open {
		return text + "elastic: " + target.OpenTo(s.Shared.Listen) + "\n"
	}
	return text + target.TokenLine(c, s.Shared)
}

// notify sends the signals of a node to signals, until stop is called. A signal in more is sent as
// SIGTERM. If SIGHUP is ignored, as below nohup, it stays ignored.
func notify(signals chan os.Signal, more []os.Signal) (stop func()) {
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	if len(more) == 0 {
		return func() { signal.Stop(signals) }
	}
	others, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(others, more...)
	go func() {
		defer close(done)
		for range others {
			select {
			case signals <- syscall.SIGTERM:
			default: // signals is full, so the node will leave
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		signal.Stop(others)
		close(others)
		<-done
	}
}

// connect opens the server. A signal ends it without further steps, because nothing was started
// yet.
func connect(
	ctx context.Context, c *command.Call, limit time.Duration, signals <-chan os.Signal,
) (*target.Server, error) {
	ctx, cancel := context.WithCancel(ctx)
	type result struct {
		s   *target.Server
		err error
	}
	done := make(chan result, 1)
	go func() {
		s, err := target.Open(ctx, c, target.Join, limit)
		done <- result{s, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			cancel()
		} else {
			context.AfterFunc(ctx, cancel) // the store is closed with the context of the caller
		}
		return r.s, r.err
	case sig := <-signals:
		cancel()
		if r := <-done; r.s != nil {
			r.s.Close()
		}
		return nil, screen.Exit{Status: map[os.Signal]int{syscall.SIGINT: 130, syscall.SIGQUIT: 131,
			syscall.SIGTERM: 75, syscall.SIGHUP: 75}[sig]}
	}
}
