package command

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Complete writes what can stand in place of the last of the words that follow elastic: one candidate a line,
// with its usage after a tab. Where the shell knows better it writes :files, :dirs, :program (commands and
// files), or ":command N", if the word belongs to a program that is word N, from 0.
func Complete(w io.Writer, words, jobs []string, table []Command) error {
	words, at := joined(words)
	last := len(words) - 1
	r := newReader(table, nil)
	var open *Flag // its value comes next
	positionals := 0
	for i, word := range words[:last] {
		runs := r.cmd != nil && r.cmd.Name == "run"
		switch {
		case open != nil:
			open = nil
		case word == "--" && runs && i+1 < last:
			return program(w, at[i+1])
		case word == "--" && runs:
			return say(w, ":program")
		case isFlag(word):
			if f, assigned := r.named(word); f != nil && f.Kind != Boolean && !assigned {
				open = f
			}
		case runs:
			return program(w, at[i])
		case r.cmd != nil:
			positionals++
		default:
			if r.cmd = find(table, word); r.cmd == nil {
				return nil
			}
		}
	}
	word := words[last]
	if f, assigned := r.named(word); open == nil && isFlag(word) && assigned {
		head, typed, _ := strings.Cut(word, "=")
		return f.complete(w, head+"=", typed, jobs)
	}
	switch {
	case open != nil:
		return open.complete(w, "", word, jobs)
	case r.cmd == nil && !strings.HasPrefix(word, "-"):
		return commandNames(w, word, table)
	case r.cmd == nil:
		return flagNames(w, word, Everywhere())
	case strings.HasPrefix(word, "-"):
		return flagNames(w, word, r.cmd.All())
	case r.cmd.Name == "run":
		return say(w, ":program")
	case positionals == 0 && strings.HasPrefix(strings.Trim(r.cmd.Args, "["), "JOB"):
		return candidates(w, "", word, jobs)
	}
	return flagNames(w, word, r.cmd.All())
}

// joined joins what bash splits at "=" and ":". at is the index that each word had.
func joined(words []string) (all []string, at []int) {
	glued := false
	for i, w := range words {
		splits := w != "" && strings.Trim(w, "=:") == ""
		if len(all) > 0 && (splits || glued) {
			all[len(all)-1] += w
		} else {
			all, at = append(all, w), append(at, i)
		}
		glued = splits
	}
	return all, at
}

// named finds the flag that a word names, and reports whether its value is in the word.
func (r *reader) named(word string) (f *Flag, assigned bool) {
	name, _, assigned := strings.Cut(strings.TrimLeft(word, "-"), "=")
	f, _ = r.lookup(strings.ReplaceAll(name, "_", "-"))
	return f, assigned
}

// complete writes the values of a flag that begin with typed, each after head.
func (f *Flag) complete(w io.Writer, head, typed string, jobs []string) error {
	switch {
	case f == nil:
		return nil
	case f.Kind == Boolean:
		return candidates(w, head, typed, []string{"true", "false"})
	case f.Arg == "FILE":
		return say(w, ":files")
	case f.Arg == "DIR":
		return say(w, ":dirs")
	case f.Arg == "JOB":
		return candidates(w, head, typed, jobs)
	}
	return candidates(w, head, typed, f.Values)
}

func flagNames(w io.Writer, typed string, flags []Flag) error {
	var all []string
	for _, f := range flags {
		all = append(all, "--"+f.Name+"\t"+f.Usage)
		if f.Short != "" {
			all = append(all, "-"+f.Short+"\t"+f.Usage)
		}
	}
	return candidates(w, "", typed, all)
}

func commandNames(w io.Writer, typed string, table []Command) error {
	var all []string
	for _, c := range table {
		all = append(all, c.Name+"\t"+c.Usage)
	}
	return candidates(w, "", typed, all)
}

func candidates(w io.Writer, head, typed string, all []string) error {
	fit := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !strings.HasPrefix(s, typed) })
	for i := range fit {
		fit[i] = head + fit[i]
	}
	return say(w, fit...)
}

func program(w io.Writer, n int) error { return say(w, fmt.Sprintf(":command %d", n)) }

func say(w io.Writer, lines ...string) error {
	_, err := io.WriteString(w, strings.Join(append(lines, ""), "\n"))
	return err
}
