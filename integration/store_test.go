package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// address returns a free address, with a port below the range from which the kernel assigns ports.
func address(t testing.TB) string {
	t.Helper()
	for range 100 {
		at := fmt.Sprintf("127.0.0.1:%d", 15000+rand.N(17000))
		if l, err := net.Listen("tcp", at); err == nil {
			l.Close()
			return at
		}
	}
	t.Fatal("no free port")
	return ""
}

// daemon is a server that is started, killed and started again with the same flags.
type daemon struct {
	p       *sandbox
	client  string
	program string
	args    []string
	x       *proc
}

func (d *daemon) start() {
	d.p.t.Helper()
	d.x = d.p.start(d.program, d.args...)
}

// end kills the server, frozen or not, and waits until it is gone.
func (d *daemon) end() {
	d.p.t.Helper()
	if err := d.x.kill(syscall.SIGKILL); err != nil {
		d.p.t.Fatal(err)
	}
	<-d.x.done
}

func (d *daemon) signal(s syscall.Signal) {
	d.p.t.Helper()
	if err := d.x.kill(s); err != nil {
		d.p.t.Fatal(err)
	}
}

// member is a member of a cluster. It is started with the flags that elasticd and etcd share.
func (p *sandbox) member(program, name, client, peer, cluster string) *daemon {
	return &daemon{p: p, client: client, program: program, args: []string{
		"--name=" + name, "--data-dir=" + filepath.Join(p.dir, "data-"+name),
		"--listen-client-urls=http://" + client, "--advertise-client-urls=http://" + client,
		"--listen-peer-urls=http://" + peer, "--initial-advertise-peer-urls=http://" + peer,
		"--initial-cluster=" + cluster}}
}

// daemons are n members of elasticd, running.
func (p *sandbox) daemons(n int) []*daemon {
	p.t.Helper()
	var peers, clients, cluster []string
	for i := range n {
		peers, clients = append(peers, address(p.t)), append(clients, address(p.t))
		cluster = append(cluster, fmt.Sprintf("m%d=http://%s", i, peers[i]))
	}
	var all []*daemon
	for i := range n {
		d := p.member(filepath.Join(bin, "elasticd"), fmt.Sprintf("m%d", i), clients[i], peers[i],
			strings.Join(cluster, ","))
		d.args = append(d.args, "--http=", "--insecure")
		d.start()
		all = append(all, d)
	}
	for _, d := range all {
		p.says(d.x, "elasticd: ready: clients http://"+d.client)
	}
	p.at = strings.Join(clients, ",")
	return all
}

// undisturbed runs n nodes with a server of that kind, causes a fault, and checks that no worker
// restarted and the generation is the same.
func (p *sandbox) undisturbed(kind string, n int, fault func(agents []*proc)) {
	p.t.Helper()
	var agents []*proc
	var names []string
	for i := range n {
		names = append(names, string(rune('a'+i)))
		agents = append(agents,
			p.run(fmt.Sprint("--np=", n), "--job-id=x", "--node="+names[i], "sh", "-c", sit))
	}
	if st := p.running("x", 1, n); st.Server.Kind != kind || !st.Server.Reachable ||
		len(st.Server.Endpoints) == 0 {
		p.t.Errorf("the server is %+v, want one of kind %s", st.Server, kind)
	}
	var workers []int
	for _, name := range names {
		workers = append(workers, pidIn(p.t, p.path("worker."+name)))
	}
	same := func() error {
		for i, pid := range workers {
			if _, gone := agents[i].ended(); gone || !alive(pid) {
				return fmt.Errorf("the worker or the agent of %s has ended", names[i])
			}
		}
		return nil
	}
	fault(agents)
	p.reaches("x", "as before", func(s status) error {
		for _, name := range names {
			if s.State != "running" || s.Generation != 1 || s.node(name) != "running" {
				return fmt.Errorf("not yet")
			}
		}
		return same()
	})
	// A late effect would be an error, too. Wait longer than a lease and the time to register
	// again.
	endures(p.t, endure(p.t, 5*time.Second, 20*time.Second), "the workers go on", same)
	p.oneStart(n, 1)
	if lost := kinds(p.events("x"), "node_lost"); len(lost) > 0 {
		p.t.Errorf("lost by the server's fault: %v", lost)
	}
	p.must("stop", "x")
	for _, a := range agents {
		p.ends(a, 93)
	}
}

func TestServerFrozenThenRestarted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"elasticd", "etcd"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSandbox(t)
			var d *daemon
			if name == "elasticd" {
				d = p.daemons(1)[0]
			} else {
				etcd, err := exec.LookPath("etcd")
				if err != nil {
					t.Fatal("etcd is not in PATH: install the package etcd-server")
				}
				client, peer := address(t), address(t)
				d = p.member(etcd, "m0", client, peer, "m0=http://"+peer)
				d.start()
				p.at = client
			}
			p.undisturbed(name, 2, func(agents []*proc) {
				// The server is frozen for longer than a lease. When it runs again, it revokes all
				// leases.
				d.signal(syscall.SIGSTOP)
				for _, a := range agents {
					p.says(a, "the server does not answer; workers go on")
				}
				time.Sleep(endure(t, 5*time.Second, 25*time.Second))
				d.signal(syscall.SIGCONT)
				for _, a := range agents {
					p.says(a, "the server answers again")
				}
				p.reaches("x", "both nodes are registered again", func(s status) error {
					if s.State != "running" || s.node("a") != "running" || s.node("b") != "running" {
						return fmt.Errorf("not yet")
					}
					return nil
				})
				// The server is frozen, killed, and started again on its data.
				d.signal(syscall.SIGSTOP)
				time.Sleep(endure(t, 5*time.Second, 25*time.Second))
				d.end()
				d.start()
				for _, a := range agents {
					until(t, "the server answers once more", func() error {
						if n := strings.Count(a.stderr(), "the server answers again"); n != 2 {
							return fmt.Errorf("%s said so %d times", a, n)
						}
						return nil
					})
				}
			})
		})
	}
}

func TestLeaderOfThreePaused(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	all := p.daemons(3)
	p.undisturbed("elasticd", 2, func([]*proc) {
		p.pauseLeader(all, 10*time.Second)
	})
}

// leads returns the index of the member that is the leader.
func (p *sandbox) leads(all []*daemon) (at int) {
	p.t.Helper()
	until(p.t, "a member leads", func() error {
		for i, d := range all {
			c, err := clientv3.New(clientv3.Config{Endpoints: []string{d.client}, Logger: zap.NewNop()})
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Second)
			s, err := c.Status(ctx, d.client)
			cancel()
			c.Close()
			if err == nil && s.Leader == s.Header.MemberId {
				at = i
				return nil
			}
		}
		return fmt.Errorf("none says so of itself")
	})
	return at
}

// The agents keep the local server running: an agent starts it again if it has ended.
func TestLocalServerKilled(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	p.undisturbed("local", 2, func([]*proc) {
		was := p.localServer()
		was.signal(syscall.SIGKILL)
		until(t, "another local server", func() error {
			b, err := os.ReadFile(filepath.Join(p.dir, "run", "elastic", "elasticd.json"))
			if err != nil {
				return err
			}
			if strings.Contains(string(b), fmt.Sprintf(`"pid":%d`, was.pid)) {
				return fmt.Errorf("it is still %s", b)
			}
			return nil
		})
	})
}
