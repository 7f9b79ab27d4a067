// Package peer connects the agents of a job. Each agent has one listener, and dials the nodes that
// it watches, suspects or fetches from.
//
// All connections use TLS 1.3. Both ends derive the same key pair from the job's secret and pin it,
// so a node without the secret cannot connect. ALPN selects the protocol: "elastic-peer/1", or
// HTTP/1.1 for checkpoint chunks and logs.
//
// In elastic-peer/1 the dialler sends one request and the listener one reply; each is a length (two
// bytes) and JSON. After a request for beats both send frames of nine bytes: the watcher at each
// tick of its clock, the listener for each frame that it receives. An agent whose loop hangs sends
// nothing.
package peer

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// Hello describes the agent that sends it.
type Hello struct {
	Job         schema.Job             `json:"job"`
	UID         schema.UID             `json:"uid"`
	Node        string                 `json:"node"`
	Incarnation membership.Incarnation `json:"incarnation"`
	Generation  schema.Generation      `json:"generation"` // the newest generation that it knows
	Failed      bool                   `json:"failed,omitempty"`
	Ended       bool                   `json:"ended,omitempty"`
	Stays       bool                   `json:"stays,omitempty"` // its workers can stay

	Stalled bool `json:"-"` // its loop hangs: nothing is sent
}

// Self gives a Server and a Client access to their agent. Many goroutines call its functions
// several times a second, so they must not block.
type Self struct {
	Hello func() Hello
	Holds func(about membership.Ref) bool // reports whether the agent still has that suspicion; nil: none
	// Heard is called if a peer knows a larger generation than Hello: the agent reads the store.
	// May be nil.
	Heard func(schema.Generation)
}

// heard passes the generation of a peer on. The peer can cause only a read of the store.
func (s Self) heard(g schema.Generation) {
	if s.Heard != nil && g > s.Hello().Generation && g <= schema.MaxGeneration {
		s.Heard(g)
	}
}

const (
	streamProto = "elastic-peer/1"
	chunkProto  = "http/1.1"

	maxMessage = 4 << 10
	// for the TCP connection only: the kernel repeats a lost SYN after 1 s, then less often
	joinLimit  = 3 * time.Second
	dialLimit  = 500 * time.Millisecond // for a probe, until the hello
	lineLimit  = 10 * time.Second       // for the dial of a stream, or of a connection for chunks
	reachLimit = time.Second            // for a dial that another node requested
	idleLimit  = 10 * time.Second       // between two beats of a watcher
	userLimit  = 2 * time.Second        // TCP_USER_TIMEOUT of a stream of beats
	flowLimit  = 10 * time.Second       // TCP_USER_TIMEOUT of a connection for chunks
	stallLimit = 30 * time.Second       // for the next bytes of a chunk
	floodLimit = 40                     // beats per second; normal are four
)

// want says why a connection was made.
type want string

const (
	wantHello want = "hello"
	wantHolds want = "holds"
	wantBeats want = "beats"
	wantReach want = "reach"
)

type request struct {
	Want       want              `json:"want"`
	About      membership.Ref    `json:"about,omitzero"`
	Generation schema.Generation `json:"generation"`
}

type reply struct {
	Hello
	Holds bool                  `json:"holds,omitempty"`
	Reach membership.AnswerKind `json:"reach,omitempty"`
}

// answer classifies a reply from the node at to.
func (r reply) answer(me Hello, to membership.Ref) membership.Answer {
	a := membership.Answer{Incarnation: r.Incarnation, Generation: r.Generation, Failed: r.Failed,
		Ended: r.Ended, Stays: r.Stays, Holds: r.Holds, Reach: r.Reach}
	switch {
	case r.Job != me.Job || r.UID != me.UID:
		return membership.Answer{Kind: membership.Stranger}
	case r.Node == to.Node && r.Incarnation == to.Incarnation:
		a.Kind = membership.Same
	case r.Incarnation == me.Incarnation:
		// The address is that of this agent, so the answer says nothing about the other node.
		return membership.Answer{}
	default:
		a.Kind = membership.Other // another incarnation of the node, or another node
	}
	return a
}

// send writes one message.
func send(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxMessage {
		return fmt.Errorf("message of %d bytes", len(b))
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...))
	return err
}

// receive reads one message into v.
func receive(r io.Reader, v any) error {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint16(head[:])
	if n > maxMessage {
		return fmt.Errorf("message of %d bytes", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// beat is a frame of a stream: flags, and the newest generation that the sender knows.
type beat [9]byte

const (
	flagFailed = 1 << iota
	flagEnded
)

func newBeat(h Hello) (b beat) {
	if h.Failed {
		b[0] |= flagFailed
	}
	if h.Ended {
		b[0] |= flagEnded
	}
	binary.BigEndian.PutUint64(b[1:], uint64(h.Generation))
	return b
}

func (b beat) generation() schema.Generation {
	return schema.Generation(binary.BigEndian.Uint64(b[1:]))
}
func (b beat) failed() bool { return b[0]&flagFailed != 0 }
func (b beat) ended() bool  { return b[0]&flagEnded != 0 }

// flood counts the beats of one peer.
type flood struct {
	since time.Time
	n     int
}

// over reports whether the peer sends too many beats.
func (f *flood) over(now time.Time) bool {
	if now.Sub(f.since) >= time.Second {
		f.since, f.n = now, 0
	}
	f.n++
	return f.n > floodLimit
}
