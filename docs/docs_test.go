// Package docs holds the documents to the code: what is there is written down, and what is written
// down is there.
package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/elasticd/elastic/internal/cli"
	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/scaling"
)

const root = ".."

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// sources parses the files of a folder that are no tests, or one file.
func sources(t *testing.T, name string) []*ast.File {
	t.Helper()
	paths := []string{filepath.Join(root, name)}
	if !strings.HasSuffix(name, ".go") {
		paths, _ = filepath.Glob(filepath.Join(root, name, "*.go"))
	}
	var files []*ast.File
	for _, p := range paths {
		if strings.HasSuffix(p, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		t.Fatalf("no source in %s", name)
	}
	return files
}

// constants are the values of the string constants of a type, by name.
func constants(t *testing.T, folder, typ string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, f := range sources(t, folder) {
		ast.Inspect(f, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 {
				return true
			}
			if id, ok := v.Type.(*ast.Ident); ok && id.Name == typ {
				if s, ok := literal(v.Values[0]); ok {
					found[v.Names[0].Name] = s
				}
			}
			return true
		})
	}
	if len(found) == 0 {
		t.Fatalf("no constants of type %s in %s", typ, folder)
	}
	return found
}

func literal(e ast.Expr) (string, bool) {
	b, ok := e.(*ast.BasicLit)
	if !ok || b.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(b.Value)
	return s, err == nil
}

// literals are the strings anywhere below n.
func literals(n ast.Node) (all []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if e, ok := n.(ast.Expr); ok {
			if s, ok := literal(e); ok {
				all = append(all, s)
			}
		}
		return true
	})
	return all
}

// names reports whether a document has a word in backticks, alone or followed by what it takes.
func names(doc, word string) bool {
	return regexp.MustCompile("`" + regexp.QuoteMeta(word) + "[ `=]").MatchString(doc)
}

func TestTermsOfTheReference(t *testing.T) {
	ref := read(t, "docs/REFERENCE.md")
	for _, c := range []struct{ folder, typ, what string }{
		{"pkg/rendezvous", "Why", "why_code"},
		{"pkg/rendezvous", "Cause", "cause"},
		{"pkg/rendezvous/status", "State", "state of a job"},
		{"pkg/rendezvous", "Phase", "phase"},
		{"pkg/rendezvous/status", "NodeState", "state of a node"},
		{"pkg/membership", "Sign", "sign"},
		{"pkg/membership", "Reason", "reason"},
		{"pkg/scaling", "Policy", "policy"},
	} {
		for _, v := range constants(t, c.folder, c.typ) {
			if c.typ == "Phase" && (v == "forming" || v == "waiting") { // shown as starting and waiting
				continue
			}
			if !names(ref, v) {
				t.Errorf("%s %q of %s is not in REFERENCE.md", c.what, v, c.folder)
			}
		}
	}
}

// Each kind of event has a row; its fields are not checked.
func TestEvents(t *testing.T) {
	_, ref, _ := strings.Cut(read(t, "docs/REFERENCE.md"), "\n## Events\n")
	ref, _, _ = strings.Cut(ref, "\n## ")
	kinds := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(ref, -1) {
		for _, k := range strings.Split(row[1], ", ") {
			kinds[strings.Trim(k, "`")] = true
		}
	}
	code := constants(t, "pkg/history", "Kind")
	for _, k := range code {
		if !kinds[k] {
			t.Errorf("event %s has no row in REFERENCE.md", k)
		}
		delete(kinds, k)
	}
	for k := range kinds {
		t.Errorf("there is no event %s", k)
	}
}

// statuses are the exit statuses of Code.status, by the name of the constant.
func statuses(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, f := range sources(t, "internal/problem") {
		ast.Inspect(f, func(n ast.Node) bool {
			c, ok := n.(*ast.CaseClause)
			if !ok || len(c.Body) != 1 {
				return true
			}
			r, ok := c.Body[0].(*ast.ReturnStmt)
			if !ok || len(r.Results) != 1 {
				return true
			}
			if b, ok := r.Results[0].(*ast.BasicLit); ok {
				for _, e := range c.List {
					found[e.(*ast.Ident).Name] = b.Value
				}
			}
			return true
		})
	}
	if len(found) == 0 {
		t.Fatal("no exit statuses in internal/problem")
	}
	return found
}

