package command

import "strings"

// Names of jobs are completed from the state directory of this user: a job has a directory there
// once a node of it ran on this host. The shells list it themselves. No elastic command runs and no
// server is asked while the user types. A directory NAME~UID is of an earlier job of the name.

// takesJob reports whether the first positional of a command is a job.
func (c *Command) takesJob() bool {
	return strings.HasPrefix(strings.Trim(c.Args, "["), "JOB")
}

// ofJobs lists the commands whose first positional is a job.
func ofJobs(table []Command) (names []string) {
	for _, c := range table {
		if c.takesJob() {
			names = append(names, c.Name)
		}
	}
	return names
}

// jobsInShell is the function of bash and zsh that sets the array jobs.
const jobsInShell = `_elastic_jobs() {
  local state=${ELASTIC_STATE_DIR:-${PADDLE_ELASTIC_STATE_DIR:-${XDG_STATE_HOME:-$HOME/.local/state}/elastic}}
  local dir
  jobs=()
  for dir in "$state"/*/nodes/*/jobs/*GLOB; do
    dir=${dir##*/}
    if [[ $dir != *[~*]* ]]; then jobs+=("$dir"); fi
  done
}
`

// jobsInFish is the same for fish, which prints them.
const jobsInFish = `function __elastic_jobs
    set -l state $HOME/.local/state/elastic
    test -n "$XDG_STATE_HOME"; and set state $XDG_STATE_HOME/elastic
    test -n "$PADDLE_ELASTIC_STATE_DIR"; and set state $PADDLE_ELASTIC_STATE_DIR
    test -n "$ELASTIC_STATE_DIR"; and set state $ELASTIC_STATE_DIR
    for path in $state/*/nodes/*/jobs/*
        string match -v -- '*~*' (string replace -r '.*/' '' -- $path)
    end
end
`
