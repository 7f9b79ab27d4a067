package rendezvous_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/scaling"
)

var noon = time.Date(2026, 11, 21, 12, 3, 11, 42e6, time.UTC)

// jobSnapshot is the snapshot of a job whose nodes are a, b, …, with one worker each.
type jobSnapshot struct{ rendezvous.Snapshot }

func aJob(np int) *jobSnapshot {
	s := &jobSnapshot{rendezvous.Snapshot{Whole: true,
		Job: &rendezvous.Job{Name: "x", UID: "u", Attempt: 1, Slots: 1,
			Limits: rendezvous.Limits{Min: np, Max: np, Exact: true}, Time: noon,
			Base: scaling.Base{Nodes: np, Slots: 1},
			Rules: rendezvous.Rules{MaxRestarts: 3, Replicas: 2,
				Grace: rendezvous.Seconds(30 * time.Second)}}}}
	s.Wish = rendezvous.Wish{NP: np, Request: "r1", By: "run", Rev: 1, Time: noon}
	s.Ready, s.Exits, s.Held = map[string]rendezvous.Ready{}, map[string]rendezvous.Exit{},
		map[string]rendezvous.Held{}
	return s
}

func aRange(min, max int) *jobSnapshot {
	s := aJob(max)
	s.Job.Limits = rendezvous.Limits{Min: min, Max: max}
	return s
}

func ref(node string) membership.Ref {
	return membership.Ref{Node: node, Incarnation: membership.Incarnation("8f21c0" + node),
		Address: "127.0.0.1:41201"}
}

func (s *jobSnapshot) here(nodes ...string) *jobSnapshot {
	for _, n := range nodes {
		s.Nodes = append(s.Nodes,
			membership.Node{Ref: ref(n), Attempt: s.Job.Attempt, Slots: 1, Since: noon, Rev: 5})
		s.reports(history.NodeJoined, n, history.Fields{"incarnation": ref(n).Incarnation.Short(),
			"address": "127.0.0.1:41201", "workers": 1})
	}
	slices.SortFunc(s.Nodes, func(a, b membership.Node) int { return strings.Compare(a.Node, b.Node) })
	return s
}

func (s *jobSnapshot) gone(node string) *jobSnapshot {
	var left []membership.Node
	for _, n := range s.Nodes {
		if n.Node != node {
			left = append(left, n)
		}
	}
	s.Nodes = left
	return s
}

func (s *jobSnapshot) reports(kind history.Kind, node string, f history.Fields) *jobSnapshot {
	s.Events = append(s.Events, history.Event{Kind: kind, Node: node, Generation: 1, Time: noon, Fields: f,
		Rev: int64(len(s.Events) + 1)})
	return s
}

func (s *jobSnapshot) lost(node, reason string) *jobSnapshot {
	return s.gone(node).reports(history.NodeLost, node, history.Fields{"reason": reason})
}

func (s *jobSnapshot) world(phase rendezvous.Phase, members ...string) *jobSnapshot {
	w := &rendezvous.World{UID: "u", Generation: 1, Attempt: 1, Phase: phase, Time: noon, Count: len(members),
		Slots: 1, NP: s.Wish.NP, Request: "r1"}
	for _, m := range members {
		w.Members = append(w.Members, ref(m))
	}
	s.World = w
	return s
}

func (s *jobSnapshot) hold(h rendezvous.Hold) *jobSnapshot {
	s.World.Phase, s.World.Hold = rendezvous.Waiting, &h
	return s
}

func (s *jobSnapshot) with(change func(*jobSnapshot)) *jobSnapshot {
	change(s)
	return s
}

func saved(node string) rendezvous.Exit {
	return rendezvous.Exit{Incarnation: ref(node).Incarnation, Planned: true, Codes: []*int{nil}}
}

