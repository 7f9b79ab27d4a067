package command

import (
	"slices"
	"strconv"
	"strings"

	"github.com/elasticd/elastic/internal/problem"
)

// typed is a parsed command line.
type typed struct {
	Command string
	Help    bool
	topic   string              // of --help=TOPIC
	Values  map[string][]string // of each flag that was given, by our spelling
	Args    []string
	Unused  []string          // flags of other launchers that elastic accepts and ignores
	spelled map[string]string // each flag as it was typed: --job_id
}

// spelling maps every spelling of a flag to the flag.
type spelling map[string]*Flag

func spell(flags []Flag) spelling {
	s := spelling{}
	for i := range flags {
		f := &flags[i]
		for _, name := range append([]string{f.Name, f.Short}, f.Same...) {
			if name != "" {
				s[name] = f
			}
		}
	}
	return s
}

func find(table []Command, name string) *Command {
	for i := range table {
		if table[i].Name == name {
			return &table[i]
		}
	}
	return nil
}

// reader parses a command line word by word.
type reader struct {
	table   []Command
	all     spelling // the flags of all commands, which may come before the command
	ignored spelling
	words   []string // not parsed yet
	cmd     *Command
	line    typed
}

func newReader(table []Command, words []string) reader {
	var known []Flag
	for _, c := range table {
		known = append(known, c.All()...)
	}
	return reader{table: table, all: spell(known), ignored: spell(Unused()), words: words,
		line: typed{Values: map[string][]string{}, spelled: map[string]string{}}}
}

// Normalise parses a command line. "-" and "_" are the same, and so are one dash and two. Flags may
// come before or after the command and its positionals. All words after run's program belong to the
// program.
func Normalise(words []string, table []Command) (typed, error) {
	r := newReader(table, words)
	for len(r.words) > 0 {
		word := r.words[0]
		r.words = r.words[1:]
		var err error
		switch {
		case word == "--":
			if r.cmd == nil {
				return r.line, problem.New(problem.Usage, "no command before --").
					Cure("elastic run [flags] -- PROGRAM [ARGS…]")
			}
			r.rest()
		case isFlag(word):
			err = r.flag(word)
		case r.cmd != nil && r.cmd.Most < 0:
			r.words = slices.Concat([]string{word}, afterProgram(r.words))
			r.rest()
		case r.cmd != nil:
			r.line.Args = append(r.line.Args, word)
		default:
			err = r.command(word)
		}
		if err != nil {
			return r.line, err
		}
	}
	switch {
	case r.line.Help:
		return r.line, nil
	case r.cmd == nil && len(r.line.Values) > 0:
		return r.line, problem.New(problem.Usage, "no command").
			Cure("elastic run, scale, status, events, jobs, nodes, stop, rm, ckpt or version; elastic --help")
	case r.cmd == nil:
		r.line.Help = true
		return r.line, nil
	}
	return r.line, r.fits()
}

// afterProgram drops "--" directly after the program, as argparse does for torchrun and Paddle's
// launcher. If "--" is before the program, too, it belongs to the program's arguments.
func afterProgram(words []string) []string {
	if len(words) > 0 && words[0] == "--" {
		return words[1:]
	}
	return words
}

func (r *reader) rest() {
	r.line.Args = append(r.line.Args, r.words...)
	r.words = nil
}

func (r *reader) command(word string) error {
	if word == "help" {
		r.line.Help = true
		return nil
	}
	if r.cmd = find(r.table, word); r.cmd == nil {
		return unknownCommand(word, r.table)
	}
	r.line.Command = word
	return nil
}

// isFlag reports whether a word is a flag: "-1" is a number, "-" and "" are words.
func isFlag(word string) bool {
	return len(word) > 1 && word[0] == '-' && (word[1] < '0' || word[1] > '9')
}

