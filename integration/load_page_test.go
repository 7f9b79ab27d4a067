package integration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// BenchmarkPage measures the page of an elasticd with a thousand agents in one job and a hundred small
// jobs, each of which reports progress every two seconds: the time until Chromium shows it, and the
// processor time of elasticd without viewers and with ten. NODES is the number of agents. All of them,
// and Chromium, share the processors with elasticd.
func BenchmarkPage(b *testing.B) {
	n := 1000
	if v, err := strconv.Atoi(os.Getenv("NODES")); err == nil {
		n = v
	}
	server := startElasticd(b)
	h := fleetOn(b, n, []string{server.client})
	h.job.Limits = rendezvous.Limits{Min: 1, Max: n}
	h.job.Rules.LastCall = rendezvous.Seconds(5 * time.Minute)
	for i := range n {
		h.start(fmt.Sprintf("node%04d", i))
	}
	h.settles(0, n)
	defer smallJobs(b, h, 100)()
	share := func(what, goal string) {
		const d = 30 * time.Second
		before, _ := cost(server.cmd.Process.Pid)
		<-time.After(d)
		after, rss := cost(server.cmd.Process.Pid)
		fmt.Printf("%s: elasticd %.3f of a core%s, %d MB\n", what, (after-before).Seconds()/d.Seconds(),
			goalOf(goal), rss>>20)
	}
	share("nobody looks", "")
	for _, job := range []string{"", "small-007", "fleet"} {
		var took []time.Duration
		for range 5 {
			took = append(took, loads(b, server.http, job))
		}
		slices.Sort(took)
		fmt.Printf("page of %q: shown after %s, %s, %s (goal: 1 s)\n", job, took[0], took[2], took[4])
	}
	<-time.After(25 * time.Second) // the page reads on for a while without viewers
	share("nobody looks any more", "at most 0.05 more than before")
	ctx, cancel := context.WithCancel(context.Background())
	var viewers sync.WaitGroup
	for i := range 10 {
		job := []string{"", "fleet", "small-007"}[i%3]
		viewers.Go(func() { look(ctx, server.http+"stream?job="+job) })
	}
	<-time.After(2 * time.Second)
	share("ten viewers", "at most 0.2 more")
	cancel()
	viewers.Wait()
}

// loads opens the page in a new tab, and returns when it shows the list, or a job at length.
func loads(b *testing.B, at, job string) time.Duration {
	c := newBrowser(b)
	began := time.Now()
	shown := "document.querySelectorAll('tbody tr').length >= 101"
	if job != "" {
		at += "#/" + job
		shown = "/node0007|begun/.test(document.querySelector('main').textContent)"
	}
	c.do(chromedp.Navigate(at))
	for !eval[bool](c, shown) {
		if time.Since(began) > limit {
			b.Fatalf("%s shows:\n%s", at, tail(c.text()))
		}
		<-time.After(5 * time.Millisecond)
	}
	return time.Since(began).Round(time.Millisecond)
}

// look reads a stream until ctx ends, like an open page.
func look(ctx context.Context, at string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body) // ctx ends it
}

// smallJobs makes n jobs without agents, whose progress is written every two seconds until stop.
func smallJobs(b *testing.B, h *fleet, n int) (stop func()) {
	b.Helper()
	jobs := make([]schema.Job, n)
	for i := range jobs {
		jobs[i] = schema.Job(fmt.Sprintf("small-%03d", i))
		record := h.job
		record.Name, record.UID, record.Attempt, record.Time = "", schema.UID(jobs[i]), 1, time.Now()
		record.Limits = rendezvous.Limits{Min: 1, Max: 8}
		_, err := h.look.Txn(b.Context(), store.Txn{Then: []store.Write{
			store.Put(jobs[i].Job(), schema.Encode(record)),
			history.Tell(jobs[i], history.Event{Kind: history.JobCreated, Text: "begun", Time: time.Now()})}})
		if err != nil {
			b.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var writer sync.WaitGroup
	writer.Go(func() {
		every := time.NewTicker(2 * time.Second / time.Duration(n))
		defer every.Stop()
		for i := int64(0); ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
			}
			job, loss := jobs[int(i)%n], 1/float64(i+1)
			p := rendezvous.Progress{Step: &i, Loss: &loss, Time: time.Now()}
			// a report that is lost is followed by the next one
			_, _ = h.look.Txn(ctx, store.Txn{Then: []store.Write{store.Put(job.Progress(), schema.Encode(p))}})
		}
	})
	return func() { cancel(); writer.Wait() }
}
