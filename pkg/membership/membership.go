// Package membership holds this node's lease, and watches which nodes are alive.
//
// A present node has a registration: a key on its own lease. If the lease expires, only the
// registration is lost, and the node registers again as the same incarnation. Package verdict
// decides whether a node is gone.
package membership

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Incarnation is one life of a node's agent: a random id, chosen before its first request. An agent
// has a new one after every start and after every time that its node left a World. It keeps it when
// it registers again.
type Incarnation string

// NewIncarnation chooses a random 128-bit id.
func NewIncarnation() Incarnation {
	var b [16]byte
	rand.Read(b[:])
	return Incarnation(hex.EncodeToString(b[:]))
}

// Short is the form of the id that people see.
func (i Incarnation) Short() string { return string(i[:min(6, len(i))]) }

// Ref identifies a member of a World: the node name alone would not.
type Ref struct {
	Node        string      `json:"node"`
	Incarnation Incarnation `json:"incarnation"`
	Address     string      `json:"address"` // of the agent's listener, host:port
	// Role is the name under which the node's workers are counted (--role); "": default.
	Role string `json:"role,omitempty"`
}

// Same reports whether a and b are the same incarnation of the same node.
func (r Ref) Same(o Ref) bool { return r.Node == o.Node && r.Incarnation == o.Incarnation }

// Node is a registration, immutable while its key exists.
type Node struct {
	Ref
	Attempt int `json:"attempt"` // attempt of the job in which the node joined
	// random id of the state directory: the same id means the same node lock
	Host    string `json:"host"`
	Machine string `json:"machine"` // boot id: copies of a checkpoint must be on different machines
	// MachineID names the machine also after it was booted again, and in other jobs.
	MachineID string `json:"machine_id,omitempty"`
	Hostname  string `json:"hostname,omitempty"`
	// Doubt is why the node is only a spare, as the record of its machine says; "": it is not.
	Doubt   string `json:"doubt,omitempty"`
	Drained bool   `json:"drained,omitempty"` // its machine is drained: no World has the node
	Slots   int    `json:"slots"`             // workers on this node
	Program string `json:"program,omitempty"` // digest of the program and arguments that it runs
	Version string `json:"version,omitempty"` // of its agent, for people
	// one more than the rank that the user gave; 0: any rank
	Place          int               `json:"place,omitempty"`
	LastGeneration schema.Generation `json:"seen"`  // highest generation that the node ever saw
	Since          time.Time         `json:"since"` // for people
	// Warming: the node's workers still start, and do not wait for a World yet.
	Warming bool        `json:"-"`
	Rev     int64       `json:"-"`
	Lease   store.Lease `json:"-"`
}

// Reason says why a node left of its own will.
type Reason string

const (
	Drained     Reason = "drained"
	Interrupted Reason = "interrupted"
	Terminated  Reason = "terminated"
	Finished    Reason = "finished"
	ScaledIn    Reason = "scaled-in"
	Unfit       Reason = "unfit" // it cannot run workers
	Quarantined Reason = "quarantined"
)

// Left is the record in which a node announces that it stopped its workers and left.
type Left struct {
	Node        string      `json:"-"`
	Incarnation Incarnation `json:"incarnation"`
	Reason      Reason      `json:"reason"`
	Time        time.Time   `json:"time"`
	Rev         int64       `json:"-"`
}

// Sign is what made a watcher suspect a node.
type Sign string

const (
	ConnectionClosed Sign = "connection-closed" // and a dial was refused
	Silent           Sign = "silent"
	LeaseExpired     Sign = "lease-expired"
)

// Suspicion is a watcher's record about one incarnation of a node. It counts only while the watcher
// confirms it.
type Suspicion struct {
	Node        string      `json:"-"` // the suspected node
	By          string      `json:"-"` // the watcher
	Incarnation Incarnation `json:"incarnation"`
	Watcher     Incarnation `json:"watcher"`
	Sign        Sign        `json:"sign"`
	SilentMS    int64       `json:"silent_ms"` // since the last answer, by the watcher's clock
	// the node never answered this watcher, so its address may be wrong
	Never bool `json:"never,omitempty"`
	// the node answered in the store, so it is alive, even if its watcher does not reach it
	Answered bool        `json:"answered,omitempty"`
	Rev      int64       `json:"-"`
	Lease    store.Lease `json:"-"` // of the watcher
}

