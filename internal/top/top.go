// Package top is `elastic top`: the jobs of a server on a terminal, live, and one job at length. Its
// model is pure; Run connects it to a terminal and to what is seen.
package top

import (
	"context"
	"io"
	"sync"

	tea "charm.land/bubbletea/v2"

	"github.com/elasticd/elastic/internal/logs"
	"github.com/elasticd/elastic/internal/page"
	"github.com/elasticd/elastic/pkg/schema"
)

// Config is what top needs.
type Config struct {
	Page   *page.Page
	Lines  page.Lines
	Stop   func(context.Context, schema.Job) error // asks a job to save and end
	Job    schema.Job                              // shown first; "": the list
	In     io.Reader
	Out    io.Writer
	Colour bool
}

// Run shows the jobs until the user quits or ctx ends.
func Run(ctx context.Context, c Config) error {
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	asked := make(chan schema.Job, 1)
	m := newModel(c.Job, paint(c.Colour))
	m.show = func(job schema.Job) {
		select { // only the newest wish counts
		case <-asked:
		default:
		}
		asked <- job
	}
	m.stop = func(job schema.Job) tea.Cmd {
		return func() tea.Msg { return stopped{job, c.Stop(own, job)} }
	}
	m.lines = func(ask logs.Query) tea.Cmd {
		return func() tea.Msg {
			lines, notes, err := c.Lines(own, ask)
			return linesRead{ask, lines, notes, err}
		}
	}
	p := tea.NewProgram(m, tea.WithContext(own), tea.WithInput(c.In), tea.WithOutput(c.Out),
		tea.WithoutSignalHandler())
	m.show(c.Job)
	var feeds sync.WaitGroup
	feeds.Go(func() { feed(own, c.Page, asked, p.Send) })
	_, err := p.Run()
	cancel()
	feeds.Wait()
	if ctx.Err() != nil {
		return nil // the command was interrupted
	}
	return err
}

// feed sends what is seen to the model, of the job that was asked for last.
func feed(ctx context.Context, p *page.Page, asked <-chan schema.Job, send func(tea.Msg)) {
	var looking sync.WaitGroup
	defer looking.Wait()
	end := func() {}
	defer func() { end() }()
	for {
		select {
		case <-ctx.Done():
			return
		case job := <-asked:
			end()
			looking.Wait()
			of, cancel := context.WithCancel(ctx)
			end = cancel
			looking.Go(func() { p.Look(of, job, func(v page.View) { send(seen{job, v}) }) })
		}
	}
}

// seen is a message: what is seen now.
type seen struct {
	job  schema.Job
	view page.View
}

// stopped is a message: the answer to a request to stop a job.
type stopped struct {
	job schema.Job
	err error
}

// linesRead is a message: lines of workers.
type linesRead struct {
	ask   logs.Query
	lines []logs.Line
	notes []string
	err   error
}
