package agent

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
)

// Waiting reports about other nodes are joined into one event. No event overtakes another one of
// its channel.
func TestReportsComeTogether(t *testing.T) {
	events := make(chan message.Event, 16)
	peers := make(chan membership.Signal, 16)
	in := newInbox(Sources{Behind: func() <-chan struct{} { return nil }, Events: events,
		Wake:  make(chan time.Time),
		Peers: func() <-chan membership.Signal { return peers }, Updates: make(chan follow.Update)})
	defer in.Close()
	peers <- membership.Signal{}
	peers <- membership.Signal{}
	events <- message.Probed{}
	events <- message.Readied{}
	events <- message.Suspected{}
	events <- message.Withdrawn{}
	events <- message.Probed{}
	in.Wait()
	got := ""
	for _, e := range in.Take() {
		got += fmt.Sprintf("%T", e)
		if r, ok := e.(message.Reports); ok {
			got += fmt.Sprint(len(r.All))
		}
		got += " "
	}
	if want := "message.Reports3 message.Readied message.Reports3 "; got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

// A node that can keep no checkpoints any more leaves as one that cannot run workers, with the reason.
func TestUnfit(t *testing.T) {
	gone := make(chan error, 1)
	in := newInbox(Sources{Gone: gone, Behind: func() <-chan struct{} { return nil },
		Peers: func() <-chan membership.Signal { return nil }})
	defer in.Close()
	reason := errors.New("removed")
	gone <- reason
	in.Wait()
	want := message.Asked{Leaving: message.Leaving{Reason: membership.Unfit, Status: 125, Err: reason}}
	if got := in.Take(); len(got) != 1 || got[0] != want {
		t.Errorf("%+v; want %+v", got, want)
	}
}
