package peer

import (
	"bytes"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"crypto/tls"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

func TestIdentityComesFromTheSecretAlone(t *testing.T) {
	one, err := identify(secret)
	if err != nil {
		t.Fatal(err)
	}
	again, err := identify(bytes.Clone(secret))
	if err != nil {
		t.Fatal(err)
	}
	if !one.key.Equal(again.key) {
		t.Error("two ends with the same secret have different keys")
	}
	other, err := identify([]byte("0123456789abcdef0123456789abcdeg"))
	if err != nil {
		t.Fatal(err)
	}
	if one.key.Equal(other.key) {
		t.Error("two secrets have the same key")
	}
	for _, short := range []string{"", "0123456789abcde"} {
		if _, err := identify([]byte(short)); err == nil {
			t.Errorf("took a secret of %d bytes", len(short))
		}
	}
}

func TestAnswerKinds(t *testing.T) {
	me := Hello{Job: "x", UID: "u1", Node: "a", Incarnation: "a1"}
	to := membership.Ref{Node: "b", Incarnation: "b1"}
	for name, c := range map[string]struct {
		hello Hello
		want  membership.AnswerKind
	}{
		"the one":           {Hello{Job: "x", UID: "u1", Node: "b", Incarnation: "b1"}, membership.Same},
		"its next life":     {Hello{Job: "x", UID: "u1", Node: "b", Incarnation: "b2"}, membership.Other},
		"another node":      {Hello{Job: "x", UID: "u1", Node: "c", Incarnation: "c1"}, membership.Other},
		"another job":       {Hello{Job: "y", UID: "u1", Node: "b", Incarnation: "b1"}, membership.Stranger},
		"a job made again":  {Hello{Job: "x", UID: "u2", Node: "b", Incarnation: "b1"}, membership.Stranger},
		"I am on that port": {me, membership.NoAnswer},
	} {
		if got := (reply{Hello: c.hello}).answer(me, to).Kind; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestErrorsProveNoMoreThanTheyDo(t *testing.T) {
	literal, named := membership.Ref{Address: "10.0.0.1:4"}, membership.Ref{Address: "host.example:4"}
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for name, c := range map[string]struct {
		got, want membership.AnswerKind
	}{
		"refused":              {dialKind(literal, refused), membership.Refused},
		"refused by some host": {dialKind(named, refused), membership.NoAnswer},
		"no route": {dialKind(literal, &net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}),
			membership.NoAnswer},
		"my own table of files": {dialKind(literal, &net.OpError{Op: "dial", Err: syscall.EMFILE}),
			membership.NoAnswer},
		"timeout": {dialKind(literal, &net.OpError{Op: "dial", Err: syscall.ETIMEDOUT}),
			membership.NoAnswer},
		"wrong key": {handshakeKind(ErrStranger), membership.Stranger},
		"no TLS":    {handshakeKind(tls.RecordHeaderError{}), membership.Stranger},
		"alert": {handshakeKind(&net.OpError{Op: "remote error", Err: errors.New("handshake failure")}),
			membership.Stranger},
		"reset": {handshakeKind(&net.OpError{Op: "read", Err: syscall.ECONNRESET}),
			membership.NoAnswer},
		"closed": {handshakeKind(io.EOF), membership.NoAnswer},
		"silence": {handshakeKind(&net.OpError{Op: "read", Err: syscall.ETIMEDOUT}),
			membership.NoAnswer},
		"refused after the hello?": {handshakeKind(&net.OpError{Op: "read", Err: syscall.ECONNREFUSED}),
			membership.NoAnswer},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", name, c.got, c.want)
		}
	}
}

func TestMessagesAndBeats(t *testing.T) {
	var b bytes.Buffer
	in := request{Want: wantHolds, About: membership.Ref{Node: "b", Incarnation: "b1"}, Generation: 7}
	if err := send(&b, in); err != nil {
		t.Fatal(err)
	}
	var out request
	if err := receive(iotest.OneByteReader(&b), &out); err != nil || out != in {
		t.Errorf("%+v, %v", out, err)
	}
	long := append([]byte{0xff, 0xff}, bytes.Repeat([]byte(" "), 0xffff-2)...)
	if err := receive(bytes.NewReader(append(long, "{}"...)), &out); err == nil {
		t.Error("took a message of 64 kB")
	}
	if err := send(io.Discard, make([]int, maxMessage)); err == nil {
		t.Error("sent a message that is not received")
	}
	big := newBeat(Hello{Generation: 1<<64 - 1, Ended: true})
	if big.generation() != 1<<64-1 || !big.ended() || big.failed() {
		t.Errorf("%v", big)
	}
	if b := newBeat(Hello{Failed: true}); !b.failed() || b.ended() || b.generation() != 0 {
		t.Errorf("%v", b)
	}
}

func TestFlood(t *testing.T) {
	var f flood
	now := time.Now()
	for i := range 10 * floodLimit { // at the usual pace for ever
		if f.over(now.Add(time.Duration(i) * 250 * time.Millisecond)) {
			t.Fatal("four a second are a flood")
		}
	}
	f = flood{}
	for i := range floodLimit {
		if f.over(now) {
			t.Fatalf("%d at once are a flood", i+1)
		}
	}
	if !f.over(now) {
		t.Error("no end of it")
	}
}

func TestHeardOnlyLarger(t *testing.T) {
	a := newAgent("a", "a1")
	for _, g := range []schema.Generation{0, 2, 3} {
		a.self().heard(g)
	}
	a.self().heard(4)
	if g := <-a.heard; g != 4 || len(a.heard) != 0 {
		t.Errorf("heard %d first, %d more", g, len(a.heard))
	}
	Self{Hello: a.self().Hello}.heard(9) // no listener: no harm
}

func FuzzReceive(f *testing.F) {
	f.Add([]byte{0, 2, '{', '}'})
	f.Add([]byte{0xff, 0xff, 0})
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var q request
		if receive(bytes.NewReader(b), &q) == nil && len(b) < 2 {
			t.Error("a message out of nothing")
		}
		var r reply
		if receive(bytes.NewReader(b), &r) == nil {
			_ = r.answer(Hello{Job: "x"}, membership.Ref{})
		}
	})
}
