package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
)

// The helper in Python and this example deal the same samples to the same rank.
func TestOrderIsTheHelpers(t *testing.T) {
	type question struct {
		N         int    `json:"n"`
		Seed      uint64 `json:"seed"`
		Epoch     int64  `json:"epoch"`
		Positions []int  `json:"positions"`
	}
	random := rand.New(rand.NewPCG(1, 1))
	var questions []question
	for n := range 70 {
		questions = append(questions, question{N: n + 1, Seed: uint64(n), Epoch: int64(n % 4)})
	}
	for range 200 {
		questions = append(questions, question{N: 1 + random.IntN(1<<random.IntN(45)), Seed: random.Uint64(),
			Epoch: random.Int64N(1 << 40)})
	}
	for i := range questions {
		for range 50 {
			questions[i].Positions = append(questions[i].Positions, random.IntN(questions[i].N))
		}
	}
	asked, err := json.Marshal(questions)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "python3", "-B", "-c", `
import json, sys
from elastic.permutation import Permutation
for q in json.load(sys.stdin):
    order = Permutation(q["n"], q["seed"], q["epoch"])
    print(*[order[p] for p in q["positions"]])
`)
	cmd.Dir, cmd.Stdin = "../../python", strings.NewReader(string(asked))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(questions) {
		t.Fatalf("%d answers to %d questions", len(lines), len(questions))
	}
	for i, q := range questions {
		o := newOrder(q.N, q.Seed, q.Epoch)
		var mine []string
		for _, p := range q.Positions {
			mine = append(mine, fmt.Sprint(o.at(p)))
		}
		if got := strings.Join(mine, " "); got != lines[i] {
			t.Fatalf("n=%d seed=%d epoch=%d\nGo     %s\nPython %s", q.N, q.Seed, q.Epoch, got, lines[i])
		}
	}
}
