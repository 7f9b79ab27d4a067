package node

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/elasticd/elastic/internal/logs"
	"github.com/elasticd/elastic/internal/node/disk"
	"github.com/elasticd/elastic/internal/peer"
	"github.com/elasticd/elastic/internal/regular"
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// logsFile names the log directory of a node's last agent, for commands on this machine.
const logsFile = "logs"

// showLogs lets other nodes, and commands on this machine, read the logs of the workers here.
func (w *workers) showLogs() error {
	w.peers.Server.Handle("GET "+logs.Path, logs.Handler(w.logs.Dir()))
	return regular.Replace(filepath.Join(w.dir, logsFile), []byte(w.logs.Dir()+"\n"))
}

// LogsOf returns the directory to which the workers of k wrote last; "" if unknown.
func LogsOf(k disk.Kept) (string, error) {
	b, err := os.ReadFile(filepath.Join(k.Dir, logsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(b)), err
}

// Dial connects a command to the listeners of a job's nodes. The caller must close it.
func Dial(
	secret []byte, job schema.Job, uid schema.UID,
) (to func(membership.Ref) http.RoundTripper, hangUp func(), err error) {
	c, err := peer.Dial(secret, peer.Self{Hello: func() peer.Hello { return peer.Hello{Job: job, UID: uid} }})
	if err != nil {
		return nil, nil, fmt.Errorf("prove to belong to job %s: %w", job, err)
	}
	return c.To, c.Close, nil
}

// Reach connects a command to the chunk stores of a job's nodes. The caller must close it.
func Reach(secret []byte, job schema.Job, uid schema.UID) (transfer.Peers, func(), error) {
	to, hangUp, err := Dial(secret, job, uid)
	if err != nil {
		return nil, nil, err
	}
	return &transfer.HTTP{To: to}, hangUp, nil
}