func TestErrorCodes(t *testing.T) {
	ref := read(t, "docs/REFERENCE.md")
	codes, status := constants(t, "internal/problem", "Code"), statuses(t)
	code := regexp.MustCompile(`E-[A-Z]+(?:-[A-Z]+)*`)
	rows := regexp.MustCompile("(?m)^\\| (`E-[^|]*) \\| ([0-9]+) \\|.*$").FindAllStringSubmatch(ref, -1)
	for name, c := range codes {
		i := slices.IndexFunc(rows, func(r []string) bool { return names(r[1]+" ", c) })
		if i < 0 {
			t.Errorf("%s has no row in REFERENCE.md", c)
			continue
		}
		want, ok := status[name]
		if !ok {
			want = "1"
		}
		if rows[i][2] != want {
			t.Errorf("%s: status %s in REFERENCE.md, %s in the code", c, rows[i][2], want)
		}
	}
	known := slices.Collect(maps.Values(codes))
	for name, doc := range documents(t) {
		for _, c := range code.FindAllString(doc, -1) {
			if !slices.Contains(known, c) {
				t.Errorf("%s: %s is no error code", name, c)
			}
		}
	}
}

// elastic runs a command line in this process, without an environment.
func elastic(t *testing.T, args ...string) string {
	t.Helper()
	var out, words bytes.Buffer
	app := command.App{Stdout: &out, Stderr: &words, Getenv: func(string) string { return "" }}
	if status := cli.Main(app, args); status != 0 {
		t.Fatalf("elastic %q: %d\n%s", args, status, &words)
	}
	return out.String()
}

var someFlag = regexp.MustCompile("--[a-z][a-z-]*")

// manual is the manual page, which has all flags, their spellings and their variables.
func manual(t *testing.T) string {
	t.Helper()
	return strings.ReplaceAll(elastic(t, "man"), `\-`, "-")
}

// A flag that the reference names is one of a command, or one that is taken and not used.
func TestFlagsOfTheReference(t *testing.T) {
	ref, _, _ := strings.Cut(read(t, "docs/REFERENCE.md"), "\n## elasticd\n")
	known := map[string]bool{"--help": true}
	for _, f := range someFlag.FindAllString(manual(t), -1) {
		known[f] = true
	}
	_, unused, _ := strings.Cut(ref, "Accepted without effect")
	unused, _, _ = strings.Cut(unused, "\n\n")
	for _, f := range someFlag.FindAllString(unused, -1) {
		known[f] = true
	}
	found := regexp.MustCompile("`(--[a-z][a-z_-]*)").FindAllStringSubmatch(ref, -1)
	if len(found) < 50 {
		t.Fatalf("%d flags in REFERENCE.md", len(found))
	}
	for _, f := range found {
		if !known[strings.ReplaceAll(f[1], "_", "-")] {
			t.Errorf("%s is in REFERENCE.md, and is no flag", f[1])
		}
	}
}

// Other spellings, flags that are taken and not used, and variables that are read as settings.
func TestSpellingsAndSettings(t *testing.T) {
	ref, man := read(t, "docs/REFERENCE.md"), manual(t)
	flags, variables := map[string]bool{}, map[string]bool{}
	for _, f := range slices.Concat(sources(t, "internal/cli"), sources(t, "internal/cli/command"),
		sources(t, "internal/cli/target"),
		sources(t, "internal/cli/run"), sources(t, "internal/cli/run/options"),
		sources(t, "internal/local")) {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				key, _ := n.Key.(*ast.Ident)
				if key != nil && (key.Name == "Same" || key.Name == "Env") {
					for _, s := range literals(n.Value) {
						if key.Name == "Same" {
							flags[s] = true
						} else {
							variables[s] = true
						}
					}
				}
			case *ast.FuncDecl:
				if n.Recv == nil && n.Name.Name == "unused" {
					for _, s := range literals(n) {
						flags[s] = true
					}
				}
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Getenv" && len(n.Args) == 1 {
					if s, ok := literal(n.Args[0]); ok && s != strings.ToLower(s) {
						variables[s] = true
					}
				}
			}
			return true
		})
	}
	if len(flags) < 10 || len(variables) < 10 {
		t.Fatalf("found %d spellings and %d variables: is the table of flags somewhere else?", len(flags),
			len(variables))
	}
	for f := range flags {
		if !names(ref, "--"+f) && !strings.Contains(man, "--"+f) {
			t.Errorf("--%s is neither in REFERENCE.md nor in the manual page", f)
		}
	}
	for _, ordinary := range []string{"PATH", "TERM", "USER"} { // read, and no settings of ours
		delete(variables, ordinary)
	}
	for v := range variables {
		if !names(ref, v) && !strings.Contains(man, v) {
			t.Errorf("%s is read, and is neither in REFERENCE.md nor in the manual page", v)
		}
	}
}

