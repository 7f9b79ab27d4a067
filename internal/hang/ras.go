package hang

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/elasticd/elastic/internal/diagnosis"
)

// RASVariable has the address at which NCCL's service for health listens in a worker. Without it, all
// processes of a machine would share one port, also those of other jobs. NCCL reads it when it makes its
// first group.
const RASVariable = "NCCL_RAS_ADDR"

const rasAddress = RASVariable + "="

// rasVariable gives a worker an address of its own. No process listens there unless NCCL is used. The
// kernel chooses a free port; if that is taken meanwhile, NCCL goes on without the service.
func rasVariable() []string {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil
	}
	defer l.Close()
	return []string{rasAddress + l.Addr().String()}
}

// mostRAS is the size of the largest answer: some hundred bytes for a rank of each communicator.
const mostRAS = 32 << 20

// AskRAS asks the service of NCCL in a worker with that environment about all ranks. It returns nil if
// no service answers in time and in the known form.
func AskRAS(ctx context.Context, env []string) []diagnosis.NCCL {
	i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, rasAddress) })
	if i < 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(env[i], rasAddress))
	if err != nil {
		return nil
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	answers := bufio.NewReaderSize(io.LimitReader(c, mostRAS), 1<<10)
	for _, x := range []struct{ ask, want string }{
		{"CLIENT PROTOCOL 2", "SERVER PROTOCOL "}, {"TIMEOUT 2", "OK"}, {"SET FORMAT json", "OK"},
	} {
		if _, err := fmt.Fprintln(c, x.ask); err != nil {
			return nil
		}
		line, err := answers.ReadSlice('\n')
		if err != nil || !strings.HasPrefix(string(line), x.want) {
			return nil
		}
	}
	if _, err := fmt.Fprintln(c, "VERBOSE STATUS"); err != nil {
		return nil
	}
	dump, err := io.ReadAll(answers)
	if err != nil {
		return nil
	}
	return diagnosis.ParseRAS(dump)
}
