package diagnosis

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Standstill is the evidence about one rank of a job without progress.
type Standstill struct {
	Rank     int
	State    string // of its process, as in /proc
	WChan    string
	Syscall  string
	Stack    string // Python stack, from faulthandler; "": unknown
	Progress string // the last line of its progress file
	// Collective is the last one in torch's flight recorder; nil: unknown.
	Collective *Collective
	NCCL       *NCCL // what NCCL's own service says of it; nil: unknown
}

// Behind is the rank that the others wait for.
type Behind struct {
	Known  bool // a rank stands out
	Rank   int
	Reason string // one sentence, at most maxMessage bytes
	Stack  string // of its main thread, innermost call first, at most maxDetail bytes
}

// FindBehind returns the rank that the others wait for. It uses the clearest sign: a process that
// is stopped; one that waits in the kernel, or that NCCL does not reach; a lower step than most; fewer
// collectives, or another one; a rank outside of a collective while others are in one; a rank in
// another call than most. ranks is not empty.
func FindBehind(ranks []Standstill) Behind {
	ranks = slices.Clone(ranks)
	slices.SortFunc(ranks, func(a, b Standstill) int { return cmp.Compare(a.Rank, b.Rank) })
	for _, find := range []func([]Standstill) (int, string){stopped, inKernel, missedByNCCL, lowestStep,
		lowestCollective, lowestInNCCL, outsideCollective, inOtherCall, otherSleep} {
		if i, reason := find(ranks); i >= 0 {
			return behind(ranks[i], reason+noStack(ranks[i])+advice(ranks))
		}
	}
	reason := NoneStandsOut
	if len(ranks) == 1 {
		reason = "it makes no progress"
		if at := topOfStack(mainThread(ranks[0].Stack)); at != "" {
			reason = "it stands in " + at
		}
	}
	b := behind(ranks[0], reason+noStack(ranks[0])+advice(ranks))
	b.Known = false
	return b
}

// noStack says that a rank gave no stack, as a program that is not Python; "": it did, or is stopped.
func noStack(r Standstill) string {
	if r.stopped() || len(mainThread(r.Stack)) > 0 {
		return ""
	}
	return fmt.Sprintf("; rank %d gave no Python stack", r.Rank)
}

// advice says what to change where a library waits, as its stack shows; "": nothing is known.
func advice(ranks []Standstill) string {
	inOrbax := func(r Standstill) bool { return strings.Contains(r.Stack, "/orbax/checkpoint/") }
	if slices.ContainsFunc(ranks, inOrbax) {
		return "; orbax waits for files of another process: share one --checkpoint-dir, or give orbax " +
			"primary_host=None and run with --save-from=all"
	}
	return ""
}

// NoneStandsOut is the reason where no rank differs from the others.
const NoneStandsOut = "no rank stands out"

// behind returns the result for one rank. Calls and collectives are named by workers, also on other
// machines, so they are cut to the limits.
func behind(r Standstill, reason string) Behind {
	return Behind{true, r.Rank, cut(strings.Join(strings.Fields(reason), " "), maxMessage),
		cut(strings.Join(mainThread(r.Stack), "\n"), maxDetail)}
}

func (r Standstill) stopped() bool { return r.State == "T" || r.State == "t" }

func stopped(ranks []Standstill) (int, string) {
	i := slices.IndexFunc(ranks, Standstill.stopped)
	return i, "its process is stopped, as by SIGSTOP or a debugger"
}

func inKernel(ranks []Standstill) (int, string) {
	i := slices.IndexFunc(ranks, func(r Standstill) bool { return r.State == "D" })
	if i < 0 {
		return i, ""
	}
	return i, fmt.Sprintf(
		"the kernel holds it in %s: a disk, a network file system or a device does not answer",
		cmp.Or(ranks[i].WChan, "a system call"))
}

func lowestStep(ranks []Standstill) (int, string) {
	steps := map[int]int64{}
	for i, r := range ranks {
		var reported struct{ Step *int64 }
		if json.Unmarshal([]byte(r.Progress), &reported) == nil && reported.Step != nil {
			steps[i] = *reported.Step
		}
	}
	least, most := -1, -1
	for i := range ranks {
		step, ok := steps[i]
		if !ok {
			continue
		}
		if least < 0 || step < steps[least] {
			least = i
		}
		if most < 0 || step > steps[most] {
			most = i
		}
	}
	if least < 0 || steps[least] == steps[most] {
		return -1, ""
	}
	for i, step := range steps {
		if i != least && step == steps[least] {
			return -1, "" // several ranks are behind: another sign must decide
		}
	}
	return least, fmt.Sprintf("it is at step %d, others are at %d", steps[least], steps[most])
}

func outsideCollective(ranks []Standstill) (int, string) {
	waiting, outside := 0, -1
	where := ""
	for i, r := range ranks {
		frames := mainThread(r.Stack)
		switch call := collective(frames); {
		case len(frames) == 0:
		case call != "":
			waiting++
			where = call
		case outside < 0:
			outside = i
		}
	}
	if waiting == 0 || outside < 0 {
		return -1, ""
	}
	return outside, fmt.Sprintf("it stands in %s, and %d of %d ranks wait for it in %s",
		topOfStack(mainThread(ranks[outside].Stack)), waiting, len(ranks), where)
}

// inOtherCall finds a rank in another call of the program than most.
func inOtherCall(ranks []Standstill) (int, string) {
	return findDifferent(ranks, func(r Standstill) string { return userFrame(mainThread(r.Stack)) },
		func(mine, theirs string) string {
			return fmt.Sprintf("it stands in %s, the others in %s", mine, theirs)
		})
}

// otherSleep finds a rank in another kernel function than most.
func otherSleep(ranks []Standstill) (int, string) {
	return findDifferent(ranks, func(r Standstill) string {
		call, _, _ := strings.Cut(r.Syscall, " ")
		if r.WChan == "" || r.WChan == "0" {
			return strings.TrimPrefix("system call "+call, "system call running")
		}
		return r.WChan
	}, func(mine, theirs string) string {
		return fmt.Sprintf("it sleeps in %s, the others in %s", mine, theirs)
	})
}

// findDifferent finds the first rank whose sign differs from that of more than half of all ranks.
func findDifferent(
	ranks []Standstill, sign func(Standstill) string, say func(mine, theirs string) string,
) (int, string) {
	count := map[string]int{}
	for _, r := range ranks {
		count[sign(r)]++
	}
	for theirs, n := range count {
		if theirs == "" || 2*n <= len(ranks) {
			continue
		}
		i := slices.IndexFunc(ranks, func(r Standstill) bool { return sign(r) != theirs && sign(r) != "" })
		if i >= 0 {
			return i, say(sign(ranks[i]), theirs)
		}
	}
	return -1, ""
}
