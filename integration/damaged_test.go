package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// damagedNodes starts two nodes that have one checkpoint, and train without saving again.
func damagedNodes(t *testing.T, verifyEvery string) (p *sandbox, node func(name string) *proc, a *proc) {
	t.Helper()
	p = newSandbox(t)
	p.daemons(1)
	const script = `
import os, time
d, g = os.environ["ELASTIC_CHECKPOINT_DIR"], os.environ["ELASTIC_GENERATION"]
if g == "1" and os.environ["RANK"] == "0":
    with open(f"{d}/model.tmp", "wb") as f:
        f.write(os.urandom(9 << 20))
    os.rename(f"{d}/model.tmp", f"{d}/last.ckpt")
time.sleep(1000)
`
	if err := os.WriteFile(p.path("train.py"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	node = func(name string) *proc {
		return p.run("--node="+name, "--np=2", "--job_id=x", "--log-dir=log-"+name,
			"--verify-every="+verifyEvery, "/usr/bin/python3", p.path("train.py"))
	}
	a = node("a")
	node("b")
	p.running("x", 1, 2)
	p.committed("x", 1)
	p.heldBy("x", "a", "b")
	return p, node, a
}

// damage flips a bit of each file in a directory of the store of a node.
func (p *sandbox) damage(node, dir string) {
	p.t.Helper()
	files, err := filepath.Glob(filepath.Join(p.dir, "state", "elastic", "*", "nodes", node, "jobs", "x",
		"store", dir, "*"))
	if err != nil || len(files) == 0 {
		p.t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			p.t.Fatal(err)
		}
		b[len(b)/2] ^= 1
		if err := os.WriteFile(file, b, 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
}

// Files on the disk of a holder are damaged while no node needs them. The damage is found, repaired
// from the other holder, and reported.
func TestDamageIsMended(t *testing.T) {
	t.Parallel()
	p, _, _ := damagedNodes(t, "1s")
	for n, dir := range []string{"chunks", "manifests"} {
		p.damage("b", dir)
		until(t, "damage to "+dir+" is reported", func() error {
			if all := kinds(p.events("x"), "checkpoint_damaged"); len(all) <= n {
				return fmt.Errorf("%d events", len(all))
			}
			return nil
		})
		until(t, "what b has is whole", func() error {
			_, err := p.try("ckpt", "verify", "x")
			return err
		})
	}
	for _, e := range kinds(p.events("x"), "checkpoint_damaged") {
		if !strings.Contains(e.Text, "fetched again from another node") {
			t.Errorf("it says %s", e.Text)
		}
	}
}

// A manifest is damaged on the disk of a holder whose agent is alive. The next generation begins
// with the copy of the other holder.
func TestManifestDamagedOnOneHolder(t *testing.T) {
	t.Parallel()
	p, node, a := damagedNodes(t, "none")
	p.damage("b", "manifests")
	if err := a.kill(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-a.done
	node("a")
	p.running("x", 2, 2)
	p.must("ckpt", "verify", "x")
	if all := kinds(p.events("x"), "checkpoint_bad"); len(all) > 0 {
		t.Errorf("given up: %s", all[0].Text)
	}
}

// All chunks of the only checkpoint are damaged on both holders, and both agents are started again.
// The job does not begin from scratch: it fails, and the message has the checkpoint and a fix.
func TestCheckpointDamagedOnAllHolders(t *testing.T) {
	t.Parallel()
	p, node, a := damagedNodes(t, "none")
	b := p.all[len(p.all)-1]
	p.damage("a", "chunks")
	p.damage("b", "chunks")
	p.kill(a, b)
	<-a.done
	<-b.done
	a, b = node("a"), node("b")
	for _, x := range []*proc{a, b} {
		p.ends(x, 93)
		for _, text := range []string{
			"error: job x has no checkpoint that can be read [E-CKPT-LOST]\n",
			"  why: checkpoint 1 cannot be read on any of its holders, and no node has an older one\n",
			"  fix: bring back a node that has one, with its --state-dir, and run again; " +
				"or from scratch: elastic rm x\n",
		} {
			if !strings.Contains(x.stderr(), text) {
				t.Errorf("%s does not say %q; it says\n%s", x, text, x.stderr())
			}
		}
		if strings.Contains(x.stderr(), "to get its files") || strings.Contains(x.stderr(), `\n`) {
			t.Errorf("it says\n%s", x.stderr())
		}
	}
}

// The disk with the state of the only node is missing at one start. The attempt fails. The newest
// checkpoint stays the newest, so training goes on from it when the disk is back.
func TestTheDiskIsMissingAtOneStart(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	p.daemons(1)
	script := p.script(`
import os, time
d, step = os.environ["ELASTIC_CHECKPOINT_DIR"], int(os.environ.get("ELASTIC_RESUME_STEP") or 0)
while True:
    step += 1
    os.mkdir(f"{d}/.next")
    open(f"{d}/.next/model.raw", "w").write(str(step))
    os.rename(f"{d}/.next", f"{d}/step-{step}")
    time.sleep(0.2)
`)
	node := func() *proc {
		return p.run("--node=a", "--np=1", "--job_id=x", "/usr/bin/python3", script)
	}
	a := node()
	p.running("x", 1, 1)
	p.committed("x", 5)
	p.kill(a)
	<-a.done
	all := kinds(p.events("x"), "checkpoint_committed")
	newest := all[len(all)-1]
	state, away := filepath.Join(p.dir, "state"), filepath.Join(p.dir, "away")
	if err := os.Rename(state, away); err != nil {
		t.Fatal(err)
	}
	p.ends(node(), 93)
	if err := errors.Join(os.RemoveAll(state), os.Rename(away, state)); err != nil {
		t.Fatal(err)
	}
	a = node()
	p.says(a, fmt.Sprintf("from checkpoint %d (step %d)", newest.Number, newest.Step))
}
