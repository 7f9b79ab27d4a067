package status_test

import (
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

// A job that is done says how to get its result, if there is one, and how to remove it.
func TestNextOfDone(t *testing.T) {
	t.Parallel()
	for number, want := range map[checkpoint.Number]string{
		0: "elastic rm x removes the job and its files here",
		7: "elastic ckpt get x 7 DIR writes out its last checkpoint; " +
			"elastic rm x removes the job and its files here",
	} {
		s := rendezvous.Snapshot{Job: &rendezvous.Job{Name: "x", Attempt: 1},
			World: &rendezvous.World{Attempt: 1, Generation: 1, Phase: rendezvous.Done,
				Outcome: &rendezvous.Outcome{}},
			Head: checkpoint.Head{Number: number}}
		if st := status.Explain(&s, time.Now()); st.Next == nil || *st.Next != want {
			t.Errorf("checkpoint %d: %v, want %q", number, st.Next, want)
		}
	}
}
