package options

import (
	"cmp"
	"fmt"
	"time"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/internal/node"
)

// Announcement returns the first lines of Paddle's launcher: its arguments, and the mode of the
// job.
func Announcement(c *command.Call, o *node.Options) string {
	return fmt.Sprint(arguments(c, o), announceMode(c, o))
}

// arguments returns the arguments that Paddle's launcher prints.
func arguments(c *command.Call, o *node.Options) launch.Arguments {
	return launch.Arguments{GPUs: c.Setting("gpus").Text, IPs: cmp.Or(c.Setting("ips").Text, "127.0.0.1"),
		LogDir: o.LogDir,
		Heters: c.Setting("heter-workers").Text, HeterNum: c.Setting("heter-worker-num").Text,
		HTTPPort: c.Setting("http-port").Text, Servers: c.Setting("servers").Text,
		ServerNum: c.Setting("server-num").Text, Workers: c.Setting("workers").Text,
		WorkerNum: c.Setting("worker-num").Text,
		NProc:     c.Setting("nproc-per-node").Text, Script: c.Args[0], ScriptArgs: c.Args[1:]}
}

// announceMode returns the line about parameter servers.
func announceMode(c *command.Call, o *node.Options) string {
	if o.Job.Roles == nil {
		return ""
	}
	return launch.AnnounceMode(givenRoles(c), len(o.Launcher.Devices.Devices), time.Now()) + "\n"
}
