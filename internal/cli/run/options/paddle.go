package options

import (
	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/problem"
)

// paddleVariables are variables of Paddle's launcher that override its flags, by our flags.
var paddleVariables = map[string]string{"np": "PADDLE_NNODES", "nproc-per-node": "PADDLE_NPROC_PER_NODE",
	"rdzv-endpoint": "PADDLE_MASTER", "job-id": "PADDLE_JOB_ID", "rank": "PADDLE_RANK", "gpus": "PADDLE_DEVICES",
	"ips": "PADDLE_IPS", "max-restarts": "PADDLE_MAX_RESTART", "run-mode": "PADDLE_RUN_MODE"}

// paddleUnused are variables of Paddle's launcher that are not needed, as the flags of those names.
var paddleUnused = []string{"PADDLE_LOG_LEVEL", "PADDLE_LOG_OVERWRITE", "PADDLE_SORT_IP", "PADDLE_ELASTIC_LEVEL",
	"PADDLE_ELASTIC_TIMEOUT", "PADDLE_GLOO_PORT", "PADDLE_START_PORT"}

// variables fails if a flag and a variable of Paddle's launcher say different things: Paddle takes
// the variable, and every other program the flag.
func variables(c *command.Call) error {
	for _, f := range c.Command.Flags {
		name, ok := paddleVariables[f.Name]
		s := c.Setting(f.Name)
		if v := c.Getenv(name); ok && v != "" && s.From == command.FromFlag && v != s.Text {
			return problem.New(problem.Usage, "%s=%s and %s=%s", s.Typed, s.Text, name, v).
				Because("Paddle's launcher takes the variable, and elastic the flag").
				Cure("unset %s, or leave %s out", name, s.Typed)
		}
	}
	return nil
}

// Unneeded returns the variables of Paddle's launcher that are set and not used.
func Unneeded(c *command.Call) (names []string) {
	for _, name := range paddleUnused {
		if c.Getenv(name) != "" {
			names = append(names, name)
		}
	}
	return names
}
