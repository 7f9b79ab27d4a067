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

// Decode reads the entries below a job's prefix that belong to this package.
func Decode(
	job schema.Job, entries []store.Entry,
) (nodes []Node, left []Left, suspects []Suspicion, err error) {
	registered, gone, doubted := job.Nodes(), job.AllLeft(), job.AllSuspects()
	warming := map[string]Incarnation{}
	for i := range entries {
		e := &entries[i]
		if p := schema.Rest(registered, e.Key); len(p) == 1 {
			n, err := schema.Decode[Node](e)
			if err != nil {
				return nil, nil, nil, err
			}
			if n.Node != p[0] {
				return nil, nil, nil,
					fmt.Errorf("%s: %w: it is of node %s", e.Key, schema.ErrBadRecord, n.Node)
			}
			n.Rev, n.Lease = e.Rev, e.Lease
			nodes = append(nodes, n)
		} else if p := schema.Rest(gone, e.Key); len(p) == 1 {
			l, err := schema.Decode[Left](e)
			if err != nil {
				return nil, nil, nil, err
			}
			l.Node, l.Rev = p[0], e.Rev
			left = append(left, l)
		} else if p := schema.Rest(doubted, e.Key); len(p) == 2 {
			x, err := schema.Decode[Suspicion](e)
			if err != nil {
				return nil, nil, nil, err
			}
			x.Node, x.By, x.Rev, x.Lease = p[0], p[1], e.Rev, e.Lease
			suspects = append(suspects, x)
		} else if p := schema.Rest(job.AllWarming(), e.Key); len(p) == 1 {
			warming[p[0]] = Incarnation(e.Value)
		}
	}
	for i := range nodes {
		nodes[i].Warming = warming[nodes[i].Node] == nodes[i].Incarnation
	}
	return nodes, left, suspects, nil
}
