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
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// logsFile names the log directory of a node's last agent, for commands on this machine.
const logsFile = "logs"

// showLogs lets other nodes, and commands on this machine, read what the workers here write.
func (w *workers) showLogs() error {
	w.peers.Server.Handle("GET "+logs.Path, logs.Handler(w.logs.Dir()))
	path := filepath.Join(w.dir, logsFile)
	return disk.Publish(path+".tmp", path, []byte(w.logs.Dir()+"\n"))
}

// LogsOf is the directory where the workers of k wrote last; "" if none is known.
func LogsOf(k disk.Kept) (string, error) {
	b, err := os.ReadFile(filepath.Join(k.Dir, logsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(b)), err
}

// Dial is the way to the listeners of a job's nodes for a command that is no node. Close it.
func Dial(
	secret []byte, job schema.Job, uid schema.UID,
) (to func(membership.Ref) http.RoundTripper, hangUp func(), err error) {
	c, err := peer.Dial(secret, peer.Self{Hello: func() peer.Hello { return peer.Hello{Job: job, UID: uid} }})
	if err != nil {
		return nil, nil, fmt.Errorf("prove to belong to job %s: %w", job, err)
	}
	return c.To, c.Close, nil
}

// Reach connects a process that is not a node of the job to the stores of its nodes. Close it.
func Reach(secret []byte, job schema.Job, uid schema.UID) (transfer.Peers, func(), error) {
	to, hangUp, err := Dial(secret, job, uid)
	if err != nil {
		return nil, nil, err
	}
	return &transfer.HTTP{To: to}, hangUp, nil
}
