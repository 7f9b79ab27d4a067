package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/internal/cli"
	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/etcdtest"
	"github.com/elasticd/elastic/internal/local"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/worker"
	"github.com/elasticd/elastic/internal/worker/output"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/etcd"
)

// The test binary is also elastic, and an elastic that shows what `run` would hand to the node.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == node.Guardian {
		os.Exit(worker.Guard())
	}
	main := func(run func(context.Context, node.Options) message.Result) func() {
		return func() {
			etcd.Quiet()
			os.Exit(cli.Main(command.App{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
				Getenv: os.Getenv, Run: run}, os.Args[1:]))
		}
	}
	testscript.Main(m, map[string]func(){"elastic": main(node.Run), "parsed": main(show)})
}

// show prints what was parsed, and takes part in nothing.
func show(_ context.Context, o node.Options) message.Result {
	given := []string{}
	for name, is := range o.Given {
		if is {
			given = append(given, name)
		}
	}
	slices.Sort(given)
	json.NewEncoder(os.Stdout).Encode(struct {
		Job, Node, Host     string
		Min, Max, Slots     int
		Exact, Made, ByUser bool
		Base                scaling.Base
		Rules               any
		Given               []string
		Program             string
		Args                []string
		LogDir, Checkpoints string
		TTL, Wait, Conn     string
		Port, Lo, Hi, Kept  int
		Shown               []int
		Devices, Role       string
		CopyOut             []string
		Lead                string
		Place               int
	}{string(o.Job.Name), o.Node, o.Host, o.Job.Limits.Min, o.Job.Limits.Max, o.Job.Slots, o.Job.Limits.Exact,
		o.Job.Made, o.NodeGiven, o.Job.Base, o.Job.Rules, given, filepath.Base(o.Program), o.Args, o.LogDir,
		o.CheckpointDir, o.LeaseTTL.String(), o.WaitTimeout.String(),
		o.ConnectTimeout.String(), o.Port, o.PortsLo, o.PortsHi, o.LogKeep,
		[]int{int(output.Shown(o.Console, o.Tee, o.Redirects)(0)),
			int(output.Shown(o.Console, o.Tee, o.Redirects)(1))},
		o.Launcher.Devices.String(), o.Launcher.Role, o.Launcher.CopyOut, o.Launcher.Lead.String(), o.Place})
	return message.Result{}
}

// TestScripts runs every file of testdata/script. What a script may call beyond testscript's own:
//
//	etcd [tcp|auth|cluster]  a server; $ELASTIC_SERVER leads to it
//	                         tcp: $AT is its HOST:PORT, $PORT that port
//	                         auth: reader (may only read) and nobody, both with password "secret"
//	                         cluster: one of three, the others are down
//	                         roles JOB: trainer, reader and operator of that job, with password "secret"
//	denied USER KEY          etcd does not let the user read the key, nor what lies below it
//	http                     a server that is no etcd, at $HTTP, port $PORT; no process listens at $CLOSED
//	job NAME NP NODE…        a job, played by a cast that follows the protocol without workers
//	abandoned NAME NP        a job that was made an hour ago, and that no node is in
//	leave NAME NODE          a node of it goes, without a word
//	keys FILE                everything that is in etcd, but what nodes say in their own time of what they hold
//	saved NAME N             waits until checkpoint N of the job is committed
//	waits FILE TEXT          waits until TEXT is in FILE
//	status N COMMAND…        exec, which must end with status N
//	interrupt SIG RE N CMD…  starts a command, sends it SIG when a line of its stderr matches RE; it must
//	                         end with status N
//	begin NAME RE CMD…       starts a command, and goes on when a line of its stderr matches RE
//	end NAME SIG|- N [RE]    sends it SIG; it must end with status N, and what it said on stderr match RE
//	record JOB/KEY VALUE     writes a key of a job, whatever VALUE is
//	secured                  an elasticd with the certificates in certs/; $ELASTIC_SERVER leads to it
//	lose NAME                the server loses the job: it is as if it had never been there
//	elasticd                 has elasticd in PATH; the local server that the script starts ends with it
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			s := &stage{t: t, jobs: map[string]*cast{}, running: map[string]*running{}}
			testscript.Run(t, testscript.Params{Files: []string{file}, Setup: s.setup,
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"etcd": s.etcd, "http": s.http, "job": s.job, "abandoned": s.abandoned, "leave": s.leave,
					"keys": s.keys, "saved": s.saved, "waits": s.waits, "status": s.status,
					"interrupt": s.interrupt, "begin": s.begin, "end": s.end, "elasticd": s.elasticd,
					"lose": s.lose, "secured": s.secured, "record": s.record, "denied": s.denied,
				}})
		})
	}
}

