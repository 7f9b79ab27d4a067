package integration

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/elasticd/elastic/pkg/schema"
)

// BenchmarkPage measures the page of an elasticd with one job of a thousand nodes and a hundred jobs
// of four, each of which reports progress every two seconds: the time until Chromium shows it, and the
// processor time of elasticd without viewers and with ten. NODES is the number of nodes. There are no
// agents: the records are written as agents do.
func BenchmarkPage(b *testing.B) {
	n := 1000
	if v, err := strconv.Atoi(os.Getenv("NODES")); err == nil {
		n = v
	}
	server := startElasticd(b)
	night := newNight(b, server.client)
	night.copy(recordsOf(b, n, 12), "fleet")
	small := recordsOf(b, 4, 3)
	for i := range 100 {
		night.copy(small, schema.Job(fmt.Sprintf("small-%03d", i)))
	}
	defer night.goesOn()()
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
	for _, kinds := range [][]string{{""}, {"", "fleet", "small-007"}} {
		ctx, cancel := context.WithCancel(context.Background())
		var viewers sync.WaitGroup
		var read atomic.Int64
		for i := range 10 {
			viewers.Go(func() { look(ctx, server.http+"stream?job="+kinds[i%len(kinds)], &read) })
		}
		<-time.After(2 * time.Second)
		first := read.Load()
		share(fmt.Sprintf("ten viewers of %q", kinds), "at most 0.2 more")
		fmt.Printf("  they read %d kB first, %d kB in these 30 s\n", first>>10, (read.Load()-first)>>10)
		cancel()
		viewers.Wait()
	}
}

// loads opens the page in a new browser, and returns when it shows the list, or a job at length.
func loads(b *testing.B, at, job string) time.Duration {
	c := newBrowser(b)
	defer c.end()
	shown := "document.querySelectorAll('tbody tr').length >= 101"
	if job != "" {
		at += "#/" + job
		shown = "/world running/.test(document.querySelector('.events')?.textContent)"
	}
	began := time.Now()
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
func look(ctx context.Context, at string, read *atomic.Int64) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return
	}
	defer res.Body.Close()
	buf := make([]byte, 1<<16)
	for n := 0; err == nil; read.Add(int64(n)) { // ctx ends it
		n, err = res.Body.Read(buf)
	}
}
