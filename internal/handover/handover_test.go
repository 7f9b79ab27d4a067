package handover

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// server is an agent's socket in a directory whose path is longer than an address of a socket can
// be.
func server(t *testing.T) *Server {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("deep", 30), "socket")
	s, err := Listen(dir, &Store{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// worker is the end of a worker.
type worker struct {
	t *testing.T
	net.Conn
	in *bufio.Scanner
}

// dial connects, and says a first line.
func dial(t *testing.T, s *Server, first string) *worker {
	t.Helper()
	w := connect(t, s)
	w.sendLine(first)
	return w
}

// connect connects as a worker does: by way of the directory.
func connect(t *testing.T, s *Server) *worker {
	t.Helper()
	dir, err := os.Open(filepath.Dir(s.Path()))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	c, err := net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), SocketName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &worker{t, c, bufio.NewScanner(c)}
}

func (w *worker) sendLine(line string) {
	if _, err := fmt.Fprintln(w, line); err != nil {
		w.t.Fatal(err)
	}
}

// hears expects a line that contains the words.
func (w *worker) hears(words string) {
	w.t.Helper()
	if !w.in.Scan() {
		w.t.Fatalf("the agent hung up, and did not say %s", words)
	}
	if !strings.Contains(w.in.Text(), words) {
		w.t.Fatalf("the agent said %s, not %s", w.in.Text(), words)
	}
}

func control(g, rank int) string {
	return fmt.Sprintf(`{"version":1,"generation":%d,"local_rank":%d}`, g, rank)
}

// until waits for g to be as ok says.
func until(t *testing.T, g *Group, what string, ok func() bool) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		moved := g.Moved()
		if ok() {
			return
		}
		select {
		case <-moved:
		case <-limit:
			t.Fatal("not within a minute: " + what)
		}
	}
}

// leave is the outcome of Leave.
func leave(g *Group) <-chan error {
	c := make(chan error, 1)
	go func() {
		_, err := g.Leave(context.Background())
		c <- err
	}()
	return c
}

func TestWorldsAreHandedOver(t *testing.T) {
	s := server(t)
	g := s.Expect(3, 2)
	a, b := dial(t, s, control(3, 0)), dial(t, s, control(3, 1))
	a.sendLine(`{"can_stay":true}`)
	if _, err := g.Leave(t.Context()); !errors.Is(err, ErrCannotStay) {
		t.Fatalf("one of two said that it can stay, and both are asked to leave: %v", err)
	}
	b.sendLine(`{"can_stay":true}`)
	until(t, g, "both can stay", g.CanStay)
	for generation := uint64(3); generation < 6; generation++ {
		left := leave(g)
		a.hears(fmt.Sprintf(`"leave":%d`, generation))
		b.hears(fmt.Sprintf(`"leave":%d`, generation))
		a.sendLine(fmt.Sprintf(`{"left":{"generation":%d,"step":7}}`, generation))
		b.sendLine(`{"left":{"generation":2,"step":7}}`) // of another generation: it says nothing
		if err := g.Hand(generation+1, make([]map[string]string, 2)); !errors.Is(err, ErrNotLeft) {
			t.Fatalf("a worker that has not left is handed a World: %v", err)
		}
		b.sendLine(fmt.Sprintf(`{"left":{"generation":%d,"step":7}}`, generation))
		if err := <-left; err != nil {
			t.Fatal(err)
		}
		if err := g.Hand(generation+1, []map[string]string{{"RANK": "5"}, {"RANK": "6"}}); err != nil {
			t.Fatal(err)
		}
		a.hears(`"RANK":"5"`)
		b.hears(`"RANK":"6"`)
	}
	left := leave(g)
	b.Close()
	if err := <-left; !errors.Is(err, ErrCannotStay) {
		t.Fatalf("a worker that hung up is waited for: %v", err)
	}
}

