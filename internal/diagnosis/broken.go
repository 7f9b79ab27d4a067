package diagnosis

import "strings"

// signs are messages of programs and frameworks after a connection to another worker broke, in
// lower case. Each must be specific: a failure that is taken for a victim is hidden if there is
// another one.
var signs = []string{
	// Python and the C library.
	"connection reset by peer", "connectionreseterror", "connectionabortederror", "connectionrefusederror",
	"brokenpipeerror", "broken pipe", "connection refused", "connection closed by remote",
	"connection timed out", "no route to host", "software caused connection abort",
	// Gloo.
	"connection closed by peer", "gloo connectfullmesh failed", "socket closed",
	"application timeout caused pair closure",
	// The store of torch.
	"the remote server shutdown or crash", "failed to recv, got 0 bytes", "distnetworkerror",
	// NCCL and its watchdog, and those of other vendors.
	"ncclremoteerror", "remote process exited or there was a network error",
	"remote process exiting prematurely", "nccl communicator was aborted",
	"watchdog caught collective operation timeout", "hcclremoteerror",
	// Paddle.
	"peer closed", "tcp connection reset", "failed to receive data from peer",
	// The bundled trainer, and what many programs say.
	"lost connection",
}

// broken reports whether a message only says that a connection broke.
func broken(message string) bool {
	m := strings.ToLower(message)
	for _, s := range signs {
		if strings.Contains(m, s) {
			return true
		}
	}
	return false
}
