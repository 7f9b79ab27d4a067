package options

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/problem"
)

// workDir fails if the working directory was deleted: logs and relative paths would have no place.
func workDir(_ *command.Call, o *node.Options) (err error) {
	if o.Dir, err = os.Getwd(); err != nil {
		return problem.New(problem.WorkDir, "the working directory is gone").Because("%v", err).Of(err).
			Cure("cd to a directory that exists, and run the line again")
	}
	return nil
}

// modes fails if two flags of one line contradict each other. A flag overrides a variable and a
// line of elastic.yaml.
func modes(c *command.Call, _ *node.Options) error {
	if err := variables(c); err != nil {
		return err
	}
	for _, n := range []struct {
		name  string
		least int
	}{{"node-rank", 0}, {"master-port", 0}, {"rank", -1}} { // also where they are not needed
		if v, err := c.Setting(n.name).Number(0, n.least); err != nil {
			return err
		} else if n.name == "master-port" && v > 65535 {
			return c.Setting(n.name).Refuse("a port is at most 65535")
		}
	}
	for _, pair := range [][3]string{
		{"ips", "master-addr", "each names the first node"},
		{"ips", "node-rank", "the order of --ips gives the ranks"},
		{"ips", "rank", "the order of --ips gives the ranks"},
		{"ips", "standalone", "--standalone is one machine, with its local server"},
		{"node-rank", "rank", "each is the rank of this node"},
		{"server", "rdzv-endpoint", "each names the server"},
		{"server", "standalone", "--standalone uses the local server"},
		{"grace", "shutdown-timeout", "each is the time to save before a stop"},
		{"virtual-local-rank", "device-binding",
			"--virtual-local-rank is --device-binding=env with LOCAL_RANK=0"},
	} {
		a, b := c.Setting(pair[0]), c.Setting(pair[1])
		if a.From == command.FromFlag && b.From == command.FromFlag && a.Text != b.Text {
			return problem.New(problem.Usage, "%s and %s", a, b).Because("%s", pair[2]).
				Cure("leave one of them out")
		}
	}
	return nil
}

// hidesHelper warns about a user's file that "import elastic" finds before the Python helper.
// Python first searches the directory of the script, or for a module the working directory.
func hidesHelper(c *command.Call, before []string) {
	if before == nil {
		return
	}
	dir := filepath.Dir(c.Args[0])
	if slices.Contains(before, "-m") {
		dir = "."
	}
	for _, name := range []string{"elastic.py", filepath.Join("elastic", "__init__.py")} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			c.Out.Say("elastic: %s hides the Python helper: \"import elastic\" finds that file; rename "+
				"it if the script uses the helper", path)
			return
		}
	}
}