// Workers that begin in no generation say by themselves that they wait.
func TestWorkersWaitForTheirFirstWorld(t *testing.T) {
	s := server(t)
	g := s.Expect(3, 2)
	waits := make(chan error, 1)
	go func() { waits <- g.Await(t.Context()) }()
	a := dial(t, s, control(3, 0))
	a.sendLine(`{"can_stay":true}`)
	a.sendLine(`{"left":{"generation":3,"step":null}}`)
	until(t, g, "one waits", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.workers[0].left != nil
	})
	select {
	case err := <-waits:
		t.Fatalf("one of two waits, and both do: %v", err)
	default:
	}
	b := dial(t, s, control(3, 1))
	b.sendLine(`{"can_stay":true}`)
	b.sendLine(`{"left":{"generation":3,"step":null}}`)
	if err := <-waits; err != nil {
		t.Fatal(err)
	}
	if err := g.Hand(7, []map[string]string{{"RANK": "2"}, {"RANK": "3"}}); err != nil {
		t.Fatal(err)
	}
	a.hears(`"RANK":"2"`)
	b.hears(`"RANK":"3"`)
	never := s.Expect(7, 1)
	never.Close()
	if err := never.Await(t.Context()); !errors.Is(err, ErrCannotStay) {
		t.Fatalf("workers that have ended are waited for: %v", err)
	}
}

// A state counts only if each worker of the node has one.
func TestAWorkerWithoutAState(t *testing.T) {
	s := server(t)
	g := s.Expect(1, 2)
	a, b := dial(t, s, control(1, 0)), dial(t, s, control(1, 1))
	for _, w := range []*worker{a, b} {
		w.sendLine(`{"can_stay":true}`)
	}
	until(t, g, "both can stay", g.CanStay)
	a.sendLine(`{"left":{"generation":1,"step":7}}`)
	b.sendLine(`{"left":{"generation":1}}`)
	if held, err := g.Leave(t.Context()); held != nil || err != nil {
		t.Fatalf("held: %v, %v", held, err)
	}
}

// What a node holds is the least that one of its workers does.
func TestTheLeastStateOfANode(t *testing.T) {
	for _, steps := range [][2]int{{7, 8}, {8, 7}} {
		s := server(t)
		g := s.Expect(1, 2)
		for i, step := range steps {
			w := dial(t, s, control(1, i))
			w.sendLine(`{"can_stay":true}`)
			w.sendLine(fmt.Sprintf(`{"left":{"generation":1,"step":%d}}`, step))
		}
		until(t, g, "both can stay", g.CanStay)
		if held, err := g.Leave(t.Context()); err != nil || held == nil || *held != 7 {
			t.Errorf("of %v: held %v, %v", steps, held, err)
		}
	}
}

func TestConnectionsThatAreRefused(t *testing.T) {
	s := server(t)
	dial(t, s, control(3, 0)).hears("no worker is expected")
	g := s.Expect(3, 1)
	first := dial(t, s, control(3, 0))
	first.sendLine(`{"can_stay":true}`)
	until(t, g, "it can stay", g.CanStay)
	for line, answer := range map[string]string{
		`{"version":2,"generation":3,"local_rank":0}`: "version 2",
		control(2, 0):  "generation 2",
		control(3, 1):  "no local rank 1",
		control(3, -1): "no local rank -1",
		control(3, 0):  "connected already",
		`{"version":1,"store":"x"}` + "\n" + `{"op":}`: "",
		`no json`: "",
	} {
		w := dial(t, s, line)
		if answer != "" {
			w.hears(answer)
		}
		if w.in.Scan() {
			t.Errorf("%s: it says %s as well", line, w.in.Text())
		}
	}
	if !g.CanStay() {
		t.Error("the worker that is connected is disturbed by others")
	}
	s.Expect(4, 1)
	if first.in.Scan() || g.CanStay() {
		t.Error("a worker of an earlier group is heard")
	}
}