func TestFlagsOfElasticd(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "elasticd")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "../cmd/elasticd").
		CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	help, err := exec.CommandContext(t.Context(), bin, "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, ref, _ := strings.Cut(read(t, "docs/REFERENCE.md"), "\n## elasticd\n")
	flags := regexp.MustCompile(`(?m)^ +--([a-z][a-z-]*)`).FindAllStringSubmatch(string(help), -1)
	if len(flags) < 15 {
		t.Fatalf("%d flags in\n%s", len(flags), help)
	}
	for _, f := range flags {
		if !names(ref, "--"+f[1]) {
			t.Errorf("--%s of elasticd is not in REFERENCE.md", f[1])
		}
	}
}

func TestMetrics(t *testing.T) {
	ref, found := read(t, "docs/REFERENCE.md"), 0
	for _, f := range slices.Concat(sources(t, "internal/coordinator"),
		sources(t, "internal/coordinator/jobs")) {
		ast.Inspect(f, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok && len(c.Args) > 0 {
				id, _ := c.Fun.(*ast.Ident)
				method, _ := c.Fun.(*ast.SelectorExpr)
				if id != nil && id.Name == "Desc" || method != nil &&
					(method.Sel.Name == "Desc" || method.Sel.Name == "gauge") {
					if s, ok := literal(c.Args[0]); ok {
						if found++; !names(ref, "elastic_"+s) {
							t.Errorf("elastic_%s is not in REFERENCE.md", s)
						}
					}
				}
			}
			return true
		})
	}
	if found == 0 {
		t.Error("no metrics in internal/coordinator")
	}
}

// Alert rules and the dashboard ask for metrics that there are, and are well formed.
func TestMonitoring(t *testing.T) {
	ref, alerts, board := read(t, "docs/REFERENCE.md"), read(t, "deploy/monitoring/alerts.yaml"),
		read(t, "deploy/monitoring/grafana.json")
	asked := regexp.MustCompile(`elastic_(job|store)_[a-z_]+`).FindAllString(alerts+board, -1)
	if len(asked) < 20 {
		t.Fatalf("only %d metrics are asked for", len(asked))
	}
	for _, name := range asked {
		if !names(ref, name) {
			t.Errorf("%s is in deploy/monitoring and not in REFERENCE.md", name)
		}
	}
	if !json.Valid([]byte(board)) {
		t.Error("grafana.json is no JSON")
	}
	for _, rule := range strings.Split(alerts, "- alert: ")[1:] {
		for _, part := range []string{"expr: ", "severity: ", "summary: ", "action: "} {
			if !strings.Contains(rule, part) {
				t.Errorf("no %sin the alert %s", part, strings.Fields(rule)[0])
			}
		}
	}
}

// The recipe of the README runs by itself, saves where its variables say, and loads all that it saved.
func TestRecipe(t *testing.T) {
	_, recipe, _ := strings.Cut(read(t, "README.md"), "```python\n")
	recipe, _, ok := strings.Cut(recipe, "```")
	if !ok {
		t.Fatal("no recipe in the README")
	}
	const stand = `import os, pickle, types
torch = types.SimpleNamespace(
    save=lambda v, path: pickle.dump(v, open(path, "wb")),
    load=lambda path: pickle.load(open(path, "rb")))
class Part(dict):
    state_dict = lambda self: dict(self)
    load_state_dict = dict.update
rank, model, optimizer = 0, Part(), Part()
if not os.environ.get("ELASTIC_RESUME_FROM"): model["w"], optimizer["m"] = 1, 2
`
	dir := t.TempDir()
	run := func(env ...string) {
		t.Helper()
		cmd := exec.Command("python3", "-c", stand+recipe+
			"assert (model, optimizer) == ({'w': 1}, {'m': 2}), (model, optimizer)\n")
		cmd.Dir, cmd.Env = dir, append([]string{"PATH=" + os.Getenv("PATH")}, env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("with %v: %v\n%s", env, err, out)
		}
	}
	run()
	run("ELASTIC_CHECKPOINT_DIR="+filepath.Join(dir, "work"), "ELASTIC_RESUME_FROM="+
		filepath.Join(dir, "checkpoints", "last.ckpt"))
	if _, err := os.Stat(filepath.Join(dir, "work", "last.ckpt")); err != nil {
		t.Error(err)
	}
}