// stage is what one script plays on.
type stage struct {
	t      *testing.T
	server *etcdtest.Server
	client *clientv3.Client
	jobs   map[string]*cast

	running map[string]*running
}

func (s *stage) setup(env *testscript.Env) error {
	for _, v := range []string{"ELASTIC_SERVER", "ELASTIC_JOB_ID", "PADDLE_ELASTIC_SERVER",
		"PET_RDZV_ENDPOINT", "SLURM_JOB_ID", "POD_IP", "POD_NAME"} {
		env.Setenv(v, "")
	}
	env.Setenv("XDG_RUNTIME_DIR", env.WorkDir+"/.run")
	env.Setenv("ELASTIC_STATE_DIR", env.WorkDir+"/.state")
	bin, _, _ := strings.Cut(env.Getenv("PATH"), ":")
	env.Setenv("BIN", bin)
	env.Setenv("GORACE", "atexit_sleep_ms=0")
	return os.Mkdir(env.WorkDir+"/.run", 0o700)
}

func (s *stage) etcd(ts *testscript.TestScript, _ bool, args []string) {
	kind := ""
	if len(args) > 0 {
		kind = args[0]
	}
	switch kind {
	case "cluster":
		c := etcdtest.StartCluster(s.t, 3)
		c[1].Stop()
		c[2].Stop()
		ts.Setenv("ELASTIC_SERVER", c[0].Endpoint())
		return
	case "tcp":
		s.server = etcdtest.Start(s.t, etcdtest.TCP())
		at := strings.TrimPrefix(s.server.Endpoint(), "http://")
		_, port, err := net.SplitHostPort(at)
		ts.Check(err)
		ts.Setenv("AT", at)
		ts.Setenv("PORT", port)
		if n, err := strconv.Atoi(port); err == nil { // the --master-port whose server is at PORT
			ts.Setenv("BESIDE", strconv.Itoa(n+100))
		}
	default:
		s.server = etcdtest.Start(s.t)
	}
	ts.Setenv("ELASTIC_SERVER", s.server.Endpoint())
	s.client = s.server.Client(s.t)
	switch kind {
	case "auth":
		s.lock(ts)
	case "roles":
		s.lockRoles(ts, schema.Job(args[1]))
	}
}

// lock turns on authentication; the test's own client stays root.
func (s *stage) lock(ts *testscript.TestScript) {
	ctx := s.t.Context()
	c := s.client
	do := func(_ any, err error) {
		if err != nil {
			ts.Fatalf("set up users: %v", err)
		}
	}
	for _, u := range []string{"root", "reader", "nobody"} {
		r, err := c.UserAdd(ctx, u, "secret")
		do(r, err)
	}
	r, err := c.RoleAdd(ctx, "read")
	do(r, err)
	p, err := c.RoleGrantPermission(ctx, "read", "/elastic/", "/elastic0",
		clientv3.PermissionType(clientv3.PermRead))
	do(p, err)
	g, err := c.UserGrantRole(ctx, "reader", "read")
	do(g, err)
	g, err = c.UserGrantRole(ctx, "root", "root")
	do(g, err)
	a, err := c.AuthEnable(ctx)
	do(a, err)
	s.client, err = clientv3.New(clientv3.Config{Endpoints: s.server.Endpoints(), Username: "root",
		Password: "secret", DialTimeout: 10 * time.Second})
	do(nil, err)
	ts.Defer(func() { s.client.Close() })
}