// ask is one request to the store.
func ask(w *worker, r Request) Reply {
	w.t.Helper()
	line, err := json.Marshal(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.sendLine(string(line))
	if !w.in.Scan() {
		w.t.Fatal("the store hung up")
	}
	var reply Reply
	if err := json.Unmarshal(w.in.Bytes(), &reply); err != nil {
		w.t.Fatal(err)
	}
	return reply
}

func TestStore(t *testing.T) {
	s := server(t)
	s.Expect(3, 1)
	w := dial(t, s, `{"version":1,"store":""}`)
	bytes := func(s ...string) (b [][]byte) {
		for _, x := range s {
			b = append(b, []byte(x))
		}
		return b
	}
	for _, x := range []struct {
		r    Request
		want string
	}{
		{Request{Op: "check", Keys: []string{"a"}}, `[] false `},
		{Request{Op: "set", Keys: []string{"a", "b"}, Values: bytes("1", "x")}, `[] true `},
		{Request{Op: "get", Keys: []string{"b", "a"}}, `[x 1] true `},
		{Request{Op: "get", Keys: []string{"a", "c"}, WaitMS: 1}, `[] false `},
		{Request{Op: "check", Keys: []string{"a", "b"}}, `[] true `},
		{Request{Op: "add", Keys: []string{"n"}, Delta: 2}, `[2] true `},
		{Request{Op: "add", Keys: []string{"n"}, Delta: -3}, `[-1] true `},
		{Request{Op: "add", Keys: []string{"b"}, Delta: 1}, `[] false add to b: its value is no number`},
		{Request{Op: "compare", Keys: []string{"new"}, Values: bytes("", "v")}, `[v] true `},
		{Request{Op: "compare", Keys: []string{"new"}, Values: bytes("other", "w")}, `[v] false `},
		{Request{Op: "compare", Keys: []string{"new"}, Values: bytes("v", "w")}, `[w] true `},
		{Request{Op: "compare", Keys: []string{"none"}, Values: bytes("v", "w")}, `[v] false `},
		{Request{Op: "delete", Keys: []string{"b"}}, `[] true `},
		{Request{Op: "delete", Keys: []string{"b"}}, `[] false `},
		{Request{Op: "get"}, `[] false a request without a key`},
		{Request{Op: "set", Keys: []string{"a"}}, `[] false no such request: set`},
		{Request{Generation: 2, Op: "check", Keys: []string{"a"}}, `[] false a newer generation is at hand`},
	} {
		if x.r.Generation == 0 {
			x.r.Generation = 3
		}
		reply := ask(w, x.r)
		if got := fmt.Sprintf("%s %v %s", reply.Values, reply.Found, reply.Error); got != x.want {
			t.Errorf("%+v: %s, want %s", x.r, got, x.want)
		}
	}
}

// A get waits until all its keys are there, and a newer generation ends the wait.
func TestGetWaits(t *testing.T) {
	var s Store
	get := func(g uint64) <-chan error {
		c := make(chan error, 1)
		go func() {
			r, err := s.Do(context.Background(), Request{Generation: g, Op: "get", Keys: []string{"a", "b"},
				WaitMS: 60_000})
			if err == nil && (!r.Found || len(r.Values) != 2) {
				err = fmt.Errorf("it has %+v", r)
			}
			c <- err
		}()
		return c
	}
	first := get(1)
	for _, k := range []string{"a", "b"} {
		if _, err := s.Do(t.Context(), Request{Generation: 1, Op: "set", Keys: []string{k},
			Values: [][]byte{nil}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-first; err != nil {
		t.Error(err)
	}
	if _, err := s.Do(t.Context(), Request{Generation: 2, Op: "set", Keys: []string{"a"},
		Values: [][]byte{nil}}); err != nil {
		t.Fatal(err)
	}
	second := get(2)
	if _, err := s.Do(t.Context(), Request{Generation: 3, Op: "check", Keys: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	if err := <-second; !errors.Is(err, ErrOldGeneration) {
		t.Errorf("the wait of an older generation ends with %v", err)
	}
}

// To leave a generation ends what the workers wait for in its store.
func TestLeaveEndsWaits(t *testing.T) {
	s := server(t)
	g := s.Expect(1, 1)
	w := dial(t, s, control(1, 0))
	w.sendLine(`{"can_stay":true}`)
	until(t, g, "it can stay", g.CanStay)
	waits := dial(t, s, `{"version":1,"store":""}`)
	waits.sendLine(`{"generation":1,"op":"get","keys":["never"],"wait_ms":3600000}`)
	left := leave(g)
	w.hears("leave")
	w.sendLine(`{"left":{"generation":1,"step":0}}`)
	if err := <-left; err != nil {
		t.Fatal(err)
	}
	waits.hears("error")
}

// The directory is private, whatever it was before.
func TestSocketIsPrivate(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a socket that an agent left behind is replaced
		s, err := Listen(dir, &Store{})
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("its mode is %v, %v", info.Mode(), err)
		}
		s.listener.Close()
	}
}

// What one generation keeps and what one request gets are bounded, whatever the length of the keys.
func TestStoreIsBounded(t *testing.T) {
	var s Store
	do := func(r Request) Reply {
		t.Helper()
		r.Generation, r.WaitMS = 1, time.Hour.Milliseconds()
		reply, err := s.Do(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	value := make([]byte, 1<<20)
	do(Request{Op: "set", Keys: []string{"v"}, Values: [][]byte{value}})
	if r := do(Request{Op: "get", Keys: []string{"v", "v"}}); r.Error != "" || len(r.Values) != 2 {
		t.Errorf("two values of 1 MiB: %q", r.Error)
	}
	r := do(Request{Op: "get", Keys: slices.Repeat([]string{"v"}, 1000)})
	if !strings.Contains(r.Error, "more than") {
		t.Errorf("one value, a thousand times: %q, %d values", r.Error, len(r.Values))
	}
	key := strings.Repeat("k", 1<<20)
	for i := range 2 * mostBytes >> 20 {
		do(Request{Op: "add", Keys: []string{fmt.Sprint(key, i)}})
	}
	if s.bytes > mostBytes || len(s.values) > mostBytes>>20 {
		t.Errorf("%d keys of 1 MiB are kept", len(s.values))
	}
	for _, r := range []Request{{Op: "add", Keys: []string{key}},
		{Op: "set", Keys: []string{key}, Values: [][]byte{nil}},
		{Op: "compare", Keys: []string{key}, Values: [][]byte{nil, nil}}} {
		if got := do(r); !strings.Contains(got.Error, "full") {
			t.Errorf("%s in a store that is full: %+v", r.Op, got)
		}
	}
	for k := range s.values {
		do(Request{Op: "delete", Keys: []string{k}})
	}
	if s.bytes != 0 {
		t.Errorf("the store is empty and counts %d bytes", s.bytes)
	}
}

// A worker that opens connections and closes none takes a bounded number of descriptors of its
// agent, and gives them back with its end.
func TestConnectionsAreBounded(t *testing.T) {
	s := server(t)
	s.Expect(1, 1)
	var all []*worker
	for range mostConns {
		w := connect(t, s)
		if !served(w) {
			t.Fatalf("connection %d is not served", len(all))
		}
		all = append(all, w)
	}
	if served(connect(t, s)) {
		t.Error("one more is served")
	}
	all[0].Close()
	for limit := time.Now().Add(time.Minute); !served(connect(t, s)); { // its end is noticed a moment later
		if time.Now().After(limit) {
			t.Fatal("one has hung up, and no other is served")
		}
	}
}

// served reports whether a connection gets an answer of the store.
func served(w *worker) bool {
	fmt.Fprintln(w, `{"version":1,"store":""}`) // it may be closed by now
	fmt.Fprintln(w, `{"generation":1,"op":"check","keys":["a"]}`)
	return w.in.Scan()
}

// What workers have got of the state of another rank is theirs together, until each has all of it.
func TestWhatWorkersHaveReceived(t *testing.T) {
	s := server(t)
	g := s.Expect(1, 2)
	a, b := dial(t, s, control(1, 0)), dial(t, s, control(1, 1))
	is := func(want Received) func() bool { return func() bool { return g.Received() == want } }
	a.sendLine(`{"received":{"done":10,"total":100}}`)
	until(t, g, "one receives", is(Received{10, 100}))
	b.sendLine(`{"received":{"done":20,"total":100}}`)
	until(t, g, "both receive", is(Received{30, 200}))
	a.sendLine(`{"received":{"done":100,"total":100}}`)
	until(t, g, "one has all", is(Received{20, 100}))
	b.sendLine(`{"received":{"done":-5,"total":100}}`)
	until(t, g, "nonsense counts for nothing", is(Received{}))
	b.sendLine(`{"received":{"done":40,"total":100}}`)
	until(t, g, "one receives again", is(Received{40, 100}))
	b.Close()
	until(t, g, "one hung up", is(Received{}))
}

// A left message of an older generation does not count for the current one.
func TestAnAnswerOfAnOlderGeneration(t *testing.T) {
	s := server(t)
	g := s.Expect(3, 1)
	w := dial(t, s, control(3, 0))
	w.sendLine(`{"can_stay":true}`)
	w.sendLine(`{"left":{"generation":2,"step":7}}`)
	w.sendLine(`{"received":{"done":1,"total":2}}`) // what was said before is heard when this is
	until(t, g, "its words are heard", func() bool { return g.Received().Done == 1 })
	if err := g.Hand(4, make([]map[string]string, 1)); !errors.Is(err, ErrNotLeft) {
		t.Errorf("a worker that has not left is handed a World: %v", err)
	}
}
