package cli

import (
	"github.com/elasticd/elastic/internal/cli/change"
	"github.com/elasticd/elastic/internal/cli/ckpt"
	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/run"
	"github.com/elasticd/elastic/internal/cli/run/options"
	"github.com/elasticd/elastic/internal/cli/setup"
	"github.com/elasticd/elastic/internal/cli/show"
)

// commands is the whole table.
func commands() []command.Command {
	return []command.Command{
		run.Command(), change.Scale(), show.Status(), show.Events(), show.Logs(), show.Explain(),
		setup.Check(), show.Jobs(), show.Nodes(), change.Stop(), change.Restart(), change.Drain(),
		change.Admit(), change.Rm(), change.Recover(), ckpt.Command(), options.Plan(), show.Goodput(),
		show.Page(), show.Top(), setup.Install(), setup.Wheel(), change.Kube(), show.Ready(),
		setup.Certs(), completionCommand(), manCommand(), versionCommand(),
	}
}