// What is the sign in words.
func (s Suspicion) What() string {
	if s.Never {
		return "never reached"
	}
	return strings.ReplaceAll(string(s.Sign), "-", " ")
}

// Answer is the result of dialling a node.
type Answer struct {
	Kind        AnswerKind
	Incarnation Incarnation       // incarnation of the answering agent, for Same and Other
	Generation  schema.Generation // newest that the answering agent knows
	Failed      bool              // its worker ended with a failure that it could not report
	Ended       bool              // its workers ended
	Stays       bool              // its workers can stay in their processes
	Holds       bool              // the answering node still suspects the node that it was asked about
	Reach       AnswerKind        // result of its dial of the address that it was asked about
}

// AnswerKind sorts answers by what they prove.
type AnswerKind int

const (
	NoAnswer AnswerKind = iota // timed out or unreachable: no proof alone
	Same                       // that incarnation answered
	Other                      // another incarnation of the node answered
	Stranger                   // a process that is not of this job answered
	Refused                    // the host answered, and refused the connection
)

func (k AnswerKind) String() string {
	return [...]string{"no answer", "same", "other", "stranger", "refused"}[k]
}

// Records are the records of a job that belong to this package.
type Records struct {
	Nodes    []Node
	Left     []Left
	Suspects []Suspicion
	Unread   []Unread
}

// Unread is a record that cannot be read: damaged, of another program, or of a newer version.
type Unread struct {
	Key   string
	Nodes []string // the nodes that its key names
	Err   error    // a schema.ErrBadRecord or schema.ErrNewerFormat that names the key
}

// Outside reports whether the key names a node that is in none of the lists.
func (u Unread) Outside(lists ...[]Ref) bool {
	known := slices.Concat(lists...)
	return slices.ContainsFunc(u.Nodes, func(node string) bool {
		return !slices.ContainsFunc(known, func(r Ref) bool { return r.Node == node })
	})
}

// Err returns the error of the first record that cannot be read, or nil.
func (r *Records) Err() error {
	if len(r.Unread) == 0 {
		return nil
	}
	return r.Unread[0].Err
}

// Decode reads the entries below a job's prefix that belong to this package.
func Decode(job schema.Job, entries []store.Entry) (r Records) {
	registered, gone, doubted := job.Nodes(), job.AllLeft(), job.AllSuspects()
	warming := map[string]Incarnation{}
	for i := range entries {
		e := &entries[i]
		var p []string
		var err error
		if p = schema.Rest(registered, e.Key); len(p) == 1 {
			err = r.decodeNode(p[0], e)
		} else if p = schema.Rest(gone, e.Key); len(p) == 1 {
			var l Left
			if l, err = schema.Decode[Left](e); err == nil {
				l.Node, l.Rev = p[0], e.Rev
				r.Left = append(r.Left, l)
			}
		} else if p = schema.Rest(doubted, e.Key); len(p) == 2 {
			var x Suspicion
			if x, err = schema.Decode[Suspicion](e); err == nil {
				x.Node, x.By, x.Rev, x.Lease = p[0], p[1], e.Rev, e.Lease
				r.Suspects = append(r.Suspects, x)
			}
		} else if p = schema.Rest(job.AllWarming(), e.Key); len(p) == 1 {
			warming[p[0]] = Incarnation(e.Value)
		}
		if err != nil {
			r.Unread = append(r.Unread, Unread{e.Key, p, err})
		}
	}
	for i := range r.Nodes {
		r.Nodes[i].Warming = warming[r.Nodes[i].Node] == r.Nodes[i].Incarnation
	}
	return r
}

func (r *Records) decodeNode(name string, e *store.Entry) error {
	n, err := schema.Decode[Node](e)
	switch {
	case err != nil:
		return err
	case n.Node != name:
		return fmt.Errorf("%s: %w: it is of node %s", e.Key, schema.ErrBadRecord, n.Node)
	case n.Attempt < 1 || n.Slots < 1:
		return fmt.Errorf("%s: %w: attempt %d, with %d workers", e.Key, schema.ErrBadRecord, n.Attempt,
			n.Slots)
	}
	n.Rev, n.Lease = e.Rev, e.Lease
	r.Nodes = append(r.Nodes, n)
	return nil
}
