package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// trouble is what happens to a job, and what the user sees of it.
type trouble struct {
	name   string
	script string
	flags  []string
	begins func(p *sandbox)
	ends   func(p *sandbox)
	event  string // that it is
	says   string
}

var troubles = []trouble{{name: "hang", event: "stalled", says: "no step for",
	flags: []string{"--hang-look=2s"},
	script: `
import os, time, elastic
for step in range(10**6):
    elastic.progress(step=step)
    time.sleep(0.05)
    while os.path.exists("stuck"):
        time.sleep(0.05)
`,
	begins: func(p *sandbox) { p.write("stuck") },
	ends:   func(p *sandbox) { p.remove("stuck") },
}, {name: "full disk", event: "checkpoint_refused", says: "was not taken (no-space)",
	flags: []string{"--state-dir=../small", "--checkpoint-dir=saves", "--save-files=weights.raw",
		"--keep=1"},
	script: `
import os, time
for step in range(10**6):
    open(os.environ["ELASTIC_CHECKPOINT_DIR"] + "/weights.raw", "wb").write(os.urandom(10**6))
    time.sleep(2)
`,
	begins: func(p *sandbox) { p.fill(filepath.Join("..", "small", "filler")) },
	ends:   func(p *sandbox) { p.remove(filepath.Join("..", "small", "filler")) },
}}

var known = regexp.MustCompile(`"(step|number)": *\d`)

// The page, `elastic top` and `elastic status` say a hang and a full disk as soon as they are known,
// and no longer when they are over.
func TestTroubleIsSeenEverywhere(t *testing.T) {
	t.Parallel()
	for _, x := range troubles {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			p := newSandbox(t)
			p.daemons(1)
			p.mount("small", "size=8m")
			if err := os.WriteFile(p.path("x.py"), []byte(x.script), 0o600); err != nil {
				t.Fatal(err)
			}
			p.run(append(append([]string{"--np=1", "--node=a", "--job-id=x"}, x.flags...),
				"/usr/bin/python3", "x.py")...)
			s := watch(p)
			s.agree(func(text string) bool { return strings.Contains(text, "running") }, "it runs")
			until(t, "a step or a save is known", func() error {
				if text := p.must("status", "x", "-o", "json"); !known.MatchString(text) {
					return errors.New("not yet")
				}
				return nil
			})
			said := func(text string) bool { return strings.Contains(text, x.says) }
			x.begins(p)
			until(t, "it is known", func() error {
				if len(kinds(p.events("x"), x.event)) == 0 {
					return errors.New("not yet")
				}
				return nil
			})
			s.agree(said, x.says)
			x.ends(p)
			s.agree(func(text string) bool { return !said(text) }, "no longer: "+x.says)
		})
	}
}

// seen is one job as its user sees it.
type seen struct {
	p   *sandbox
	all map[string]func() string
}

func watch(p *sandbox) *seen {
	p.running("x", 1, 1)
	page := p.start(bin+"/elastic", append([]string{"page", "x"}, p.server()...)...)
	at := ""
	until(p.t, "the page is served", func() error {
		if at = strings.TrimSpace(page.stdout()); at == "" {
			return fmt.Errorf("it said: %s", page.stderr())
		}
		return nil
	})
	b := newBrowser(p.t)
	b.do(chromedp.Navigate(at))
	x := newTerminal(p, 120, 40, append([]string{"top", "x"}, p.server()...)...)
	return &seen{p, map[string]func() string{
		"the page": b.headText,
		"elastic top": func() string {
			now, _, _ := strings.Cut(x.screen(), "\nevents") // below it is what was
			return now
		},
		"elastic status": func() string {
			text, err := p.try("status", "x")
			if err != nil {
				return err.Error()
			}
			return text
		}}}
}

// headText returns the text about the whole job: its events below say what was, too.
func (b *browser) headText() string {
	return eval[string](b, `document.querySelector(".jobhead")?.innerText ?? ""`)
}

// agree waits until all show the same. What they show is logged with the time that it took.
func (s *seen) agree(is func(text string) bool, what string) {
	s.p.t.Helper()
	began, took := time.Now(), []string{}
	for name, text := range s.all {
		until(s.p.t, name+" says: "+what, func() error {
			if shown := strings.Join(strings.Fields(text()), " "); shown == "" || !is(shown) {
				return fmt.Errorf("it shows %s", tail(shown))
			}
			return nil
		})
		took = append(took, fmt.Sprintf("%s after %s", name, time.Since(began).Round(time.Millisecond)))
	}
	s.p.t.Logf("%s: %s", what, strings.Join(took, ", "))
}

func (p *sandbox) write(name string) {
	p.t.Helper()
	if err := os.WriteFile(p.path(name), nil, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *sandbox) remove(name string) {
	p.t.Helper()
	if err := os.Remove(p.path(name)); err != nil {
		p.t.Fatal(err)
	}
}

// fill fills the disk of a new file.
func (p *sandbox) fill(name string) {
	p.t.Helper()
	f, err := os.Create(p.path(name))
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 1<<16))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		p.t.Fatal(err)
	}
}
