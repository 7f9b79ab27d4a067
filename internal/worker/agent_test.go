package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/elasticd/elastic/internal/worker/output"
	"github.com/elasticd/elastic/internal/worker/proc"
)

// agent is another process that runs one group, as an agent does, so that it
// can be killed.
type agent struct {
	cmd      *exec.Cmd
	spec     Spec
	guardian int
	out      *bufio.Reader
}

// agentMain is that process. It says the guardian's pid when the group is up.
func agentMain(args []string) int {
	var s Spec
	if err := json.Unmarshal([]byte(args[0]), &s); err != nil {
		panic(err)
	}
	logs, err := output.Open(output.Options{Dir: args[1]})
	if err != nil {
		panic(err)
	}
	s.Logs = logs
	g, err := Start(context.Background(), s)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	next, err := Prepare(s, len(s.Env)) // whatever becomes of the agent becomes of it as well
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer next.Close()
	fmt.Println(g.guardian.Pid)
	go func() { // the test is over, however it ended
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	<-g.Done()
	return 0
}

func runAgent(t *testing.T, s Spec, extra ...*os.File) *agent {
	t.Helper()
	logDir := s.Logs.Dir()
	s.Logs.Close(context.Background()) // the other process locks it
	s.Logs = nil
	spec, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{spec: s, cmd: exec.Command("/proc/self/exe", "__agent", string(spec), logDir)}
	a.cmd.ExtraFiles = extra
	a.cmd.Stderr = os.Stderr
	if _, err := a.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.cmd.Process.Kill()
		a.cmd.Wait()
		if err := proc.Sweep(deadline(t), s.Mark); err != nil {
			t.Error(err)
		}
	})
	a.out = bufio.NewReader(out)
	line, err := a.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if a.guardian, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		t.Fatal(line)
	}
	return a
}

// log returns the log of a worker.
func (a *agent) log(localRank int) string {
	b, _ := os.ReadFile(filepath.Join(a.spec.Dir, "log", "workerlog."+strconv.Itoa(localRank)))
	return string(b)
}
