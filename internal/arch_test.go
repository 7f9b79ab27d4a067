package internal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/elasticd/elastic/"

// may is which of our packages a package may import. The list reads from the schema up to the
// commands, and imports run one way. A new line here moves the architecture: docs/ARCHITECTURE.md
// says where to.
var may = map[string][]string{
	"pkg/store":                         {},
	"pkg/schema":                        {"pkg/store"},
	"pkg/history":                       {"pkg/schema", "pkg/store"},
	"pkg/machines":                      {"internal/phrase", "pkg/schema", "pkg/store"},
	"pkg/scaling":                       {},
	"pkg/roles":                         {"pkg/schema"},
	"pkg/membership":                    {"internal/phrase", "pkg/history", "pkg/schema", "pkg/store"},
	"pkg/checkpoint/manifest":           {"pkg/membership", "pkg/schema"},
	"pkg/checkpoint/dirfs":              {"pkg/checkpoint/manifest"},
	"pkg/checkpoint/chunkstore/restore": {"pkg/checkpoint/dirfs", "pkg/checkpoint/manifest"},
	"pkg/checkpoint/chunkstore/readonly": {"pkg/checkpoint/dirfs", "pkg/checkpoint/manifest",
		"pkg/schema"},
	"pkg/checkpoint/chunkstore": {"pkg/checkpoint/chunkstore/readonly", "pkg/checkpoint/dirfs",
		"pkg/checkpoint/manifest", "pkg/schema"},
	"pkg/checkpoint/capture": {"pkg/checkpoint/capture/files", "pkg/checkpoint/capture/table",
		"pkg/checkpoint/chunkstore", "pkg/checkpoint/chunkstore/restore", "pkg/checkpoint/dirfs",
		"pkg/checkpoint/manifest"},
	"pkg/checkpoint/capture/table": {},
	"pkg/checkpoint/capture/files": {"pkg/checkpoint/dirfs", "pkg/checkpoint/manifest"},
	"pkg/checkpoint/transfer": {"pkg/checkpoint/chunkstore", "pkg/checkpoint/chunkstore/restore",
		"pkg/checkpoint/dirfs", "pkg/checkpoint/manifest", "pkg/membership", "pkg/schema"},
	"pkg/checkpoint/parts": {"pkg/checkpoint/manifest", "pkg/membership", "pkg/schema"},
	"pkg/checkpoint": {"pkg/checkpoint/chunkstore", "pkg/checkpoint/dirfs",
		"pkg/checkpoint/manifest", "pkg/checkpoint/parts", "pkg/history", "pkg/membership",
		"pkg/schema", "pkg/store"},
	"pkg/checkpoint/replicator": {"pkg/checkpoint", "pkg/checkpoint/capture",
		"pkg/checkpoint/chunkstore", "pkg/checkpoint/chunkstore/restore", "pkg/checkpoint/dirfs",
		"pkg/checkpoint/manifest", "pkg/checkpoint/parts", "pkg/checkpoint/transfer",
		"pkg/membership", "pkg/schema", "pkg/store"},
	"pkg/checkpoint/pipeline": {"pkg/checkpoint", "pkg/checkpoint/capture",
		"pkg/checkpoint/chunkstore", "pkg/checkpoint/dirfs", "pkg/checkpoint/manifest",
		"pkg/checkpoint/parts", "pkg/checkpoint/replicator", "pkg/checkpoint/transfer",
		"pkg/membership", "pkg/schema", "pkg/store"},
	"internal/phrase":  {},
	"internal/regular": {},
	"internal/scope":   {},
	"internal/certs":   {"internal/regular"},
	"internal/version": {},
	"internal/problem": {"internal/phrase"},

	"pkg/membership/verdict": {"pkg/membership"},

	"pkg/rendezvous": {"internal/phrase", "pkg/checkpoint", "pkg/history", "pkg/membership",
		"pkg/roles", "pkg/scaling", "pkg/schema", "pkg/store"},
	"pkg/rendezvous/follow": {"pkg/history", "pkg/membership", "pkg/rendezvous", "pkg/schema",
		"pkg/store"},
	"pkg/rendezvous/plan/ledger": {"internal/phrase", "pkg/checkpoint", "pkg/membership",
		"pkg/membership/verdict", "pkg/rendezvous", "pkg/schema"},
	"pkg/rendezvous/plan": {"internal/phrase", "pkg/checkpoint", "pkg/membership",
		"pkg/membership/verdict", "pkg/rendezvous", "pkg/rendezvous/plan/ledger", "pkg/scaling",
		"pkg/schema", "pkg/store"},
	"pkg/rendezvous/txn": {"internal/phrase", "pkg/checkpoint", "pkg/history", "pkg/machines",
		"pkg/membership", "pkg/membership/verdict", "pkg/rendezvous", "pkg/rendezvous/plan",
		"pkg/schema", "pkg/store"},
	"pkg/rendezvous/status": {"internal/phrase", "pkg/checkpoint", "pkg/history", "pkg/membership",
		"pkg/membership/verdict", "pkg/rendezvous", "pkg/rendezvous/plan", "pkg/scaling",
		"pkg/schema"},
	"internal/agent/message": {"internal/phrase", "pkg/checkpoint", "pkg/membership",
		"pkg/membership/verdict", "pkg/rendezvous", "pkg/rendezvous/follow", "pkg/rendezvous/plan",
		"pkg/schema", "pkg/store"},
	"internal/agent/workers": {"internal/agent/message", "pkg/membership", "pkg/rendezvous",
		"pkg/schema", "pkg/store"},

	"internal/agent/machine": {"internal/agent/message", "internal/agent/workers",
		"internal/problem", "pkg/checkpoint", "pkg/membership", "pkg/membership/verdict",
		"pkg/rendezvous", "pkg/rendezvous/follow", "pkg/rendezvous/plan", "pkg/rendezvous/status",
		"pkg/schema", "pkg/store"},
	"internal/agent/joining": {"internal/agent/machine", "internal/agent/message",
		"internal/phrase", "internal/problem", "internal/version", "pkg/checkpoint",
		"pkg/machines", "pkg/membership", "pkg/rendezvous", "pkg/rendezvous/follow",
		"pkg/rendezvous/plan", "pkg/rendezvous/txn", "pkg/schema", "pkg/store"},
	"internal/agent": {"internal/agent/joining", "internal/agent/machine",
		"internal/agent/message", "pkg/checkpoint", "pkg/history", "pkg/membership",
		"pkg/rendezvous", "pkg/rendezvous/follow", "pkg/rendezvous/plan", "pkg/rendezvous/txn",
		"pkg/schema", "pkg/store"},
	"internal/peer":          {"pkg/membership", "pkg/schema"},
	"internal/diagnosis":     {}, // decides about what workers left
	"internal/logs":          {"internal/regular"},
	"internal/worker/output": {"internal/logs", "internal/regular"},
	"internal/hang": {"internal/diagnosis", "internal/phrase", "internal/regular", "pkg/history",
		"pkg/membership"},
	"internal/check": {"internal/launch", "internal/peer", "internal/phrase", "pkg/membership",
		"pkg/schema"},
	"internal/worker": {"internal/hang", "internal/logs", "internal/regular",
		"internal/worker/output", "internal/worker/proc"},
	"internal/worker/proc": {"pkg/membership"},
	"internal/launch":      {"internal/regular", "pkg/roles", "pkg/scaling"},
	"internal/handover":    {"internal/scope"},
	"internal/device":      {},
	"pkg/store/etcd":       {"pkg/schema", "pkg/store"},
	"internal/local":       {"internal/certs", "internal/problem", "internal/regular"},

	"internal/progress": {"internal/regular", "pkg/membership", "pkg/rendezvous",
		"pkg/rendezvous/txn", "pkg/schema"},
	"internal/node/disk": {"internal/agent/message", "pkg/checkpoint",
		"pkg/checkpoint/chunkstore/readonly", "pkg/checkpoint/dirfs", "pkg/rendezvous", "pkg/schema"},
	"internal/node/ensemble": {"internal/agent/message", "internal/launch", "internal/scope",
		"internal/worker", "pkg/rendezvous", "pkg/roles"},
	"internal/node": {"internal/agent", "internal/agent/joining", "internal/agent/message",
		"internal/check", "internal/device", "internal/diagnosis", "internal/handover",
		"internal/hang", "internal/launch", "internal/local", "internal/logs",
		"internal/node/disk", "internal/node/ensemble", "internal/node/peers",
		"internal/node/saves", "internal/peer", "internal/phrase", "internal/progress",
		"internal/regular", "internal/scope", "internal/worker", "internal/worker/output",
		"internal/worker/proc", "pkg/checkpoint", "pkg/checkpoint/capture",
		"pkg/checkpoint/transfer", "pkg/machines", "pkg/membership", "pkg/rendezvous",
		"pkg/rendezvous/plan", "pkg/rendezvous/txn", "pkg/roles", "pkg/schema", "pkg/store",
		"pkg/store/etcd", "python"},
	"internal/node/peers": {"internal/agent/machine", "internal/agent/message", "internal/peer",
		"internal/scope", "pkg/checkpoint/chunkstore", "pkg/checkpoint/transfer", "pkg/membership",
		"pkg/rendezvous/plan", "pkg/schema"},
	"internal/node/saves": {"internal/agent/message", "internal/node/disk", "internal/problem",
		"internal/regular", "internal/scope", "pkg/checkpoint", "pkg/checkpoint/capture",
		"pkg/checkpoint/chunkstore", "pkg/checkpoint/dirfs", "pkg/checkpoint/parts",
		"pkg/checkpoint/pipeline", "pkg/checkpoint/replicator", "pkg/checkpoint/transfer",
		"pkg/history", "pkg/machines", "pkg/membership", "pkg/rendezvous", "pkg/rendezvous/plan",
		"pkg/schema", "pkg/store"},
	"internal/cli/screen": {"internal/agent/message", "internal/launch", "internal/phrase",
		"internal/problem", "pkg/scaling", "pkg/schema", "pkg/store",
		"pkg/store/etcd"},
	"internal/cli/command": {"internal/agent/message", "internal/cli/screen", "internal/node",
		"internal/phrase", "internal/problem", "internal/regular", "pkg/rendezvous", "pkg/scaling",
		"pkg/schema"},
	"internal/cli/target": {"internal/certs", "internal/cli/command", "internal/cli/screen",
		"internal/local", "internal/node/disk", "internal/phrase", "internal/problem",
		"pkg/history", "pkg/rendezvous", "pkg/rendezvous/follow", "pkg/rendezvous/status",
		"pkg/rendezvous/txn", "pkg/roles", "pkg/schema", "pkg/store", "pkg/store/etcd"},
	"internal/cli/run/options": {"internal/cli/command", "internal/cli/screen",
		"internal/cli/target", "internal/device", "internal/launch", "internal/local",
		"internal/node", "internal/problem", "internal/regular", "internal/worker/output",
		"pkg/checkpoint", "pkg/rendezvous", "pkg/roles", "pkg/scaling", "pkg/schema"},
	"internal/cli/run": {"internal/agent/message", "internal/cli/command",
		"internal/cli/run/options", "internal/cli/screen", "internal/cli/target",
		"internal/device", "internal/launch", "internal/node", "internal/node/disk",
		"internal/phrase", "internal/problem", "pkg/checkpoint/capture", "pkg/membership", "pkg/rendezvous",
		"pkg/rendezvous/status", "pkg/scaling", "pkg/schema"},
	"internal/cli/ckpt": {"internal/cli/command", "internal/cli/screen", "internal/cli/target",
		"internal/node", "internal/overview", "internal/phrase", "internal/problem",
		"pkg/checkpoint", "pkg/checkpoint/chunkstore/readonly", "pkg/checkpoint/transfer",
		"pkg/membership", "pkg/rendezvous", "pkg/rendezvous/txn", "pkg/schema", "pkg/store"},
	"internal/cli": {"internal/cli/change", "internal/cli/ckpt", "internal/cli/command",
		"internal/cli/run", "internal/cli/run/options", "internal/cli/setup", "internal/cli/show",
		"internal/local", "internal/problem", "internal/version"},
	"internal/cli/change": {"internal/agent/message", "internal/cli/command",
		"internal/cli/screen", "internal/cli/target", "internal/kube", "internal/node/disk",
		"internal/phrase", "internal/problem", "pkg/checkpoint", "pkg/history", "pkg/machines",
		"pkg/membership", "pkg/rendezvous", "pkg/rendezvous/plan", "pkg/rendezvous/status",
		"pkg/rendezvous/txn", "pkg/scaling", "pkg/schema", "pkg/store"},
	"internal/cli/setup": {"internal/certs", "internal/check", "internal/cli/command",
		"internal/cli/target", "internal/local", "internal/phrase", "internal/problem",
		"internal/regular", "pkg/machines", "pkg/membership", "pkg/rendezvous",
		"pkg/rendezvous/txn", "pkg/schema", "python"},
	"internal/cli/show": {"internal/cli/command", "internal/cli/screen", "internal/cli/target",
		"internal/goodput", "internal/hang", "internal/logs", "internal/node", "internal/overview",
		"internal/page", "internal/phrase", "internal/problem", "internal/top", "pkg/history",
		"pkg/machines", "pkg/membership", "pkg/rendezvous", "pkg/rendezvous/status",
		"pkg/rendezvous/txn", "pkg/schema", "pkg/store"},
	"cmd/elastic": {"internal/cli", "internal/cli/command", "internal/node", "internal/worker",
		"pkg/store/etcd"},

	"internal/coordinator/jobs": {"pkg/checkpoint", "pkg/machines", "pkg/rendezvous", "pkg/schema",
		"pkg/store"},
	"internal/coordinator/streams": {"internal/scope"},
	"internal/coordinator": {"internal/certs", "internal/coordinator/jobs",
		"internal/coordinator/streams", "internal/page", "internal/phrase", "internal/problem",
		"pkg/schema", "pkg/store"},
	"cmd/elasticd": {"internal/certs", "internal/coordinator", "internal/local", "internal/problem",
		"internal/version"},

	"internal/goodput": {"pkg/history"},
	"internal/overview": {"internal/goodput", "internal/phrase", "internal/progress",
		"pkg/checkpoint", "pkg/history", "pkg/membership", "pkg/rendezvous",
		"pkg/rendezvous/status", "pkg/schema"},
	"internal/top": {"internal/cli/screen", "internal/goodput", "internal/logs", "internal/overview",
		"internal/page", "internal/phrase", "pkg/rendezvous/status", "pkg/schema"},
	"internal/page": {"internal/logs", "internal/overview", "internal/peer",
		"internal/progress", "internal/scope", "pkg/history", "pkg/membership", "pkg/rendezvous",
		"pkg/schema", "pkg/store"},

	// The Python helper as files: it knows nothing of Go.
	"python": {"internal/version"},

	// A program like any user's: it must work with what every worker is given.
	"cmd/elastic-demo": {},

	"internal/kube": {"pkg/history", "pkg/rendezvous", "pkg/rendezvous/status", "pkg/rendezvous/txn",
		"pkg/scaling", "pkg/schema", "pkg/store"},

	// The sandbox of a pod in the lab.
	"integration/kube/pause": {},

	// It measures the programs from outside.
	"bench":        {"bench/worker"},
	"bench/worker": {},

	// It packs what `go build` made.
	"release": {"internal/version", "python"},

	"pkg/checkpoint/dirfs/memfs": {"pkg/checkpoint/dirfs", "pkg/checkpoint/manifest"},
	"pkg/checkpoint/checkpointtest": {"pkg/checkpoint/chunkstore",
		"pkg/checkpoint/chunkstore/restore", "pkg/checkpoint/dirfs", "pkg/checkpoint/dirfs/memfs",
		"pkg/checkpoint/manifest", "pkg/membership", "pkg/schema"},
	"pkg/store/storetest": {"pkg/schema", "pkg/store"},
	"pkg/store/memory":    {"pkg/store"},
	"internal/etcdtest":   {"internal/coordinator/streams"},
	"integration/outside": {},
}