// What a worker is given: everything that can be.
func TestEnvironment(t *testing.T) {
	step := int64(1)
	in := launch.Inputs{Job: "x", Generation: 2, Node: "a", Nodes: 1, Workers: 2, WorldSize: 2,
		CheckpointDir: "/c", RunDir: "/r",
		Resume:     &launch.Resume{From: "/c/step-1", Step: &step, Samples: &step},
		Plan:       &scaling.Plan{GlobalBatch: 2, BatchSizes: []int{1, 1}, GradAccum: 1, LR: 1, LRScale: 1},
		LRScale:    1,
		MasterHost: "h", MasterPort: 1, PaddlePort: 2, Endpoints: []string{"h:3", "h:4"}}
	ref := read(t, "docs/REFERENCE.md")
	given := launch.Environ(in)[0]
	for _, f := range sources(t, "internal/worker") {
		for _, s := range literals(f) {
			if strings.HasPrefix(s, "ELASTIC_") {
				given = append(given, s+"=")
			}
		}
	}
	for _, kv := range given {
		name, _, _ := strings.Cut(kv, "=")
		if !names(ref, name) {
			t.Errorf("%s is given to workers, and is not in REFERENCE.md", name)
		}
	}
	if len(given) < 40 {
		t.Errorf("only %d variables: %v", len(given), given)
	}
}

// The example of `elastic status -o json` has the fields of the code, and no others.
func TestStatusExample(t *testing.T) {
	_, example, _ := strings.Cut(read(t, "docs/REFERENCE.md"), "```json\n")
	example, _, _ = strings.Cut(example, "```")
	var want, got map[string]any
	if err := json.Unmarshal([]byte(example), &want); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(status.Status{Nodes: []status.Node{{}}, World: []rendezvous.Seat{{}},
		Checkpoint: &status.Checkpoint{},
		Plan:       &scaling.Plan{}, Progress: &status.Progress{}, Origin: &status.Origin{},
		Server: &status.Server{}})
	if err == nil {
		err = json.Unmarshal(b, &got)
	}
	if err != nil {
		t.Fatal(err)
	}
	if w, g := fields("", want), fields("", got); !slices.Equal(w, g) {
		t.Errorf("fields of the example\n%s\nof the code\n%s", w, g)
	}
}

// fields are the paths of all fields; of a list those of its first element.
func fields(at string, v any) (all []string) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			all = append(append(all, at+"."+k), fields(at+"."+k, v[k])...)
		}
	case []any:
		if len(v) > 0 {
			all = fields(at, v[0])
		}
	}
	return all
}

// documents are all pages of the project, by their path from its root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" ||
			d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(path, ".md") {
			name := strings.TrimPrefix(path, root+"/")
			found[name] = read(t, name)
		}
		return nil
	})
	if err != nil || len(found) < 6 {
		t.Fatalf("%d documents: %v", len(found), err)
	}
	return found
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fence   = regexp.MustCompile("(?ms)^```.*?^```")
	noSlug  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors are the names under which GitHub shows the headings of a page.
func anchors(doc string) (all []string) {
	for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(doc, ""), -1) {
		all = append(all, strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
	}
	return all
}

