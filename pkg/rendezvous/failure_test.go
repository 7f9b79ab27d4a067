package rendezvous_test

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/etcdtest"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/etcd"
	"github.com/elasticd/elastic/pkg/store/memory"
)

func victim(rank int) rendezvous.Failure {
	return rendezvous.Failure{Rank: rank, Node: "a", Code: 1, Victim: true,
		Message: "Connection closed by peer"}
}

// A real failure is the cause, in whatever order it and its victims are reported.
func TestOneCauseInAnyOrder(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		all := []rendezvous.Failure{{Rank: 3, Node: "b", Code: 3, Message: "ValueError: bad batch"}}
		for rank := range 8 {
			if rank != 3 {
				all = append(all, victim(rank))
			}
		}
		rng.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
		record := all[0]
		for _, f := range append(all[1:], all...) { // what is reported twice changes nothing
			record, _ = record.With(f)
		}
		if record.Rank != 3 || record.Code != 3 || record.Victim || len(record.Others) != 7 {
			t.Fatalf("%+v", record)
		}
		if _, changed := record.With(all[0]); changed {
			t.Fatalf("%+v says nothing new", all[0])
		}
	}
}

func TestTheFirstOfEqualFailuresIsTheCause(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]rendezvous.Failure{"victims": victim(1),
		"causes": {Rank: 1, Code: 3}} {
		second := first
		second.Rank = 2
		if got, changed := first.With(second); got.Rank != 1 || !changed || len(got.Others) != 1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A rank whose connection broke becomes the cause once it is found to be behind.
func TestAVictimMayTurnOutToBeTheCause(t *testing.T) {
	t.Parallel()
	first := rendezvous.Failure{Rank: 1, Victim: true}
	got, changed := first.With(rendezvous.Failure{Rank: 1, Hang: true, Message: "it is behind"})
	if !changed || got.Victim || got.Message != "it is behind" || len(got.Others) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestFailureRecordIsBounded(t *testing.T) {
	t.Parallel()
	record := victim(0)
	for rank := range 1000 {
		record, _ = record.With(victim(rank))
	}
	if len(schema.Encode(record)) > 4<<10 {
		t.Errorf("%d bytes, %d others", len(schema.Encode(record)), len(record.Others))
	}
	if _, changed := record.With(victim(5000)); changed {
		t.Error("a full record is written again")
	}
}

func TestFailureLines(t *testing.T) {
	t.Parallel()
	f := rendezvous.Failure{Rank: 3, Node: "b", Code: 1,
		Message: "torch.OutOfMemoryError: CUDA out of memory.",
		Detail: "Traceback (most recent call last):\n  File \"t.py\", line 3\ntorch.OutOfMemoryError: " +
			"CUDA out of memory.",
		Others: []rendezvous.CollateralEnd{{Rank: 0, Code: 1, Victim: true},
			{Rank: 2, Code: 137, Signal: "SIGKILL"}}}
	want := `Traceback (most recent call last):
  File "t.py", line 3
torch.OutOfMemoryError: CUDA out of memory.
because of it: rank 0 (exit code 1, connection lost), rank 2 (ended by SIGKILL); ` +
		`other ranks were ended by elastic`
	if got := strings.Join(f.Lines(), "\n"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got, want := f.String(),
		"rank 3 on b ended with exit code 1: torch.OutOfMemoryError: CUDA out of memory."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	oom := rendezvous.Failure{Rank: 3, Node: "b", Code: 137, Signal: "SIGKILL",
		Message: "killed by the kernel: out of memory: step 7", Detail: "step 7"}
	if got, want := strings.Join(oom.Lines(), "\n"),
		"killed by the kernel: out of memory: step 7\nstep 7"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// All ranks of all nodes fail at the same moment. Each node reports its own, and one record has all
// of them.
func TestFailuresAtOnce(t *testing.T) {
	t.Parallel()
	s, err := etcd.Open(t.Context(), etcd.Config{Endpoints: etcdtest.Start(t).Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for name, open := range map[string]store.Store{"memory": memory.New().Client("test"), "etcd": s} {
		w := newStoredJob(t, open, "x")
		stageRunning(w)
		world := w.see().World
		var nodes sync.WaitGroup
		for rank := range 8 {
			nodes.Go(func() {
				f := victim(rank)
				if rank == 5 {
					f = rendezvous.Failure{Rank: 5, Node: "b", Code: 3}
				}
				f.Incarnation, f.Time = membership.Incarnation("i"), time.Now()
				if err := w.Fail(t.Context(), world, f); err != nil {
					t.Errorf("%s: rank %d: %v", name, rank, err)
				}
			})
		}
		nodes.Wait()
		if f := w.see().Failure; f == nil || f.Rank != 5 || len(f.Others) != 7 {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
