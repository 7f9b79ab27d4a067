package handover

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// brief is a Store in which nothing is waited for.
type brief struct{ *Store }

func (b brief) Do(ctx context.Context, r Request) (Reply, error) {
	r.WaitMS = 0
	return b.Store.Do(ctx, r)
}

// pipe is a connection to s, and what ends when s is through with it.
func pipe(s *Server) (c net.Conn, through chan struct{}) {
	c, theirs := net.Pipe()
	through = make(chan struct{})
	go func() {
		defer close(through)
		s.serve(theirs)
		theirs.Close()
	}()
	return c, through
}

// FuzzSocket says any bytes on the socket of an agent. A worker that comes after them is heard.
func FuzzSocket(f *testing.F) {
	f.Add([]byte(control(3, 0) + "\n" +
		`{"can_stay":true}` + "\n" +
		`{"left":{"generation":3,"step":7}}` + "\n"))
	f.Add([]byte(control(2, -1) + "\n"))
	f.Add([]byte(`{"version":1,"store":""}` + "\n" +
		`{"generation":3,"op":"set","keys":["a"],"values":["MQ=="]}` + "\n" +
		`{"generation":3,"op":"add","keys":["a"],"delta":2}` + "\n" +
		`{"generation":3,"op":"get","keys":["a","a"],"wait_ms":9223372036854775807}` + "\n"))
	f.Add([]byte(`{"version":1,"store":"","local_rank":0}` + "\n" +
		`{"generation":18446744073709551615}` + "\n"))
	f.Fuzz(func(t *testing.T, bytes []byte) {
		s := &Server{storage: brief{&Store{}}, open: map[net.Conn]bool{}}
		g := s.Expect(3, 1)
		c, through := pipe(s)
		go io.Copy(io.Discard, c) // what it answers
		c.Write(bytes)            // it may hang up before the end
		c.Close()
		<-through

		c, through = pipe(s)
		fmt.Fprintln(c, control(3, 0))
		fmt.Fprintln(c, `{"can_stay":true}`)
		until(t, g, "a worker that comes next is heard", g.CanStay)
		c.Close()
		<-through
	})
}

// FuzzStore carries out any requests. The store knows what it holds, and no reply is larger than it
// may be.
func FuzzStore(f *testing.F) {
	f.Add(`{"op":"set","keys":["a","b"],"values":["MQ==",""]}
{"op":"add","keys":["a"],"delta":-9223372036854775808}
{"op":"compare","keys":["a"],"values":["","MQ=="]}
{"op":"get","keys":["a","b","a"]}
{"op":"delete","keys":["a"]}
{"op":"check","keys":[]}
{"generation":18446744073709551615,"op":"get","keys":["a"]}`)
	f.Fuzz(func(t *testing.T, requests string) {
		var s Store
		in := bufio.NewScanner(strings.NewReader(requests))
		for in.Scan() {
			var r Request
			if json.Unmarshal(in.Bytes(), &r) != nil {
				continue
			}
			reply, err := brief{&s}.Do(t.Context(), r)
			size := 0
			for _, v := range reply.Values {
				size += len(v)
			}
			if err == nil && reply.Error == "" && size > mostReply {
				t.Errorf("%s: a reply of %d bytes", in.Text(), size)
			}
		}
		held := 0
		for k, v := range s.values {
			held += len(k) + len(v)
		}
		if held != s.bytes || held > mostBytes {
			t.Errorf("it holds %d bytes and counts %d", held, s.bytes)
		}
	})
}