func (s *stage) http(ts *testscript.TestScript, _ bool, _ []string) {
	srv := httptest.NewServer(http.NotFoundHandler())
	s.t.Cleanup(srv.Close)
	ts.Setenv("HTTP", srv.Listener.Addr().String())
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	ts.Setenv("PORT", port)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv("CLOSED", l.Addr().String())
	l.Close()
}

func (s *stage) keys(ts *testscript.TestScript, _ bool, args []string) {
	r, err := s.client.Get(s.t.Context(), "", clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend))
	ts.Check(err)
	var b strings.Builder
	for _, kv := range r.Kvs {
		if strings.Contains(string(kv.Key), "/held/") {
			continue
		}
		fmt.Fprintf(&b, "%s %d\n", kv.Key, kv.ModRevision)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(b.String()), 0o600))
}

func (s *stage) waits(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	for {
		if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), args[1]) {
			return
		}
		select {
		case <-s.t.Context().Done():
			ts.Fatalf("never in %s: %s", path, args[1])
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s *stage) saved(ts *testscript.TestScript, _ bool, args []string) {
	key := schema.Job(args[0]).Head()
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	committed := func(value []byte) bool {
		h, err := checkpoint.DecodeHead(&store.Entry{Key: key, Value: value})
		ts.Check(err)
		return int(h.Number) >= want
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	r, err := s.client.Get(ctx, key)
	ts.Check(err)
	if len(r.Kvs) > 0 && committed(r.Kvs[0].Value) {
		return
	}
	for w := range s.client.Watch(ctx, key, clientv3.WithRev(r.Header.Revision+1)) {
		ts.Check(w.Err())
		for _, e := range w.Events {
			if committed(e.Kv.Value) {
				return
			}
		}
	}
}

func (s *stage) job(ts *testscript.TestScript, _ bool, args []string) {
	c := newCast(s.t, s.open(ts), args[0], args[1])
	s.jobs[args[0]] = c
	for _, n := range args[2:] {
		c.join(n)
	}
}

func (s *stage) abandoned(ts *testscript.TestScript, _ bool, args []string) {
	j := newJob(args[0], args[1], time.Now().Add(-time.Hour))
	ts.Check(txn.Requests{Store: s.open(ts), Job: schema.Job(args[0])}.Create(s.t.Context(), j))
	// they are of now
	_, err := s.client.Delete(s.t.Context(), schema.Job(args[0]).Events(), clientv3.WithPrefix())
	ts.Check(err)
	key := schema.Job(args[0]).Wish()
	wish := rendezvous.Wish{NP: j.Limits.Max, Request: "old", By: "run", Time: j.Time}
	_, err = s.client.Put(s.t.Context(), key, string(schema.Encode(wish)))
	ts.Check(err)
}

func (s *stage) leave(ts *testscript.TestScript, _ bool, args []string) {
	s.jobs[args[0]].leave(args[1])
}

func (s *stage) open(ts *testscript.TestScript) *etcd.Store {
	conf := etcd.Config{Endpoints: s.server.Endpoints()}
	if s.client.Username != "" {
		conf.User, conf.Password = "root", "secret"
	}
	st, err := etcd.Open(s.t.Context(), conf)
	ts.Check(err)
	return st
}

func (s *stage) status(ts *testscript.TestScript, neg bool, args []string) {
	check(ts, ts.Exec(args[1], args[2:]...), args[0])
}

func check(ts *testscript.TestScript, err error, want string) {
	got := "0"
	if x, ok := err.(*exec.ExitError); ok {
		got = fmt.Sprint(x.ExitCode())
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("status %s, want %s", got, want)
	}
}

func (s *stage) interrupt(ts *testscript.TestScript, _ bool, args []string) {
	r := s.launch(ts, args[1], args[3:])
	s.signal(ts, r, args[0], args[2])
}

func (s *stage) begin(ts *testscript.TestScript, _ bool, args []string) {
	s.running[args[0]] = s.launch(ts, args[1], args[2:])
}

func (s *stage) end(ts *testscript.TestScript, _ bool, args []string) {
	r := s.running[args[0]]
	s.signal(ts, r, args[1], args[2])
	if len(args) > 3 && !regexp.MustCompile(args[3]).MatchString(r.text.String()) {
		ts.Fatalf("it never said %s", args[3])
	}
}

func (s *stage) lose(ts *testscript.TestScript, _ bool, args []string) {
	_, err := s.client.Delete(s.t.Context(), schema.Job(args[0]).Prefix(), clientv3.WithPrefix())
	ts.Check(err)
}

// running is a command in the background.
type running struct {
	cmd   *exec.Cmd
	ended chan struct{} // its stderr did
	text  strings.Builder
}

// launch returns when a line of stderr matches.
func (s *stage) launch(ts *testscript.TestScript, sign string, argv []string) *running {
	want := regexp.MustCompile(sign)
	r := &running{cmd: exec.CommandContext(s.t.Context(), filepath.Join(ts.Getenv("BIN"), argv[0]),
		argv[1:]...),
		ended: make(chan struct{})}
	r.cmd.Dir = ts.MkAbs(".")
	for _, v := range []string{"PATH", "HOME", "GORACE", "ELASTIC_SERVER", "ELASTIC_STATE_DIR",
		"XDG_RUNTIME_DIR"} {
		r.cmd.Env = append(r.cmd.Env, v+"="+ts.Getenv(v))
	}
	stderr, err := r.cmd.StderrPipe()
	ts.Check(err)
	ts.Check(r.cmd.Start())
	matched := make(chan struct{})
	go func() {
		defer close(r.ended)
		reported := false
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			fmt.Fprintln(&r.text, lines.Text())
			if !reported && want.MatchString(lines.Text()) {
				reported = true
				close(matched)
			}
		}
	}()
	ts.Defer(func() {
		r.cmd.Process.Kill() // ends with an error where it has ended already
		<-r.ended
	})
	select {
	case <-matched:
	case <-r.ended:
		ts.Fatalf("it never said %s:\n%s", sign, &r.text)
	}
	return r
}

