package node

import (
	"io"
	"os"
	"regexp"
	"time"

	"github.com/elasticd/elastic/internal/local"
	"github.com/elasticd/elastic/internal/worker/output"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store"
)

// Guardian is the hidden first argument with which the elastic binary is the guardian of workers
// (worker.Guard) and nothing else.
const Guardian = "__guardian"

// Options is `elastic run` as it was typed, parsed and checked.
type Options struct {
	// The job as this node would make it: Name, Limits, Slots, Base, Rules, Made. Given says which
	// of it the user gave, by the names of the flags: "np", "nproc-per-node", "batch-size", "lr",
	// "base-np", "scaling", "replicas", "keep", "load", "max-restarts", "last-call", "grace",
	// "finish-timeout".
	Job   rendezvous.Job
	Given map[string]bool

	Again        bool   // --again: a job that is done is removed, and made anew
	OtherProgram bool   // it may run another program than the nodes of the job that are here
	Node         string // --node, else POD_NAME, else the host name without domain
	NodeGiven    bool   // by --node: no other will do
	Place        int    // one more than the rank that this node was given; 0: any
	Host         string // the address that other nodes dial: 127.0.0.1 with the local server
	// Reaches is the address of this machine that reaches the server now, "" if none does: Host was
	// found so, and may change. nil: it was given.
	Reaches func() string
	Port    int // of the agent's listener; 0: any

	// The worker.
	Program string   // absolute path
	Args    []string // without the program
	// ProgressRegex finds the progress of rank 0's worker in its log; nil: it tells it itself.
	ProgressRegex *regexp.Regexp
	Expand        bool     // placeholders in Args stand for what a worker is given
	Dir           string   // its working directory
	Environ       []string // what its environment is built upon
	PortsLo       int      // --worker-ports; 0, 0: any outside the kernel's ephemeral range
	PortsHi       int

	LogDir        string // as given; not absolute
	LogKeep       int    // rotated files kept of each worker; 0: all
	SplitLogs     bool   // stderr gets a file of its own
	StateDir      string // <state>/<host>, absolute, writable
	CheckpointDir string // --checkpoint-dir, absolute; "": the default below StateDir

	Launcher Launcher // how the workers are started
	Warm     bool     // processes of those to come may wait, with their imports made
	PreHook  PreHook

	Console   output.Choice // --console
	Tee       output.Choice
	Redirects output.Choice

	HangTimeout    time.Duration // 0: hangs are not looked for
	LeaseTTL       time.Duration
	StoreCutLimit  time.Duration
	WaitTimeout    time.Duration // 0: none
	VerifyEvery    time.Duration // 0: checkpoints on disk are not read again
	ConnectTimeout time.Duration

	// The server. Store is open and answered already. Local is the local server's place, to start
	// it again when it is found gone; nil: a server was given.
	Store     store.Store
	Endpoints []string
	Local     *local.Runtime
	// Shared is the place of the server for all nodes that runs on this machine, to start it again;
	// nil: it does not.
	Shared *local.Runtime

	// Progress is called with the newest progress of rank 0's worker, where that is here, and with
	// none when its generation is over. It must not wait. nil: the user is not shown any.
	Progress func(rendezvous.Progress)

	Stdout  io.Writer // the output of workers, byte for byte
	Stderr  io.Writer // lines "elastic: …"
	Signals <-chan os.Signal
}