// Each row is a job in the store, and what status says of it: state, code and sentence; nodes;
// next.
func TestExplain(t *testing.T) {
	for name, c := range map[string]struct {
		s    *jobSnapshot
		want string
	}{
		"no node yet": {aJob(2),
			"waiting nodes-missing: waiting for 2 more nodes (0 of 2) | | `elastic run` on 2 more nodes"},
		"one of two": {aJob(2).here("a"),
			"waiting nodes-missing: waiting for 1 more node (1 of 2) | a joining | " +
				"`elastic run` on 1 more node, or: elastic scale x --np=1"},
		"below the least of a range": {aRange(2, 4).here("a"),
			"waiting nodes-missing: waiting for 1 more node (1 of 4) | a joining | " +
				"`elastic run` on 1 more node"},
		"last call": {aRange(2, 4).here("a", "b"),
			"waiting last-call: 2 of 4 nodes are here; waiting a moment for others | a joining, b joining |"},
		"all here": {aJob(2).here("a", "b"),
			"waiting barrier: enough nodes are here; the next generation is about to be proposed | " +
				"a joining, b joining |"},
		"no plan": {aJob(2).here("a", "b").with(func(s *jobSnapshot) {
			s.Job.Base = scaling.Base{Batch: 7, Nodes: 1, Slots: 1, Policy: scaling.FixedBatch}
			s.Wish.NP = 8
		}).here("c", "d", "e", "f", "g", "h"),
			"waiting plan-impossible: no batch plan: batch 7 is smaller than the world of 8 workers | " +
				"a joining, b joining, c joining, d joining, e joining, f joining, g joining, h joining | " +
				"elastic scale x --np=N, with an N that the batch fits"},

		"barrier": {aJob(2).here("a", "b").world(rendezvous.Forming, "a", "b").with(func(s *jobSnapshot) {
			s.Ready["a"] = rendezvous.Ready{Incarnation: ref("a").Incarnation}
		}), "starting barrier: generation 1 starts when b is ready | a ready, b waiting |"},
		"fetching": {aJob(2).here("a", "b").world(rendezvous.Forming, "a", "b").with(func(s *jobSnapshot) {
			s.Ready["a"] = rendezvous.Ready{Incarnation: ref("a").Incarnation}
			s.Doing = []rendezvous.Activity{{Node: "b", Kind: "fetching", Done: 50, Total: 200}}
		}), "starting fetching: generation 1 starts when b is ready; b fetches a checkpoint (25% of 200 " +
			"bytes) | a ready, b waiting |"},
		"running": {aJob(2).here("a", "b").world(rendezvous.Running, "a", "b"),
			"running running: generation 1 runs: world size 2 | a running, b running |"},
		"a spare": {aJob(1).here("a", "b").world(rendezvous.Running, "a"),
			"running running: generation 1 runs: world size 1 | a running, b spare |"},
		"suspected": {aJob(2).here("a", "b").world(rendezvous.Running, "a", "b").with(func(s *jobSnapshot) {
			s.Suspects = []membership.Suspicion{{Node: "b", By: "a", Incarnation: ref("b").Incarnation,
				Watcher: ref("a").Incarnation, Sign: membership.Silent}}
		}), "running running: generation 1 runs: world size 2; in doubt: b (silent) | " +
			"a running, b suspect (silent, says a) |"},
		"never reached": {aJob(2).here("a", "b").world(rendezvous.Running, "a", "b").
			with(func(s *jobSnapshot) {
				s.Suspects = []membership.Suspicion{{Node: "b", By: "a", Incarnation: ref("b").Incarnation,
					Watcher: ref("a").Incarnation, Sign: membership.Silent, Never: true}}
			}), "running running: generation 1 runs: world size 2; in doubt: b (never reached at " +
			"127.0.0.1:41201) | a running, b suspect (never reached, says a) |"},
		"registration lapsed": {aJob(2).here("a", "b").world(rendezvous.Running, "a", "b").gone("b"),
			"running running: generation 1 runs: world size 2; in doubt: b (lease expired) | " +
				"a running, b suspect (lease expired) |"},
		"recovered, and none has a checkpoint": {aJob(2).here("a", "b").with(func(s *jobSnapshot) {
			s.Job.Resumes = true
		}), "waiting checkpoint-missing: waiting for a node with a checkpoint: the job is to go on from one | " +
			"a joining, b joining | `elastic run` on a node with a checkpoint. To begin without: elastic rm x, " +
			"then start the nodes with --again"},
		"all registrations lapsed": {aJob(2).here("a", "b").world(rendezvous.Running, "a", "b").gone("a").
			gone("b"),
			"waiting nodes-missing: waiting for 2 more nodes: no node of generation 1 is registered (lease " +
				"expired) | a suspect (lease expired), b suspect (lease expired) | " +
				"`elastic run` on 2 more nodes"},
		"lost, not yet held": {aJob(2).here("a", "b").world(rendezvous.Running, "a", "b").
			lost("b", "agent-gone"),
			"waiting nodes-missing: waiting for 1 more node: b was lost (agent gone) | " +
				"a waiting, b lost (agent gone) | `elastic run` on 1 more node, or: elastic scale x --np=1"},
		"lost, held": {aJob(2).here("a", "b").world(rendezvous.Running, "a", "b").lost("b", "silent").
			hold(rendezvous.Hold{Why: rendezvous.NodesMissing, Text: "b was lost (silent)"}),
			"waiting nodes-missing: waiting for 1 more node: b was lost (silent) | " +
				"a waiting, b lost (silent) | `elastic run` on 1 more node, or: elastic scale x --np=1"},
		"lost long ago": {aJob(2).here("a", "b").world(rendezvous.Running, "a", "b").lost("b", "silent").
			hold(rendezvous.Hold{Why: rendezvous.NodesMissing, Text: "b was lost (silent)"}).
			with(func(s *jobSnapshot) { s.Events[2].Time = noon.Add(-time.Hour) }),
			"waiting nodes-missing: waiting for 1 more node: b was lost (silent) | a waiting | " +
				"`elastic run` on 1 more node, or: elastic scale x --np=1"},
		"lost, and back": {aJob(2).here("a", "b").world(rendezvous.Running, "a", "b").lost("b", "silent").
			hold(rendezvous.Hold{Why: rendezvous.NodesMissing, Text: "b was lost (silent)"}).here("b"),
			"waiting barrier: enough nodes are here; the next generation is about to be proposed | " +
				"a waiting, b waiting |"},
		"left": {aJob(2).here("a", "b").world(rendezvous.Running, "a", "b").gone("b").
			reports(history.NodeLeft, "b",
				history.Fields{"reason": membership.Interrupted}).with(func(s *jobSnapshot) {
			s.Left = []membership.Left{{Node: "b", Incarnation: ref("b").Incarnation}}
		}), "waiting nodes-missing: waiting for 1 more node: b left | a waiting, b left (interrupted) | " +
			"`elastic run` on 1 more node, or: elastic scale x --np=1"},
		"another life of a member": {aJob(2).
			here("a", "b").world(rendezvous.Running, "a", "b").with(func(s *jobSnapshot) {
			s.Nodes[1].Incarnation = "newer"
		}), "waiting nodes-missing: b was lost (agent gone) | a waiting, b spare |"},
		"failed worker, not yet held": {aJob(2).
			here("a", "b").world(rendezvous.Running, "a", "b").with(func(s *jobSnapshot) {
			s.Failure = &rendezvous.Failure{Node: "b", Rank: 1, Code: 3, Time: noon}
		}), "waiting backoff: rank 1 on b ended with exit code 3; the others stop | a waiting, b waiting |"},
		"back-off": {aJob(2).here("a", "b").world(rendezvous.Running, "a", "b").
			hold(rendezvous.Hold{Why: rendezvous.BackingOff,
				Text:    "rank 1 on b ended with exit code 3; restart 2 of 3 in 1s",
				Backoff: rendezvous.Seconds(time.Second)}),
			"waiting backoff: rank 1 on b ended with exit code 3; restart 2 of 3 in 1s | " +
				"a waiting, b waiting |"},

		"wish not yet held": {aJob(1).here("a").world(rendezvous.Running, "a").with(func(s *jobSnapshot) {
			s.Wish = rendezvous.Wish{NP: 2, Request: "r2", By: "scale", Rev: 2, Time: noon}
		}), "waiting saving: scaling from 1 to 2 nodes | a waiting |"},
		"saving": {aJob(2).here("a", "b").world(rendezvous.Running, "a", "b").
			hold(rendezvous.Hold{Why: rendezvous.Saving, Planned: true, Reason: "scale",
				Text: "scaling from 2 to 4 nodes"}).with(func(s *jobSnapshot) { s.Exits["a"] = saved("a") }),
			"waiting saving: saving (scaling from 2 to 4 nodes); waiting for b | a waiting, b waiting |"},
		"saved, and too few": {aJob(4).here("a", "b").world(rendezvous.Running, "a", "b").
			hold(rendezvous.Hold{Why: rendezvous.Saving, Planned: true, Reason: "scale",
				Text: "scaling from 2 to 4 nodes"}).
			with(func(s *jobSnapshot) { s.Exits["a"], s.Exits["b"] = saved("a"), saved("b") }),
			"waiting nodes-missing: waiting for 2 more nodes: scaling from 2 to 4 nodes | " +
				"a waiting, b waiting | `elastic run` on 2 more nodes, or: elastic scale x --np=2"},
		"saved, too few, and another wish since": {aJob(3).here("a", "b").world(rendezvous.Running, "a", "b").
			hold(rendezvous.Hold{Why: rendezvous.Saving, Planned: true, Reason: "scale",
				Text: "scaling from 2 to 4 nodes"}).
			with(func(s *jobSnapshot) { s.Exits["a"], s.Exits["b"] = saved("a"), saved("b") }),
			"waiting nodes-missing: waiting for 1 more node: scaling from 2 to 3 nodes | " +
				"a waiting, b waiting | `elastic run` on 1 more node, or: elastic scale x --np=2"},
		"drain": {aJob(2).here("a", "b").world(rendezvous.Running, "a", "b").with(func(s *jobSnapshot) {
			s.Wish = rendezvous.Wish{NP: 2, Request: "r2", By: "drain", Drain: []string{"b"}, Rev: 2, Time: noon}
		}), "waiting draining: asked to go: b | a waiting, b draining |"},

		"finishing": {aJob(2).here("a", "b").world(rendezvous.Finishing, "a", "b").with(func(s *jobSnapshot) {
			s.Exits["a"] = rendezvous.Exit{Incarnation: ref("a").Incarnation, Codes: []*int{new(0)}}
		}), "finishing finishing: 1 of 2 workers have ended | a running, b running |"},
		"asked to stop": {aJob(1).here("a").
			world(rendezvous.Running, "a").with(func(s *jobSnapshot) { s.Wish.Stop = 1 }),
			"stopping draining: the job was asked to stop | a waiting |"},
		"stopping": {aJob(1).here("a").world(rendezvous.Running, "a").
			hold(rendezvous.Hold{Why: rendezvous.Draining, Planned: true, Reason: "stop"}).
			with(func(s *jobSnapshot) { s.Wish.Stop = 1 }),
			"stopping saving: the job was asked to stop; waiting for a to save | a waiting |"},
		"stopping without nodes": {aJob(1).
			here("a").world(rendezvous.Running, "a").gone("a").with(func(s *jobSnapshot) { s.Wish.Stop = 1 }),
			"stopping draining: the job was asked to stop; no node is registered | " +
				"a suspect (lease expired) | no node is left to end it: elastic stop x"},
		"done": {aJob(1).here("a").world(rendezvous.Done, "a").
			gone("a").reports(history.NodeLeft, "a", history.Fields{"reason": "finished"}).
			with(func(s *jobSnapshot) {
				s.World.Outcome = &rendezvous.Outcome{Source: "worker", Message: "every worker ended with 0"}
			}), "done done: every worker ended with 0 | a left (finished) | " +
			"elastic rm x removes the job and its files here"},
		"stopped, and the node with it": {aJob(1).here("a").world(rendezvous.Stopped, "a").
			gone("a").reports(history.NodeLeft, "a", history.Fields{"reason": "finished"}).
			with(func(s *jobSnapshot) {
				s.World.Outcome = &rendezvous.Outcome{Code: 93, Source: "operator",
					Message: "the operator asked for it"}
			}), "stopped stopped: the operator asked for it | a left (the job was stopped) | " +
			"the same `elastic run` line starts a new attempt, from scratch"},
		"failed": {aJob(2).world(rendezvous.Failed, "a", "b").with(func(s *jobSnapshot) {
			s.World.Outcome = &rendezvous.Outcome{Code: 3, Source: "worker", Node: new("b"), Rank: new(1),
				LocalRank: new(0), ExitCode: new(3),
				Why: rendezvous.RestartsUsed, Message: "restarts used (3 of 3)"}
		}), "failed restarts-used: restarts used (3 of 3); the cause: rank 1 on b, exit code 3 | | " +
			"elastic logs x --first-failure on b shows workerlog.0; the same `elastic run` line starts a " +
			"new attempt, from scratch"},
		"failed by a hang": {aJob(1).world(rendezvous.Failed, "a").with(func(s *jobSnapshot) {
			s.World.Outcome = &rendezvous.Outcome{Code: 1, Source: "worker", Node: new("a"), Rank: new(0),
				LocalRank: new(0), Why: rendezvous.RestartsUsed, Message: "restarts used (3 of 3)",
				Failure: &rendezvous.Failure{Node: "a", Code: 1, Hang: true}}
		}), "failed restarts-used: restarts used (3 of 3); the cause: rank 0 on a, hangs | | " +
			"elastic logs x --first-failure on a shows workerlog.0; the same `elastic run` line starts a " +
			"new attempt, from scratch"},
		"no progress": {aJob(1).world(rendezvous.Failed, "a").with(func(s *jobSnapshot) {
			s.World.Outcome = &rendezvous.Outcome{Code: 93, Source: "elastic", Why: rendezvous.NoProgress,
				Message: "5 generations in a row"}
			s.Head = checkpoint.Head{Number: 4}
		}), "failed no-progress: 5 generations in a row | | the same `elastic run` line starts a new " +
			"attempt, from checkpoint 4"},
		"stopped": {aJob(1).world(rendezvous.Stopped, "a").with(func(s *jobSnapshot) {
			s.World.Outcome = &rendezvous.Outcome{Code: 93, Source: "operator", Message: "stopped by stop"}
		}), "stopped stopped: stopped by stop | | the same `elastic run` line starts a new attempt, from " +
			"scratch"},
		"a new attempt": {aJob(2).world(rendezvous.Failed, "a", "b").with(func(s *jobSnapshot) {
			s.Job.Attempt = 2
			s.World.Outcome = &rendezvous.Outcome{Code: 3}
		}).here("a"), "waiting nodes-missing: waiting for 1 more node (1 of 2) | a joining | " +
			"`elastic run` on 1 more node, or: elastic scale x --np=1"},
	} {
		st := status.Explain(&c.s.Snapshot, noon)
		var nodes []string
		for _, n := range st.Nodes {
			text := n.Node + " " + string(n.State)
			if n.Why != nil {
				text += " (" + *n.Why + ")"
			}
			nodes = append(nodes, text)
		}
		next := ""
		if st.Next != nil {
			next = *st.Next
		}
		got := strings.TrimSpace(fmt.Sprintf("%s %s: %s | %s | %s", st.State, st.WhyCode, st.Why,
			strings.Join(nodes, ", "), next))
		if diff := cmp.Diff(strings.Join(strings.Fields(c.want), " "),
			strings.Join(strings.Fields(got), " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if (st.Exit != nil) != st.Ended() {
			t.Errorf("%s: state %s with exit %v", name, st.State, st.Exit)
		}
		if st.Since.IsZero() {
			t.Errorf("%s: no time", name)
		}
	}
}

func TestWaitingIsTheSentenceOfRun(t *testing.T) {
	for want, s := range map[string]*jobSnapshot{
		"waiting for 1 more node (1 of 2)":  aJob(2).here("a"),
		"waiting for 3 more nodes (1 of 4)": aJob(4).here("a"),
		"":                                  aJob(1).here("a"),
	} {
		if got := status.Explain(&s.Snapshot, noon).Waiting(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The example of the reference, field by field. Fields that it leaves out were added later.
const example = `{"schema":"elastic.status/1","job":"x","state":"waiting","since":"2026-11-21T12:03:11.042Z",
 "why":"waiting for 1 more node: lab1 was lost (agent gone)","why_code":"nodes-missing",
 "generation":1,"world_size":2,
 "wish":{"np":2,"min":2,"max":2,"present":1,"missing":1,"nproc_per_node":1,"draining":[],"by":"run"},
 "nodes":[{"node":"lab1-2","state":"waiting","address":"127.0.0.1:41201","workers":1,
           "incarnation":"8f21c0","generation":1,"since":"2026-11-21T12:03:11.042Z","why":null},
          {"node":"lab1","state":"lost","address":"127.0.0.1:41201","workers":1,
           "incarnation":"8f21c0","generation":1,"since":"2026-11-21T12:03:11.042Z","why":"agent gone"}],
 "world":[{"node_rank":0,"node":"lab1","ranks":[0]},{"node_rank":1,"node":"lab1-2","ranks":[1]}],
 "checkpoint":{"number":4,"step":120,"samples":30720,"generation":1,"time":"2026-11-21T12:03:11.042Z",
  "bytes":1048576,"holders":["lab1-2"],"copies":1,"parts":0,"replicas":2},
 "plan":{"scaling":"linear","global_batch_size":256,"batch_sizes":[128,128],"grad_accum_steps":1,
  "lr":0.1,"lr_scale":1.0},
 "waterfall":null,
 "progress":{"step":131,"loss":0.41,"samples":33536,"samples_per_second":870.5,"done":null,
  "left_seconds":null,"time":"2026-11-21T12:03:11.042Z"},
 "restarts":{"used":0,"max":3},"failure":null,"exit":null,
 "server":{"kind":"local","endpoints":["unix:///run/user/1000/elastic/etcd.sock"],"reachable":true}}`

func TestStatusIsTheReference(t *testing.T) {
	s := aJob(2).here("lab1", "lab1-2").world(rendezvous.Running, "lab1", "lab1-2").
		lost("lab1", "agent-gone").
		hold(rendezvous.Hold{Why: rendezvous.NodesMissing, Text: "lab1 was lost (agent gone)", Present: 1})
	s.World.Plan = &scaling.Plan{Policy: scaling.Linear, GlobalBatch: 256, BatchSizes: []int{128, 128},
		GradAccum: 1, LR: 0.1, LRScale: 1}
	s.Head = checkpoint.Head{Number: 4, Generation: 1, Step: new(int64(120)), Samples: new(int64(30720)),
		Bytes:   1 << 20,
		Holders: []membership.Ref{ref("lab1"), ref("lab1-2")}, Time: noon}
	s.Progress = &rendezvous.Progress{Step: new(int64(131)), Loss: new(0.41), Samples: new(int64(33536)),
		SamplesPerSecond: new(870.5), Time: noon}
	st := status.Explain(&s.Snapshot, noon)
	st.Server = &status.Server{Kind: "local", Endpoints: []string{"unix:///run/user/1000/elastic/etcd.sock"},
		Reachable: true}

	got, want := object(t, st), map[string]any{}
	if err := json.Unmarshal([]byte(example), &want); err != nil {
		t.Fatal(err)
	}
	for _, added := range []string{"doing", "next", "abandoned", "origin", "untaken", "unreadable"} {
		if _, ok := got[added]; !ok {
			t.Errorf("no field %s", added)
		}
		delete(got, added)
	}
	delete(got["plan"].(map[string]any), "warmup_samples")
	delete(got["progress"].(map[string]any), "age_seconds")
	delete(got["progress"].(map[string]any), "stale")
	delete(got["progress"].(map[string]any), "stall")
	delete(got["progress"].(map[string]any), "slow")
	delete(got["progress"].(map[string]any), "note")
	for _, n := range got["nodes"].([]any) {
		delete(n.(map[string]any), "other_program")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is unknown is null, what is empty is [].
func TestStatusOfNothing(t *testing.T) {
	got := object(t, status.Explain(&aJob(1).Snapshot, noon))
	for _, name := range []string{"checkpoint", "plan", "progress", "exit", "server", "origin"} {
		if v, ok := got[name]; !ok || v != nil {
			t.Errorf("%s is %v, want null", name, v)
		}
	}
	for _, name := range []string{"nodes", "world", "doing"} {
		if v, ok := got[name].([]any); !ok || len(v) != 0 {
			t.Errorf("%s is %v, want []", name, got[name])
		}
	}
}

func object(t *testing.T, v any) map[string]any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// A holder that is not lost has the checkpoint, even if it left.
func TestHoldersOfTheCheckpoint(t *testing.T) {
	head := func(s *jobSnapshot) *jobSnapshot {
		s.Head = checkpoint.Head{Number: 1, Holders: []membership.Ref{ref("a"), ref("b")}}
		return s
	}
	for name, c := range map[string]struct {
		s    *jobSnapshot
		want []string
	}{
		"both":     {head(aJob(2).here("a", "b")), []string{"a", "b"}},
		"one lost": {head(aJob(2).here("a", "b").lost("a", "silent")), []string{"b"}},
		"one left": {head(aJob(2).here("a", "b").gone("a").reports(history.NodeLeft, "a", nil)),
			[]string{"a", "b"}},
		"come back": {head(aJob(2).here("a", "b").lost("a", "silent").here("a")), []string{"a", "b"}},
	} {
		if diff := cmp.Diff(c.want, status.Explain(&c.s.Snapshot, noon).Checkpoint.Holders); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestStopAlone(t *testing.T) {
	zero := rendezvous.Exit{Incarnation: ref("a").Incarnation, Codes: []*int{new(0)}}
	for name, c := range map[string]struct {
		s    *jobSnapshot
		want rendezvous.Phase
		code int
	}{
		"no world":      {aJob(1), rendezvous.Stopped, 93},
		"a running one": {aJob(1).world(rendezvous.Running, "a"), rendezvous.Stopped, 93},
		"a forming one": {aJob(1).world(rendezvous.Forming, "a"), rendezvous.Stopped, 93},
		"one that is saved": {aJob(1).world(rendezvous.Running, "a").hold(rendezvous.Hold{Planned: true}),
			rendezvous.Stopped, 93},
		"a finished one": {aJob(1).world(rendezvous.Finishing, "a").
			with(func(s *jobSnapshot) { s.Exits["a"] = zero }), rendezvous.Done, 0},
		"of an old attempt": {aJob(1).world(rendezvous.Failed, "a").
			with(func(s *jobSnapshot) { s.Job.Attempt = 2 }), rendezvous.Stopped, 93},
	} {
		c.s.Wish.Stop, c.s.Wish.By = c.s.Job.Attempt, "stop"
		end := plan.StopWithoutNodes(&c.s.Snapshot, noon)
		if end.Phase != c.want || end.Outcome.Code != c.code {
			t.Errorf("%s: %s with %d, want %s with %d", name, end.Phase, end.Outcome.Code, c.want, c.code)
		}
	}
}