// only says which packages alone may import a foreign package directly, and why.
var only = []struct{ pkg, why, importers string }{
	{"github.com/urfave/cli/v2", "elastic parses its lines itself", "cmd/elasticd"},
	{"go.etcd.io/etcd/client/v3",
		"all others see store.Store: what a simulation shows holds on the real one",
		"pkg/store/etcd internal/coordinator internal/coordinator internal/coordinator/jobs " +
			"internal/etcdtest"},
	{"go.etcd.io/etcd/server/v3", "elastic links no etcd server",
		"cmd/elasticd internal/coordinator internal/etcdtest"},
	{"go.etcd.io/etcd/", "the rest of etcd belongs to the packages that speak to it",
		"cmd/elasticd pkg/store/etcd internal/coordinator internal/coordinator " +
			"internal/coordinator/jobs internal/etcdtest"},
	{"google.golang.org/grpc", "only the packages that speak to etcd know its transport",
		"pkg/store/etcd internal/coordinator internal/coordinator/jobs internal/coordinator/streams " +
			"internal/etcdtest"},
	{"github.com/prometheus/", "agents export no metrics: elasticd does, from the keys",
		"internal/coordinator internal/coordinator/jobs cmd/elasticd"},
	{"testing", "a package for tests is for tests",
		"pkg/store/storetest internal/etcdtest integration/outside " +
			"pkg/checkpoint/dirfs/memfs pkg/checkpoint/checkpointtest"},
}