func TestLinks(t *testing.T) {
	docs := documents(t)
	for name, doc := range docs {
		for _, l := range link.FindAllStringSubmatch(fence.ReplaceAllString(doc, ""), -1) {
			if strings.Contains(l[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(l[1], "#")
			target := name
			if path != "" {
				target = filepath.Join(filepath.Dir(name), path)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: dead link %s", name, l[1])
			} else if anchor != "" && !slices.Contains(anchors(docs[target]), anchor) {
				t.Errorf("%s: no heading for %s; there are %v", name, l[1], anchors(docs[target]))
			}
		}
	}
}

// declared are the names at the top of a file: functions, types, constants, and methods as
// Type.method.
func declared(f *ast.File) map[string]bool {
	found := map[string]bool{}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			found[name] = true
			if d.Recv != nil {
				typ := d.Recv.List[0].Type
				if p, ok := typ.(*ast.StarExpr); ok {
					typ = p.X
				}
				if id, ok := typ.(*ast.Ident); ok {
					found[id.Name+"."+name] = true
				}
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					found[s.Name.Name] = true
				case *ast.ValueSpec:
					for _, n := range s.Names {
						found[n.Name] = true
					}
				}
			}
		}
	}
	return found
}

func TestNamesOfTheArchitecture(t *testing.T) {
	doc := read(t, "docs/ARCHITECTURE.md")
	pairs := regexp.MustCompile("`([A-Za-z][\\w.]*)`(?:,| in| \\() ?`((?:cmd|internal|pkg)/[\\w/.]+\\.go)`").
		FindAllStringSubmatch(doc, -1)
	for _, p := range pairs {
		if _, err := os.Stat(filepath.Join(root, p[2])); err != nil {
			t.Errorf("%s: there is no %s", p[1], p[2])
		} else if !declared(sources(t, p[2])[0])[p[1]] {
			t.Errorf("%s is not in %s", p[1], p[2])
		}
	}
	tests := map[string]bool{}
	for _, folder := range []string{"cmd", "internal", "pkg", "integration", "spec"} {
		err := filepath.WalkDir(filepath.Join(root, folder),
			func(path string, d fs.DirEntry, err error) error {
				if err == nil && strings.HasSuffix(path, "_test.go") {
					b, err := os.ReadFile(path)
					for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t `).FindAllSubmatch(b, -1) {
						tests[string(m[1])] = true
					}
					return err
				}
				return err
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	protocol, security := read(t, "docs/PROTOCOL.md"), read(t, "docs/SECURITY.md")
	for _, m := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(doc+protocol+security, -1) {
		if !tests[m[1]] {
			t.Errorf("there is no %s", m[1])
		}
	}
	_, threats, _ := strings.Cut(security, "| --- | --- | --- | --- |\n")
	threats, _, _ = strings.Cut(threats, "\n\n")
	for row := range strings.SplitSeq(threats, "\n") {
		if !regexp.MustCompile("`Test\\w+` \\|$").MatchString(row) {
			t.Errorf("a threat without a test: %s", row)
		}
	}
	for i := 1; i <= 8; i++ {
		if row := regexp.MustCompile(fmt.Sprintf("(?m)^\\| G%d \\|.*`Test\\w+`.*$", i)); !row.MatchString(
			protocol) {
			t.Errorf("G%d has no test", i)
		}
	}
}

// A path in backticks, and a target of make, is there.
func TestPathsAndTargets(t *testing.T) {
	path := regexp.MustCompile(
		"`((?:\\./)?(?:cmd|internal|pkg|spec|integration|docs|demo|deploy|bench|\\.ci)(?:/[\\w.-]+)*/?)`")
	target := regexp.MustCompile("(?m)(?:`|^    )make ([a-z]+)")
	makefile := read(t, "Makefile")
	short := strings.NewReplacer("`cli/", "`internal/cli/", "`agent/", "`internal/agent/",
		"`cp/", "`pkg/checkpoint/", "`plan/", "`pkg/rendezvous/plan/")
	for name, doc := range documents(t) {
		if name == "docs/ARCHITECTURE.md" {
			doc = short.Replace(doc) // as its table of changes says
		}
		for _, m := range path.FindAllStringSubmatch(doc, -1) {
			here := filepath.Join(root, filepath.Dir(name), m[1])
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				if _, err := os.Stat(here); err != nil {
					t.Errorf("%s: there is no %s", name, m[1])
				}
			}
		}
		for _, m := range target.FindAllStringSubmatch(doc, -1) {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s: make %s is no target", name, m[1])
			}
		}
	}
}
