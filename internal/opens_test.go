package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// opening is a reason to open a file without the package regular.
type opening string

const (
	// ours: in a directory that only our user can enter.
	ours opening = "ours"
	// system: in /proc, /sys or another place that only the system writes.
	system opening = "system"
	// fresh: made under a random name, and never opened if it was there before.
	fresh opening = "fresh"
	// directory: it is opened as a directory, or fails.
	directory opening = "directory"
	// rooted: below a directory that is open, without links and without waiting.
	rooted opening = "rooted"
	// named: the user named it for this command, who would wait for it.
	named opening = "named"
	// tool: not part of what runs on a node.
	tool opening = "tool"
)

// opens lists every open of a file in the code that is not made by the package regular: how many
// each source file has, and why none of them can be led elsewhere, be blocked or be fed without end.
var opens = map[string]struct {
	count int
	why   opening
}{
	"cmd/elastic-demo/save.go":                        {3, tool},
	"cmd/elastic-demo/train.go":                       {1, tool},
	"internal/certs/directory.go":                     {1, fresh},
	"internal/check/disk.go":                          {1, fresh},
	"internal/cli/run/alone.go":                       {1, ours},
	"internal/cli/run/errorfile.go":                   {1, named},
	"internal/cli/run/options/dirs.go":                {1, fresh},
	"internal/cli/run/outcome.go":                     {1, system},
	"internal/cli/setup/install.go":                   {2, named},
	"internal/cli/setup/wheel.go":                     {1, named},
	"internal/coordinator/backup.go":                  {1, fresh},
	"internal/coordinator/dir.go":                     {6, ours},
	"internal/coordinator/exposure.go":                {1, named},
	"internal/coordinator/pages.go":                   {1, named},
	"internal/coordinator/http.go":                    {2, named},
	"internal/device/health.go":                       {1, system},
	"internal/device/numa.go":                         {2, system},
	"internal/device/vendors.go":                      {3, system},
	"internal/handover/handover.go":                   {1, directory},
	"internal/hang/inspect.go":                        {2, ours},
	"internal/hang/pulse.go":                          {6, system},
	"internal/kube/client.go":                         {3, system},
	"internal/launch/ports.go":                        {1, system},
	"internal/launch/program.go":                      {1, named},
	"internal/local/dirs.go":                          {1, ours},
	"internal/local/ensure.go":                        {2, ours},
	"internal/local/local.go":                         {1, ours},
	"internal/local/server.go":                        {2, ours},
	"internal/local/token.go":                         {1, ours},
	"internal/node/disk/files.go":                     {4, ours},
	"internal/node/disk/living.go":                    {1, system},
	"internal/node/logs.go":                           {1, ours},
	"internal/node/node.go":                           {2, system},
	"internal/progress/kubeflow.go":                   {2, system},
	"internal/worker/guard.go":                        {1, system},
	"internal/worker/guardian.go":                     {2, system},
	"internal/worker/output/logs.go":                  {1, directory},
	"internal/worker/proc/cgroup.go":                  {6, system},
	"internal/worker/proc/memory.go":                  {4, system},
	"internal/worker/proc/proc.go":                    {5, system},
	"internal/worker/warm.go":                         {1, system},
	"pkg/checkpoint/checkpointtest/checkpointtest.go": {4, tool},
	"pkg/checkpoint/dirfs/fs.go":                      {1, rooted},
	"pkg/store/etcd/probe.go":                         {1, named},
	"python/helper.go":                                {2, ours},
	"python/programs.go":                              {1, ours},
}

// openers are the functions that open files, by package.
var openers = map[string][]string{
	"os": {"Open", "OpenFile", "ReadFile", "WriteFile", "Create", "CreateTemp", "OpenRoot",
		"OpenInRoot", "DirFS"},
	"unix":    {"Open", "Openat", "Openat2", "Creat"},
	"syscall": {"Open", "Openat", "Creat"},
	"ioutil":  {"ReadFile", "WriteFile"},
	"tls":     {"LoadX509KeyPair"},
}

// Files in places where others may write are opened by the package regular alone.
func TestEveryOpenIsListed(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	for _, top := range []string{"../cmd", ".", "../pkg", "../python"} {
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				path == filepath.Join("regular", "regular.go") {
				return err
			}
			n, err := opensIn(path)
			if n > 0 {
				found[strings.TrimPrefix(filepath.Join("internal", path), "../")] = n
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if found[path] != opens[path].count {
			t.Errorf("%s opens %d files itself, and %d are listed: use the package regular where others "+
				"may write, or list it with the reason", path, found[path], opens[path].count)
		}
	}
	for path := range opens {
		if found[path] == 0 {
			t.Errorf("%s is listed, and opens nothing", path)
		}
	}
}

func opensIn(path string) (n int, err error) {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return 0, fmt.Errorf("parse: %w", err)
	}
	ast.Inspect(f, func(x ast.Node) bool {
		if s, ok := x.(*ast.SelectorExpr); ok {
			if p, ok := s.X.(*ast.Ident); ok && p.Obj == nil && slices.Contains(openers[p.Name], s.Sel.Name) {
				n++
			}
		}
		return true
	})
	return n, nil
}