// forTests are packages that no program links.
var forTests = []string{"pkg/store/storetest", "pkg/store/memory", "internal/etcdtest",
	"pkg/checkpoint/dirfs/memfs", "pkg/checkpoint/checkpointtest",
	"integration/outside"}

// goPackage is what `go list` says of one.
type goPackage struct {
	ImportPath, Dir string
	GoFiles         []string
	Imports         []string
	Deps            []string
}

func (p goPackage) name() string { return strings.TrimPrefix(p.ImportPath, module) }

func list(t *testing.T, args ...string) []goPackage {
	t.Helper()
	cmd := exec.Command("go",
		append([]string{"list", "-json=ImportPath,Dir,GoFiles,Imports,Deps"}, args...)...)
	cmd.Dir = ".."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var all []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestImports(t *testing.T) {
	found := map[string]bool{}
	for _, p := range list(t, "./...") {
		name := p.name()
		if len(p.GoFiles) == 0 {
			continue // tests and nothing else
		}
		found[name] = true
		allowed, known := may[name]
		if !known {
			t.Errorf("%s is new: say in this test which of our packages it may import", name)
		}
		for _, i := range p.Imports {
			if ours, ok := strings.CutPrefix(i, module); ok {
				if known && !slices.Contains(allowed, ours) {
					t.Errorf("%s imports %s: imports run one way, and it may import %q only",
						name, ours, allowed)
				}
				if slices.Contains(forTests, ours) && !slices.Contains(forTests, name) {
					t.Errorf("%s imports %s, which is for tests", name, ours)
				}
			}
			for _, o := range only {
				within := i == o.pkg || strings.HasPrefix(i, strings.TrimSuffix(o.pkg, "/")+"/")
				if within && !slices.Contains(strings.Fields(o.importers), name) {
					t.Errorf("%s imports %s: %s (%s may)", name, i, o.why, o.importers)
				}
			}
		}
	}
	for name := range may {
		if !found[name] {
			t.Errorf("%s is in this table and does not exist", name)
		}
	}
}

// The table itself runs one way: no package reaches itself through what it may import.
func TestImportsHaveNoCycle(t *testing.T) {
	var reach func(from string, path []string)
	reach = func(from string, path []string) {
		if slices.Contains(path, from) {
			t.Fatalf("%s → %s", strings.Join(path, " → "), from)
		}
		for _, to := range may[from] {
			if _, known := may[to]; !known {
				t.Errorf("%s may import %s, which is not in the table", from, to)
			}
			reach(to, append(slices.Clone(path), from))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(may)) {
		reach(name, nil)
	}
}

// What the programs link, through whomever.
func TestPrograms(t *testing.T) {
	never := map[string]map[string]string{
		"cmd/elastic": {
			"go.etcd.io/etcd/server": "elastic is small and links no etcd server: that is elasticd",
			"go.etcd.io/bbolt":       "elastic keeps no database",
			"go.etcd.io/raft":        "elastic is no member of a cluster",
		},
		"cmd/elastic-demo": {
			"go.etcd.io/": "the example knows what every worker is given and nothing of etcd",
			module:        "the example is a program like any user's",
		},
	}
	for name, links := range never {
		for _, p := range list(t, "./"+name) {
			for prefix, why := range links {
				if i := slices.IndexFunc(p.Deps,
					func(d string) bool { return strings.HasPrefix(d, prefix) }); i >= 0 {
					t.Errorf("%s links %s: %s", name, p.Deps[i], why)
				}
			}
		}
	}
}

// purePackages decide throughout.
var purePackages = []string{"internal/agent/message", "internal/agent/machine", "internal/agent/workers",
	"internal/diagnosis", "internal/problem", "pkg/checkpoint/capture/table", "pkg/checkpoint/parts",
	"pkg/membership/verdict",
	"pkg/rendezvous/plan", "pkg/rendezvous/plan/ledger", "pkg/rendezvous/status", "pkg/scaling"}

// noImport is what a package that decides does not import: it has no use for I/O, goroutines or
// chance.
var noImport = []string{"bufio", "context", "crypto/rand", "io", "io/fs", "math/rand", "math/rand/v2",
	"net", "net/http", "os", "os/exec", "runtime", "sync", "sync/atomic", "syscall"}

func TestPurePackages(t *testing.T) {
	found := 0
	for _, p := range list(t, "./...") {
		if !slices.Contains(purePackages, p.name()) {
			continue
		}
		found++
		for _, i := range p.Imports {
			if slices.Contains(noImport, i) {
				t.Errorf("%s imports %s: it decides, and everything outside comes to it as an argument",
					p.name(), i)
			}
		}
	}
	if found != len(purePackages) {
		t.Errorf("found %d of %q", found, purePackages)
	}
}

// banned are calls that have their place, or none.
var banned = []struct {
	calls  string
	where  func(pkg, file string) bool // where it is banned
	reason string
}{
	{"os.Exit log.Fatal log.Fatalf log.Fatalln", func(pkg, file string) bool {
		return !strings.HasPrefix(pkg, "cmd/") && pkg != "bench" && pkg != "release" ||
			filepath.Base(file) != "main.go"
	},
		"only main ends the process: all others return an error, and deferred work is done"},
	{"time.Sleep", func(pkg, _ string) bool { return !strings.HasPrefix(pkg, "bench") },
		"a function that waits takes a context and waits for a thing to happen"},
	{"time.Now time.Since time.Until time.After time.AfterFunc time.NewTimer time.NewTicker rand.Text " +
		"rand.N rand.IntN rand.Read os.Getenv",
		func(pkg, _ string) bool { return slices.Contains(purePackages, pkg) },
		"this package decides: time and chance are arguments, so that every decision can be tested"},
}

func TestBannedCalls(t *testing.T) {
	for _, p := range list(t, "./...") {
		isPure := slices.Contains(purePackages, p.name())
		for _, name := range p.GoFiles {
			file := filepath.Join(p.Dir, name)
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					if n.Name.Name == "init" && n.Recv == nil {
						t.Errorf("%s: an init function: nothing happens before main says so",
							fset.Position(n.Pos()))
					}
				case *ast.GoStmt:
					if isPure {
						t.Errorf("%s: a goroutine in a package that decides", fset.Position(n.Pos()))
					}
				case *ast.SelectorExpr:
					x, ok := n.X.(*ast.Ident)
					if !ok {
						return true
					}
					call := x.Name + "." + n.Sel.Name
					for _, b := range banned {
						if slices.Contains(strings.Fields(b.calls), call) && b.where(p.name(), file) {
							t.Errorf("%s: %s: %s", fset.Position(n.Pos()), call, b.reason)
						}
					}
				}
				return true
			})
		}
	}
}
