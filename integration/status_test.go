package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// status has the fields of `elastic status -o json` that these tests read.
type status struct {
	Job, State, Why string
	WhyCode         string `json:"why_code"`
	Generation      int
	WorldSize       int `json:"world_size"`
	Wish            struct {
		NP, Present, Missing int
		By                   string
	}
	Nodes []struct {
		Node, State string
		Incarnation string
		Generation  int
		Why         *string
	}
	World []struct {
		NodeRank int `json:"node_rank"`
		Node     string
		Ranks    []int
	}
	Restarts struct{ Used, Max int }
	Exit     *exit
	Server   struct {
		Kind      string
		Endpoints []string
		Reachable bool
	}
}

type exit struct {
	Code      int
	Source    string
	Node      *string
	Rank      *int
	LocalRank *int `json:"local_rank"`
	ExitCode  *int `json:"exit_code"`
	Signal    *string
	Message   string
}

// eventLine is one line of `elastic events -o json`.
type eventLine struct {
	Rev                 int64
	Kind, Text, Time    string
	Node                *string
	Generation, Number  int
	Step                int
	Cause, Reason, Sign string
	FirstStepAt         string `json:"first_step_at"`
	WorldSize           int    `json:"world_size"`
	Spent, Collateral   bool
	RestartsUsed        int `json:"restarts_used"`
	Seconds             float64
	NP                  int
	PreviousNP          int    `json:"previous_np"`
	WhyCode             string `json:"why_code"`
	By                  any
	Plan                *struct{ LR float64 }
	Exit                *exit
}

func (p *sandbox) status(job string) (status, error) {
	var st status
	out, err := p.try("status", job, "-o", "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &st)
	}
	return st, err
}

// reaches waits for a status for which is returns nil, and returns it.
func (p *sandbox) reaches(job, what string, is func(status) error) (st status) {
	p.t.Helper()
	until(p.t, fmt.Sprintf("job %s: %s", job, what), func() (err error) {
		if st, err = p.status(job); err != nil {
			return err
		}
		if err = is(st); err != nil {
			return fmt.Errorf("%w; it is %s", err, st)
		}
		return nil
	})
	return st
}

func (s status) String() string {
	var nodes []string
	for _, n := range s.Nodes {
		nodes = append(nodes, n.Node+" "+n.State)
	}
	return fmt.Sprintf("%s, generation %d, world size %d: %s (%s)",
		s.State, s.Generation, s.WorldSize, s.Why, strings.Join(nodes, ", "))
}

// running waits until generation g runs with n workers.
func (p *sandbox) running(job string, g, n int) status {
	p.t.Helper()
	return p.reaches(job, fmt.Sprintf("generation %d running with %d workers", g, n), func(s status) error {
		if s.State != "running" || s.Generation != g || s.WorldSize != n {
			return fmt.Errorf("not so")
		}
		return nil
	})
}

// state waits for a state.
func (p *sandbox) state(job, want string) status {
	p.t.Helper()
	return p.reaches(job, want, func(s status) error {
		if s.State != want {
			return fmt.Errorf("not %s", want)
		}
		return nil
	})
}

// node is the state of a node, "" if it is not listed.
func (s status) node(name string) string {
	for _, n := range s.Nodes {
		if n.Node == name {
			return n.State
		}
	}
	return ""
}

// rank is the node's place in the world, or -1.
func (s status) rank(node string) int {
	for _, w := range s.World {
		if w.Node == node {
			return w.NodeRank
		}
	}
	return -1
}

func (p *sandbox) events(job string) []eventLine {
	p.t.Helper()
	var all []eventLine
	for line := range strings.Lines(p.must("events", job, "-o", "json")) {
		var e eventLine
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			p.t.Fatalf("%v: %s", err, line)
		}
		all = append(all, e)
	}
	return all
}

// kinds returns the events of one kind.
func kinds(all []eventLine, kind string) []eventLine {
	return slices.DeleteFunc(slices.Clone(all), func(e eventLine) bool { return e.Kind != kind })
}
