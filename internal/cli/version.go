package cli

import (
	"context"
	"runtime"
	"runtime/debug"

	"github.com/elasticd/elastic/internal/cli/command"
)

func versionCommand() command.Command {
	return command.Command{Name: "version", Usage: "which elastic this is", Action: versionAction, File: command.FileNone}
}

func versionAction(_ context.Context, c *command.Call) error {
	if c.Out.Json {
		return c.Out.Object(map[string]string{"version": version(), "go": runtime.Version()})
	}
	return c.Out.Line("elastic %s", version())
}

// version is that of the build: the module's, or the commit's.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}
