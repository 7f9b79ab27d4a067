package cli

import (
	"context"
	"runtime"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/version"
)

func versionCommand() command.Command {
	return command.Command{Name: "version", Usage: "the version of elastic", Action: versionAction,
		File: command.FileNone}
}

func versionAction(_ context.Context, c *command.Call) error {
	if c.Out.Json {
		return c.Out.Object(map[string]string{"version": version.String(), "go": runtime.Version()})
	}
	return c.Out.Line("elastic %s", version.String())
}
