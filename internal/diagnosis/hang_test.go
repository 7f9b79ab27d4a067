package diagnosis

import (
	"strings"
	"testing"
)

const inAllReduce = `Fatal Python error: Aborted

Thread 0x00007f01 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait
Current thread 0x00007f02 (most recent call first):
  File "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", line 1536 in all_reduce
  File "train.py", line 40 in step
  File "train.py", line 60 in <module>
`

const inLoader = `Fatal Python error: Aborted

Current thread 0x00007f02 (most recent call first):
  File "/usr/lib/python3.11/queue.py", line 180 in get
  File "train.py", line 33 in batches
  File "train.py", line 60 in <module>
`

const inBarrier = `Current thread 0x00007f02 (most recent call first):
  File "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", line 2776 in barrier
  File "train.py", line 44 in step
  File "train.py", line 60 in <module>
`

func TestFindBehind(t *testing.T) {
	waiting := Standstill{State: "S", WChan: "futex_wait_queue", Stack: inAllReduce}
	for name, test := range map[string]struct {
		findDifferent Standstill // rank 3 of 5; the others wait in a collective
		others        Standstill
		reason        string
	}{
		"stopped": {Standstill{State: "T"}, waiting, "is stopped"},
		"a disk does not answer": {Standstill{State: "D", WChan: "nfs_wait"}, waiting,
			"holds it in nfs_wait"},
		"behind by its step": {Standstill{State: "S", Progress: `{"step":4}`},
			Standstill{State: "S", Progress: `{"step":5}`}, "it is at step 4, others are at 5"},
		"a stuck loader": {Standstill{State: "S", Stack: inLoader}, waiting,
			"it stands in get (/usr/lib/python3.11/queue.py:180), called by batches (train.py:33), and 4 " +
				"of 5 ranks wait for it in all_reduce"},
		"a skipped collective": {Standstill{State: "S", Stack: inBarrier}, waiting,
			"it stands in step (train.py:44), the others in step (train.py:40)"},
		"no stacks": {Standstill{State: "S", WChan: "pipe_read"}, Standstill{State: "S", WChan: "ep_poll"},
			"it sleeps in pipe_read, the others in ep_poll; rank 3 gave no Python stack"},
		"no stacks, only calls": {Standstill{State: "S", Syscall: "0 0x3 0x7f"},
			Standstill{State: "S", Syscall: "232 0x4"},
			"it sleeps in system call 0, the others in system call 232"},
	} {
		t.Run(name, func(t *testing.T) {
			var ranks []Standstill
			for _, rank := range []int{4, 2, 3, 1, 0} {
				r := test.others
				if rank == 3 {
					r = test.findDifferent
				}
				r.Rank = rank
				ranks = append(ranks, r)
			}
			got := FindBehind(ranks)
			if got.Rank != 3 || !strings.Contains(got.Reason, test.reason) {
				t.Errorf("rank %d: %s", got.Rank, got.Reason)
			}
		})
	}
}

func TestFindBehindOfOne(t *testing.T) {
	got := FindBehind([]Standstill{{Rank: 0, State: "S", Stack: inLoader}})
	if got.Rank != 0 ||
		got.Reason != "it stands in get (/usr/lib/python3.11/queue.py:180), called by batches (train.py:33)" ||
		!strings.HasPrefix(got.Stack, "get (") {
		t.Errorf("%+v", got)
	}
	if got := FindBehind([]Standstill{{Rank: 0}}); got.Reason != "it makes no progress; rank 0 gave no Python stack" {
		t.Errorf("%+v", got)
	}
	if got := FindBehind([]Standstill{{Rank: 0, Stack: inBarrier},
		{Rank: 1, Stack: inBarrier}}); got.Reason != "no rank stands out" {
		t.Errorf("%+v", got)
	}
}

// Ranks that wait in orbax see files of their own machine alone.
func TestOrbaxOnSeparateDirectories(t *testing.T) {
	in := `  File "/venv/lib/python3.11/site-packages/orbax/checkpoint/utils.py", line 9 in wait` + "\n"
	for _, ranks := range [][]Standstill{{{Rank: 0, Stack: in}, {Rank: 1, Stack: in}},
		{{Rank: 0, Stack: inBarrier}, {Rank: 1, Stack: in}, {Rank: 2, Stack: inBarrier}}} {
		if got := FindBehind(ranks); !strings.Contains(got.Reason, "share one --checkpoint-dir") {
			t.Errorf("%+v", got)
		}
	}
}

// What workers call their functions and collectives may be of any length and have any characters;
// what is reported of the rank that is behind fits into a record.
func TestBehindIsBounded(t *testing.T) {
	const size = 1_000_000
	long := strings.Repeat("long\nname ", size/10)
	stack := "  File \"t.py\", line 8 in " + strings.Repeat("n", size) + "\n"
	for name, ranks := range map[string][]Standstill{
		"kernel": {{Rank: 0, State: "D", WChan: long}, {Rank: 1}},
		"collective": {{Rank: 0, Collective: &Collective{1, "a"}},
			{Rank: 1, Collective: &Collective{2, long}}},
		"stack": {{Rank: 0, Stack: stack}},
	} {
		b := FindBehind(ranks)
		if b.Rank != 0 || b.Reason == "" || len(b.Reason) > maxMessage || strings.Contains(b.Reason, "\n") ||
			len(b.Stack) > maxDetail {
			t.Errorf("%s: rank %d, a reason of %d bytes, a stack of %d", name, b.Rank, len(b.Reason), len(b.Stack))
		}
	}
}
