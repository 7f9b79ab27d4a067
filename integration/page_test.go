package integration

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// watched starts three nodes of a job, and a page of it.
func watched(p *sandbox) (nodes map[string]*proc, at string) {
	nodes = map[string]*proc{}
	for _, name := range []string{"lab1", "lab2", "lab3"} {
		nodes[name] = trained(p, name)
	}
	p.reaches("llm", "three nodes train", func(s status) error {
		if s.State != "running" || s.WorldSize != 3 {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	page := p.start(bin+"/elastic", "page", "llm")
	until(p.t, "the page is served", func() error {
		if at = strings.TrimSpace(page.stdout()); at == "" {
			return fmt.Errorf("it said: %s", page.stderr())
		}
		return nil
	})
	return nodes, at
}

func trained(p *sandbox, name string) *proc {
	return p.run("--node="+name, "--np=2:4", "--job-id=llm", "--last-call=300ms", "--log-dir=log-"+name,
		"train", "--epochs=100000", "--step-sleep=20ms", "--save-every=1s")
}

// The page shows each change of a job without a reload: a kill, a scale, a freeze, a server that is
// started again. What workers wrote is text in it, whatever it looks like.
func TestPage(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	nodes, at := watched(p)
	b := newBrowser(t)
	b.do(chromedp.Navigate(at))
	b.shows("llm", "running", "world size 3", "lab1", "lab2", "lab3")
	eval[bool](b, "window.loadedOnce = true")

	p.kill(nodes["lab2"])
	killed := time.Now()
	b.shows("lab2 was lost")
	t.Logf("the page shows the loss %s after the kill", time.Since(killed).Round(time.Millisecond))
	b.shows("world size 2")
	nodes["lab2"] = trained(p, "lab2")
	b.shows("world size 3")
	p.must("scale", "llm", "--np=2", "-q")
	b.shows("np changed from 4 to 2", "world size 2")
	p.must("scale", "llm", "--np=3", "-q")
	b.shows("world size 3")

	if err := nodes["lab3"].kill(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	b.shows("lab3 was lost (silent)")
	if err := nodes["lab3"].kill(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	b.shows("world size 3")
	hostileWorker(p)
	b.do(chromedp.Navigate(strings.TrimSuffix(at, "llm") + "broken"))
	b.shows("<img src=x onerror=window.hacked=1>", "failed")
	b.picture("page-failure.png", "light")
	if eval[bool](b, "Boolean(window.hacked)") {
		t.Error("what a worker wrote was run by the page")
	}
	b.do(chromedp.Navigate(strings.TrimSuffix(at, "llm")))
	b.shows("2 jobs", "broken", "llm")
	b.picture("page-jobs.png", "light")
	b.do(chromedp.Navigate(at))
	b.shows("timeline", "world size 3")
	if s := eval[float64](b, "document.querySelectorAll('.timeline .bar').length"); s < 6 {
		t.Errorf("%v bars are drawn", s)
	}
	eval[any](b, `document.querySelectorAll(".generation")[1].dispatchEvent(new MouseEvent("click", {bubbles: true}))`)
	b.shows("generation 2", "workers stopped", "events of that minute")
	b.picture("page-change.png", "light")
	b.do(chromedp.KeyEvent("\u001b"))
	b.picture("page-dark.png", "dark")
	b.picture("page.png", "light")

	p.localServer().signal(syscall.SIGKILL)
	until(t, "the server takes requests again", func() error {
		_, err := p.try("scale", "llm", "--np=2", "-q")
		return err
	})
	b.shows("np changed from 3 to 2", "world size 2")
	if strings.Contains(eval[string](b, "document.documentElement.outerHTML"), "onerror") {
		t.Error("text of a job became markup")
	}
}

// hostileWorker runs a job whose worker fails with a message that looks like markup.
func hostileWorker(p *sandbox) {
	script := p.path("fail.sh")
	text := "#!/bin/sh\necho 'ValueError: <img src=x onerror=window.hacked=1>' >&2\nexit 1\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		p.t.Fatal(err)
	}
	x := p.run("--node=evil", "--np=1", "--job-id=broken", "--max-restarts=0", "--log-dir=log-evil", "sh", script)
	until(p.t, "the job fails", func() error {
		if _, ok := x.ended(); !ok {
			return fmt.Errorf("it runs")
		}
		return nil
	})
}