func (s *stage) signal(ts *testscript.TestScript, r *running, sig, status string) {
	if sig != "-" {
		ts.Check(r.cmd.Process.Signal(map[string]os.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM,
			"HUP": syscall.SIGHUP}[sig]))
	}
	<-r.ended
	err := r.cmd.Wait()
	ts.Logf("%s", &r.text)
	check(ts, err, status)
}

// elasticd builds it once, into a directory that goes with the test.
func (s *stage) elasticd(ts *testscript.TestScript, _ bool, _ []string) {
	bin := ts.MkAbs("bin")
	build := exec.Command("go", "build", "-o", bin+"/elasticd", "github.com/elasticd/elastic/cmd/elasticd")
	if out, err := build.CombinedOutput(); err != nil {
		ts.Fatalf("build elasticd: %v\n%s", err, out)
	}
	ts.Setenv("PATH", bin+":"+ts.Getenv("PATH"))
	hint := ts.MkAbs(".run/elastic/elasticd.json")
	ts.Defer(func() {
		b, err := os.ReadFile(hint)
		var h local.Hint
		if err == nil && json.Unmarshal(b, &h) == nil && h.PID > 1 {
			if p, err := os.FindProcess(h.PID); err == nil {
				p.Signal(syscall.SIGTERM)
			}
		}
	})
}
