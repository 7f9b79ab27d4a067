package command

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// shells are the shells that Completion knows.
var shells = map[string]func(io.Writer, []Command) error{"bash": bash, "zsh": zsh, "fish": fish}

// Shells returns the shells that have a completion.
func Shells() []string { return []string{"bash", "fish", "zsh"} }

// Completion writes the completion script of a shell. It is made from the table of commands, and
// runs no elastic command and asks no server while the user types. It reports whether the shell is known.
func Completion(w io.Writer, shell string, table []Command) (known bool, err error) {
	write, known := shells[shell]
	if !known {
		return false, nil
	}
	return true, write(w, table)
}

// completes returns what a shell can suggest for the value of a flag: fixed values, files or
// directories.
func (f *Flag) completes() (values []string, files, dirs bool) {
	switch {
	case f.Kind == Boolean:
		return []string{"true", "false"}, false, false
	case f.Arg == "FILE":
		return nil, true, false
	case f.Arg == "DIR":
		return nil, false, true
	}
	return f.Values, false, false
}

// words returns the flags of a command in every spelling.
func (c *Command) words() (all []string) {
	for _, f := range c.Flags {
		all = append(all, "--"+f.Name)
		if f.Short != "" {
			all = append(all, "-"+f.Short)
		}
	}
	slices.Sort(all)
	return all
}

// bashHead finds the command of the line, and the program of elastic run. It suggests nothing after
// that program.
const bashHead = `# bash completion of elastic: source <(elastic completion bash)
_elastic() {
  local cur prev word command= program=0 i value jobs
  COMPREPLY=()
  cur=${COMP_WORDS[COMP_CWORD]}
  prev=${COMP_WORDS[COMP_CWORD-1]}
  if [[ $cur == = ]]; then cur=; fi
  if [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == -- && $command == run ]]; then program=$((i + 1)); break; fi
    if [[ $word == -* ]]; then
      if _elastic_takes "$word"; then
        if [[ ${COMP_WORDS[i+1]} == = ]]; then ((i++)); fi
        ((i++))
      fi
    elif [[ -z $command ]]; then command=$word
    elif [[ $command == run ]]; then program=$i; break
    fi
  done
  if ((program)); then
    if declare -F _command_offset >/dev/null; then _command_offset "$program"
    else COMPREPLY=($(compgen -f -- "$cur")); fi
    return
  fi
`

