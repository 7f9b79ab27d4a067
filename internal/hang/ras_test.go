package hang

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/diagnosis"
	"github.com/elasticd/elastic/pkg/membership"
)

// serveRAS answers one client as the service of NCCL does. It returns the environment of the worker in
// which it runs.
func serveRAS(t *testing.T, serve func(c net.Conn)) []string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return // the test is over
		}
		defer c.Close()
		serve(c)
	}()
	return []string{"RANK=0", rasAddress + l.Addr().String()}
}

// nccl answers the commands of the protocol, the last one with dump, and hangs up.
func nccl(dump io.Reader) func(net.Conn) {
	return func(c net.Conn) {
		lines := bufio.NewScanner(c)
		for lines.Scan() {
			switch line := strings.ToLower(lines.Text()); {
			case strings.HasPrefix(line, "client protocol "):
				fmt.Fprintln(c, "SERVER PROTOCOL 2")
			case line == "timeout 2", line == "set format json":
				fmt.Fprintln(c, "OK")
			case line == "verbose status":
				_, _ = io.Copy(c, dump)
				return
			default:
				fmt.Fprintf(c, "ERROR: Unknown command: %s\n", line)
			}
		}
	}
}

func TestAskRAS(t *testing.T) {
	t.Parallel()
	dump, err := os.ReadFile("../diagnosis/testdata/ras-lagging.json")
	if err != nil {
		t.Fatal(err)
	}
	ranks := AskRAS(t.Context(), serveRAS(t, nccl(strings.NewReader(string(dump)))))
	if len(ranks) != 4 || ranks[2].Began != 1842 || ranks[1].Began != 1843 {
		t.Errorf("%+v", ranks)
	}
}

// endless is an answer without an end.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return copy(b, strings.Repeat(" ", len(b))), nil }

// An answer that is none of NCCL's is no answer, and holds nothing up.
func TestRASThatLies(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(net.Conn){
		"silent":   func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		"hangs up": func(net.Conn) {},
		"another": func(c net.Conn) {
			fmt.Fprint(c, "SSH-2.0-OpenSSH_9.2\r\n")
			_, _ = io.Copy(io.Discard, c)
		},
		"no line":       func(c net.Conn) { _, _ = io.Copy(c, endless{}) },
		"no end":        nccl(endless{}),
		"no JSON":       nccl(strings.NewReader("Job summary\n")),
		"older, a text": func(c net.Conn) { fmt.Fprint(c, "SERVER PROTOCOL 2\nOK\nERROR: Invalid format json\n") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if ranks := AskRAS(ctx, serveRAS(t, serve)); ranks != nil {
				t.Errorf("%+v", ranks)
			}
		})
	}
	if AskRAS(t.Context(), []string{"RANK=0"}) != nil || AskRAS(t.Context(), []string{rasAddress + "x"}) != nil {
		t.Error("an answer from nowhere")
	}
}

// Each worker has an address of its own; the user's is kept.
func TestRASAddress(t *testing.T) {
	t.Parallel()
	of := func(env []string) string {
		i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, rasAddress) })
		return env[i]
	}
	one, other := of(Tell(nil, "/run", "/watch")), of(Tell(nil, "/run", "/watch"))
	if one == other || !strings.HasPrefix(one, rasAddress+"127.0.0.1:") {
		t.Errorf("%s, %s", one, other)
	}
	const users = rasAddress + "localhost:28028"
	if kept := of(Tell([]string{users}, "/run", "/watch")); kept != users {
		t.Error(kept)
	}
}

// The verdict has what NCCL says of the ranks of this world, and leaves out that of another number.
func TestVerdictByNCCL(t *testing.T) {
	t.Parallel()
	for size, known := range map[int]bool{2: true, 3: false} {
		ranks := make([]diagnosis.NCCL, size)
		for i := range ranks {
			ranks[i] = diagnosis.NCCL{Began: 8, Calls: "8 AllReduce"}
		}
		ranks[1].Began = 7
		w := &Watch{World: World{Slots: 2, Members: []membership.Ref{{Node: "a"}}}}
		v, _ := w.judge([][]Evidence{{{Rank: 0, State: "S", NCCL: ranks}, {Rank: 1, State: "S"}}}, nil)
		if v.Known != known || known && v.Rank != 1 {
			t.Errorf("%d ranks: %+v", size, v)
		}
	}
}
