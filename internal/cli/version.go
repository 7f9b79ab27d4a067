package cli

import (
	"context"
	"runtime"
	"runtime/debug"
)

func versionCommand() command {
	return command{name: "version", usage: "which elastic this is", action: versionAction}
}

func versionAction(_ context.Context, c *call) error {
	if c.out.json {
		return c.out.object(map[string]string{"version": version(), "go": runtime.Version()})
	}
	return c.out.line("elastic %s", version())
}

// version is that of the build: the module's, or the commit's.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}