func bash(w io.Writer, table []Command) error {
	var b strings.Builder
	b.WriteString(bashHead)
	b.WriteString(`  if _elastic_takes "$prev" || [[ ${COMP_WORDS[COMP_CWORD-1]} == = ]]; then
    case $command:$prev in
`)
	bashValues(&b, table)
	b.WriteString("    esac\n    return\n  fi\n  case $command in\n")
	var names []string
	for _, c := range table {
		names = append(names, c.Name)
		fmt.Fprintf(&b, "  %s) value='%s' ;;\n", c.Name, strings.Join(c.words(), " "))
	}
	slices.Sort(names)
	fmt.Fprintf(&b, "  *) value='%s' ;;\n  esac\n", strings.Join(names, " "))
	b.WriteString(`  if [[ -z $command || $cur == -* ]]; then COMPREPLY=($(compgen -W "$value" -- "$cur"))
  elif [[ $command == run ]]; then COMPREPLY=($(compgen -c -f -- "$cur"))
`)
	fmt.Fprintf(&b, "  elif [[ ' %s ' == *\" $command \"* ]]; then %s\n  fi\n}\n%s",
		strings.Join(ofJobs(table), " "), bashJobs, strings.Replace(jobsInShell, "GLOB", "", 1))
	b.WriteString("_elastic_takes() {\n  case ${1//_/-} in\n")
	fmt.Fprintf(&b, "  %s) return 0 ;;\n  esac\n  return 1\n}\n", strings.Join(takers(table), "|"))
	b.WriteString("complete -o bashdefault -o filenames -F _elastic elastic\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// takers returns all flags with a value, of any command, in every spelling.
func takers(table []Command) (all []string) {
	for _, c := range table {
		for _, f := range c.Flags {
			if f.Kind == Boolean {
				continue
			}
			for _, name := range append([]string{f.Name}, f.Same...) {
				all = append(all, "--"+name)
			}
			if f.Short != "" {
				all = append(all, "-"+f.Short)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// bashJobs completes the name of a job.
const bashJobs = `_elastic_jobs; COMPREPLY=($(compgen -W "${jobs[*]}" -- "$cur"))`

// bashValues writes a case COMMAND:FLAG for each flag with fixed values.
func bashValues(b *strings.Builder, table []Command) {
	for _, c := range table {
		for _, f := range c.Flags {
			pattern := c.Name + ":--" + f.Name
			if f.Short != "" {
				pattern += "|" + c.Name + ":-" + f.Short
			}
			switch values, files, dirs := f.completes(); {
			case values != nil:
				fmt.Fprintf(b, "    %s) COMPREPLY=($(compgen -W '%s' -- \"$cur\")) ;;\n",
					pattern, strings.Join(values, " "))
			case files:
				fmt.Fprintf(b, "    %s) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n", pattern)
			case dirs:
				fmt.Fprintf(b, "    %s) COMPREPLY=($(compgen -d -- \"$cur\")) ;;\n", pattern)
			case f.Arg == "JOB":
				fmt.Fprintf(b, "    %s) %s ;;\n", pattern, bashJobs)
			}
		}
	}
}

func zsh(w io.Writer, table []Command) error {
	var b strings.Builder
	b.WriteString(`#compdef elastic
# zsh completion of elastic: source <(elastic completion zsh), after compinit
_elastic() {
  local curcontext=$curcontext state line
  local -a commands jobs
  _arguments -C '1:command:->command' '*::argument:->argument'
  case $state in
  command)
    commands=(
`)
	for _, c := range table {
		fmt.Fprintf(&b, "      %s\n", quote(c.Name+":"+c.Usage))
	}
	b.WriteString("    )\n    _describe command commands ;;\n  argument)\n    case ${line[1]} in\n")
	for _, c := range table {
		fmt.Fprintf(&b, "    %s) _arguments", c.Name)
		for _, f := range c.Flags {
			zshFlag(&b, &f)
		}
		switch {
		case c.Most < 0:
			b.WriteString(" \\\n      '1:program:_command_names -e' '*::argument:_normal'")
		case c.takesJob():
			b.WriteString(" \\\n      '1:job:{_elastic_jobs; compadd -a jobs}' '*:argument:'")
		case c.Most > 0:
			b.WriteString(" \\\n      '*:argument:'")
		}
		b.WriteString(" ;;\n")
	}
	b.WriteString("    esac ;;\n  esac\n}\n" + strings.Replace(jobsInShell, "GLOB", "(N)", 1) +
		"compdef _elastic elastic\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// zshFlag writes the specs of one flag: --name=[usage]:what:action.
func zshFlag(b *strings.Builder, f *Flag) {
	usage := "[" + strings.NewReplacer("[", "(", "]", ")", ":", ";").Replace(f.Usage) + "]"
	action := ""
	if f.Kind != Boolean {
		what := strings.ReplaceAll(strings.ToLower(f.Arg), ":", " ")
		switch values, files, dirs := f.completes(); {
		case values != nil:
			action = ":" + what + ":(" + strings.Join(values, " ") + ")"
		case files:
			action = ":" + what + ":_files"
		case dirs:
			action = ":" + what + ":_files -/"
		case f.Arg == "JOB":
			action = ":job:{_elastic_jobs; compadd -a jobs}"
		default:
			action = ":" + what + ": "
		}
	}
	many := ""
	if f.Kind == list {
		many = "*"
	}
	equals := ""
	if f.Kind != Boolean {
		equals = "="
	}
	fmt.Fprintf(b, " \\\n      %s", quote(many+"--"+f.Name+equals+usage+action))
	if f.Short != "" {
		fmt.Fprintf(b, " \\\n      %s", quote(many+"-"+f.Short+usage+action))
	}
}

func fish(w io.Writer, table []Command) error {
	var b strings.Builder
	b.WriteString(`# fish completion of elastic: elastic completion fish | source
function __elastic_ran
    # the program of "elastic run" is there: the rest of the line is the program's
    set -l words (commandline -opc)
    contains -- run $words; or return 1
    set -l at (contains -i -- run $words)
    set -l skip 0
    for word in $words[(math $at + 1)..-1]
        if test $skip = 1
            set skip 0
        else if string match -q -- '-*' $word
            if contains -- (string replace -a -- _ - $word) `)
	b.WriteString(strings.Join(takers(table), " "))
	b.WriteString(`
                set skip 1
            end
        else
            return 0
        end
    end
    return 1
end
`)
	b.WriteString(jobsInFish + "complete -c elastic -n 'not __elastic_ran' -f\n")
	for _, c := range table {
		fmt.Fprintf(&b, "complete -c elastic -n __fish_use_subcommand -a %s -d %s\n", c.Name, quote(c.Usage))
	}
	for _, c := range table {
		when := fmt.Sprintf("__fish_seen_subcommand_from %s; and not __elastic_ran", c.Name)
		if c.Most < 0 {
			fmt.Fprintf(&b, "complete -c elastic -n %s -F -a '(__fish_complete_command)'\n", quote(when))
		}
		if c.takesJob() {
			fmt.Fprintf(&b, "complete -c elastic -n %s -a '(__elastic_jobs)'\n", quote(when))
		}
		for _, f := range c.Flags {
			fishFlag(&b, &f, quote(when))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func fishFlag(b *strings.Builder, f *Flag, when string) {
	fmt.Fprintf(b, "complete -c elastic -n %s -l %s", when, f.Name)
	if f.Short != "" {
		fmt.Fprintf(b, " -s %s", f.Short)
	}
	if f.Kind != Boolean {
		switch values, files, dirs := f.completes(); {
		case values != nil:
			fmt.Fprintf(b, " -x -a %s", quote(strings.Join(values, " ")))
		case files:
			b.WriteString(" -r -F")
		case dirs:
			b.WriteString(" -x -a '(__fish_complete_directories)'")
		case f.Arg == "JOB":
			b.WriteString(" -x -a '(__elastic_jobs)'")
		default:
			b.WriteString(" -x")
		}
	}
	fmt.Fprintf(b, " -d %s\n", quote(f.Usage))
}

// quote returns text as one word of a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
