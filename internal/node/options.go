package node

import (
	"io"
	"os"
	"regexp"
	"time"

	"github.com/elasticd/elastic/internal/local"
	"github.com/elasticd/elastic/internal/worker/output"
	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store"
)

// Guardian is the hidden first argument with which the elastic binary is the guardian of workers
// (worker.Guard) and nothing else.
const Guardian = "__guardian"

// Options is `elastic run` as it was typed, parsed and checked.
type Options struct {
	// The job as this node would create it: Name, Limits, Slots, Base, Rules, Made. Given has the
	// names of the flags among these that the user set: "np", "nproc-per-node", "batch-size", "lr",
	// "base-np", "scaling", "replicas", "keep", "load", "max-restarts", "last-call", "grace".
	Job   rendezvous.Job
	Given map[string]bool

	// Again (--again): begin a new job under this name; what this node has of it is moved aside.
	// Resume (--resume): go on from the newest checkpoint that the nodes of this name bring.
	Again, Resume bool
	Borrowed      bool   // the job's id is another launcher's: a job that is done begins anew
	DoneOK        bool   // --done-ok: a job that is done already is a success of this node
	OtherProgram  bool   // this node's program may differ from that of the other nodes
	Node          string // --node, else POD_NAME, else the host name without domain
	NodeGiven     bool   // Node was given with --node: no other name is tried
	Place         int    // the wanted rank plus 1; 0: any rank
	Host          string // the address that other nodes dial: 127.0.0.1 with the local server
	// Reaches returns the address of this machine that reaches the server now, "" if none does.
	// Host was found with it, and may change. nil: the user gave Host.
	Reaches func() string
	Port    int // of the agent's listener; 0: any

	// The worker.
	Program string   // absolute path
	Args    []string // without the program
	// ProgressRegex finds the progress of rank 0's worker in its log; nil: the worker reports it.
	ProgressRegex *regexp.Regexp
	Dir           string   // its working directory
	Environ       []string // the environment of the agent, which the environment of a worker extends
	PortsLo       int      // --worker-ports; 0, 0: any outside the kernel's ephemeral range
	PortsHi       int

	LogDir        string // as given; not absolute
	LogKeep       int    // rotated files kept of each worker; 0: all
	SplitLogs     bool   // stderr gets a file of its own
	StateDir      string // <state>/<host>, absolute, writable
	CheckpointDir string // --checkpoint-dir, absolute; "": the default below StateDir
	// Queue has the notices of the checkpoint directory. It was opened before any connection, so
	// that the connections of a killed agent end at once; nil: each watch opens one.
	Queue *capture.Queue

	Launcher Launcher // how the workers are started
	Warm     bool     // warm workers may be started
	PreHook  PreHook

	Console   output.Choice // --console
	Tee       output.Choice
	Redirects output.Choice

	HangTimeout    time.Duration // 0: a hang does not end a generation
	HangLook       time.Duration // shortest time without a step after which ranks are looked at; 0: never
	LeaseTTL       time.Duration
	WaitTimeout    time.Duration // 0: none
	VerifyEvery    time.Duration // time in which all checkpoints on disk are read again; 0: never
	ConnectTimeout time.Duration

	// The server. Store is open and has answered. Local is the runtime directory of the local
	// server, with which the agent starts it again if it does not answer; nil: the user gave a
	// server.
	Store     store.Store
	Endpoints []string
	Local     *local.Runtime
	// Shared is the runtime directory of a server on this machine that all nodes use, with which
	// the agent starts it again; nil: the server is not on this machine.
	Shared *local.Runtime

	// Progress is called with the newest progress of rank 0's worker if that runs on this node, and
	// with an empty one when its generation is over. It must not block. nil: progress is not shown.
	Progress func(rendezvous.Progress)

	Stdout  io.Writer // the output of workers, byte for byte
	Stderr  io.Writer // lines "elastic: …"
	Signals <-chan os.Signal
}