func (r *reader) flag(word string) error {
	name, val, assigned := strings.Cut(strings.TrimLeft(word, "-"), "=")
	typed := name
	name = strings.ReplaceAll(name, "_", "-")
	if name == "version" && r.cmd == nil {
		return r.command(name)
	}
	f, theirs := r.lookup(name)
	if f == nil {
		o := r.shorten(word, name, option{value: val, assigned: assigned})
		f, theirs, val, assigned = o.flag, o.theirs, o.value, o.assigned
	}
	if f == nil {
		return unknownFlag(word, name, r.cmd, r.all)
	}
	if !assigned {
		var err error
		if val, err = r.value(word, f); err != nil {
			return err
		}
	}
	if f.Name == "help" && assigned && r.cmd.hasTopic(val) {
		r.line.topic, val = val, "true"
	}
	if _, err := strconv.ParseBool(val); err != nil && f.Kind == Boolean {
		return problem.New(problem.Usage, "%s: true or false", word)
	}
	switch {
	case val == "" && slices.Contains(unset, name):
		return nil
	case theirs:
		r.line.Unused = append(r.line.Unused, "--"+name)
		return nil
	case f.Name == "help":
		r.line.Help = true
		return nil
	case name == "master":
		if at, ok := strings.CutPrefix(val, "etcd://"); ok {
			f, val = r.all["server"], at
		}
	}
	r.line.spelled[f.Name] = "--" + typed
	r.line.Values[f.Name] = append(r.line.Values[f.Name], val)
	return nil
}

// lookup finds a flag of the command, or of any command if none was read yet. theirs is true for a
// flag of another launcher, which run accepts and ignores.
func (r *reader) lookup(name string) (f *Flag, theirs bool) {
	if r.cmd != nil {
		own := spell(r.cmd.All())
		if own[name] != nil {
			return own[name], false
		}
		if f := r.ignored[name]; f != nil && r.cmd.Name == "run" {
			return f, true
		}
	}
	if f := r.all[name]; f != nil {
		return f, false
	}
	return r.ignored[name], true
}

// value returns the value of a flag from the next word. A known flag is never a value.
func (r *reader) value(word string, f *Flag) (string, error) {
	if f.Kind == Boolean {
		return "true", nil
	}
	if len(r.words) > 0 && r.words[0] != "--" {
		next := r.words[0]
		name, _, _ := strings.Cut(strings.TrimPrefix(next, "--"), "=")
		if !strings.HasPrefix(next, "--") || r.all[strings.ReplaceAll(name, "_", "-")] == nil {
			r.words = r.words[1:]
			return next, nil
		}
	}
	return "", problem.New(problem.Usage, "%s needs a value", word).Cure("%s=%s", word, f.Arg)
}

// fits fails if the command does not take a flag or an argument of the line.
func (r *reader) fits() error {
	cmd, own := r.cmd, spell(r.cmd.All())
	for name := range r.line.Values {
		if own[name] == nil {
			return problem.New(problem.Usage, "--%s is no flag of elastic %s", name, cmd.Name).
				Cure("elastic %s --help", cmd.Name)
		}
	}
	if len(r.line.Unused) > 0 && cmd.Most >= 0 {
		return problem.New(problem.Usage, "%s is no flag of elastic %s", r.line.Unused[0], cmd.Name).
			Cure("elastic %s --help", cmd.Name)
	}
	words := r.line.Args
	if cmd.Most < 0 {
		words = words[:min(1, len(words))]
	}
	for i, w := range words { // finds np=4 and `np 4`
		name, val, assigned := strings.Cut(w, "=")
		f := own[strings.ReplaceAll(name, "_", "-")]
		if f == nil || len(name) < 2 || !assigned && (f.Kind == Boolean || i+1 == len(words)) {
			continue
		}
		if !assigned {
			val = words[i+1]
		}
		return problem.New(problem.Usage, "%q is a flag without its dashes", w).Cure("--%s=%s", f.Name, val)
	}
	if cmd.Most >= 0 && len(r.line.Args) > cmd.Most {
		return problem.New(problem.Usage, "elastic %s does not take %q", cmd.Name, r.line.Args[cmd.Most]).
			Cure("elastic %s [flags] %s", cmd.Name, cmd.Args)
	}
	return nil
}
