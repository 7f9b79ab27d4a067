package docs

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// livesLength are the lengths of the lists in "Two lives". A list may become shorter.
var livesLength = []int{33, 31}

// hop is one line of a list: a function, who calls it, and the message that it sends to the next one.
type hop struct {
	file, function, by, words, message string
	decl                               *ast.FuncDecl
}

// name is the function without its type.
func (h hop) name() string { return h.function[strings.LastIndex(h.function, ".")+1:] }

var hopLine = regexp.MustCompile("^\\d+\\. `(\\S+\\.go):([\\w.]+)`(?:, by `(\\w+)`)?: (.+?)(?: \\((\\w+)\\))?$")

// TestLives holds the lists of "Two lives" to the code: each function is in its file, and leads to the
// next one.
func TestLives(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "docs/ARCHITECTURE.md"), "\n## Two lives\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var lives [][]hop
	for line := range strings.Lines(section) {
		if line = strings.TrimSpace(line); line == "" || line[0] < '0' || line[0] > '9' {
			continue
		}
		m := hopLine.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("not a line of a life: %s", line)
		}
		h := hop{file: m[1], function: m[2], by: m[3], words: m[4], message: m[5]}
		if h.decl = function(t, h); h.decl == nil {
			t.Fatalf("%s is not in %s", h.function, h.file)
		}
		if len(strings.Fields(h.words)) > 8 {
			t.Errorf("%s: more than eight words", h.function)
		}
		if strings.HasPrefix(line, "1.") {
			lives = append(lives, nil)
		}
		lives[len(lives)-1] = append(lives[len(lives)-1], h)
	}
	if len(lives) != len(livesLength) {
		t.Fatalf("%d lives", len(lives))
	}
	for i, life := range lives {
		if len(life) > livesLength[i] {
			t.Errorf("a life of %d functions, want at most %d", len(life), livesLength[i])
		}
		for k := range life[1:] {
			if !leads(life[:k+1], life[k+1]) {
				t.Errorf("%s does not lead to %s", life[k].function, life[k+1].function)
			}
		}
	}
}

// function returns the declaration of a function, or nil.
func function(t *testing.T, h hop) *ast.FuncDecl {
	for _, d := range sources(t, h.file)[0].Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Name.Name == h.name() && (f.Recv == nil) == (h.function == h.name()) &&
			(f.Recv == nil || has(f.Recv, strings.TrimSuffix(h.function, "."+h.name()))) {
			return f
		}
	}
	return nil
}

// leads reports whether the last hop of a life leads to the next one.
func leads(life []hop, next hop) bool {
	last := life[len(life)-1]
	switch {
	case next.by != "":
		for _, h := range life {
			if h.name() == next.by && has(h.decl.Body, next.name()) {
				return true
			}
		}
		return false
	case last.message == "result":
		return has(next.decl.Body, last.name())
	case last.message != "":
		return makes(last.decl, last.message) && takes(next.decl, last.message)
	}
	return has(last.decl.Body, next.name())
}

// has reports whether a name is used in a node.
func has(in ast.Node, name string) (found bool) {
	ast.Inspect(in, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == name
		return !found
	})
	return found
}

// makes reports whether a function makes a message: a value of that type, a result, what it assigns, passes
// to another function or sends, or a record with that key.
func makes(f *ast.FuncDecl, message string) (made bool) {
	made = f.Type.Results != nil && has(f.Type.Results, message)
	ast.Inspect(f.Body, func(n ast.Node) bool {
		var parts []ast.Expr
		switch n := n.(type) {
		case *ast.CompositeLit:
			parts = append(parts, n.Type)
		case *ast.AssignStmt:
			parts = n.Lhs
		case *ast.CallExpr:
			parts = append(n.Args, n.Fun)
		case *ast.SendStmt:
			made = has(f.Body, message)
		}
		for _, p := range parts {
			made = made || p != nil && has(p, message)
		}
		return !made
	})
	return made
}

// takes reports whether a function uses a message that it does not make: by its type, or by the name
// of the channel, field or record. A record of each node has its name in the plural there.
func takes(f *ast.FuncDecl, message string) (taken bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			taken = has(n.Type.Params, message)
		case *ast.CompositeLit:
			for _, e := range n.Elts {
				taken = taken || has(e, message) || has(e, message+"s")
			}
			return false
		case *ast.Ident:
			taken = taken || n != f.Name && (n.Name == message || n.Name == message+"s")
		}
		return !taken
	})
	return taken
}
