package cli

import (
	"github.com/elasticd/elastic/internal/cli/ckpt"
	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/run"
)

// commands is the whole table.
func commands() []command.Command {
	all := []command.Command{
		run.Command(), scaleCommand(), statusCommand(), eventsCommand(), logsCommand(), explainCommand(),
		checkCommand(),
		jobsCommand(), nodesCommand(), stopCommand(), admitCommand(), rmCommand(), ckpt.Command(), run.PlanCommand(),
		goodputCommand(), installCommand(), wheelCommand(), kubeCommand(), readyCommand(), certsCommand(),
		completionCommand(), manCommand(),
		versionCommand(),
	}
	for i := range all {
		own := map[string]bool{}
		for _, f := range all[i].Flags {
			own[f.Name] = true
		}
		for _, f := range command.Everywhere() {
			if !own[f.Name] {
				all[i].Flags = append(all[i].Flags, f)
			}
		}
	}
	return all
}
