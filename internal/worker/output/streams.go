package output

import (
	"fmt"
	"strconv"
	"strings"
)

// Std is a choice of the two streams of a worker, numbered as torchrun does.
type Std uint8

const (
	None Std = 0
	Out  Std = 1
	Err  Std = 2
	Both Std = Out | Err
)

// Choice is a choice of streams for each local rank.
type Choice struct {
	all   Std
	ranks map[int]Std // others: all
}

// Of returns the streams of one worker.
func (c Choice) Of(localRank int) Std {
	if std, ok := c.ranks[localRank]; ok {
		return std
	}
	return c.all
}

// Within returns c for the local ranks in other, and no streams for the rest.
func (c Choice) Within(other Choice) Choice {
	in := Choice{ranks: make(map[int]Std)}
	if other.all != None {
		in.all = c.all
		for rank, std := range c.ranks {
			in.ranks[rank] = std
		}
	}
	for rank, std := range other.ranks {
		in.ranks[rank] = None
		if std != None {
			in.ranks[rank] = c.Of(rank)
		}
	}
	return in
}

// ParseStd reads the values of torchrun's --tee and --redirects: 0 none, 1
// stdout, 2 stderr, 3 both; or LOCAL_RANK:N,… with none for the others.
func ParseStd(s string) (Choice, error) {
	if std, ok := parseDigit(s); ok {
		return Choice{all: std}, nil
	}
	c := Choice{ranks: make(map[int]Std)}
	for entry := range strings.SplitSeq(s, ",") {
		left, right, _ := strings.Cut(entry, ":")
		rank, rankOK := parseRank(left)
		std, ok := parseDigit(right)
		if !rankOK || !ok {
			return Choice{}, fmt.Errorf("%q: want 0, 1, 2, 3 or RANK:N,RANK:N", s)
		}
		c.ranks[rank] = std
	}
	return c, nil
}

// ParseConsole reads the value of --console: all, none, or local ranks.
func ParseConsole(s string) (Choice, error) {
	switch s {
	case "all":
		return Choice{all: Both}, nil
	case "none":
		return Choice{}, nil
	}
	c := Choice{ranks: make(map[int]Std)}
	for entry := range strings.SplitSeq(s, ",") {
		rank, ok := parseRank(entry)
		if !ok {
			return Choice{}, fmt.Errorf("%q: want all, none or local ranks, as 0,2", s)
		}
		c.ranks[rank] = Both
	}
	return c, nil
}

// Shown returns the streams on the console: those of --console without those of -r, plus those of
// --tee.
func Shown(console, tee, redirects Choice) func(localRank int) Std {
	return func(localRank int) Std {
		return console.Of(localRank)&^redirects.Of(localRank) | tee.Of(localRank)
	}
}

func parseDigit(s string) (Std, bool) {
	if len(s) != 1 || s[0] < '0' || s[0] > '3' {
		return None, false
	}
	return Std(s[0] - '0'), true
}

func parseRank(s string) (int, bool) {
	rank, err := strconv.Atoi(s)
	return rank, err == nil && rank >= 0 && s[0] != '+'
}
