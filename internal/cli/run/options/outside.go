package options

import (
	"strings"

	"github.com/elasticd/elastic/internal/launch"
)

// Nested reports whether the command runs in a worker of another job.
func Nested(getenv func(string) string) bool {
	return getenv("ELASTIC_GENERATION") != "" && getenv("ELASTIC_RANK") != ""
}

// Outside returns an environment for a run in a worker: without the variables that the worker was
// given, and without those that name the job and the nodes of the outer run.
func Outside(getenv func(string) string) func(string) string {
	return func(name string) string {
		for _, prefix := range []string{"PET_", "SLURM_", "PADDLE_"} {
			if strings.HasPrefix(name, prefix) && name != "PADDLE_ELASTIC_SERVER" {
				return ""
			}
		}
		switch name {
		case "TORCHELASTIC_ERROR_FILE": // the outer worker's, whose failure is that of this run
			return getenv(name)
		case "ELASTIC_NP", "ELASTIC_NPROC_PER_NODE", "ELASTIC_LOG_DIR":
			return ""
		}
		if launch.ForWorkers(name) {
			return ""
		}
		return getenv(name)
	}
}
