package hang

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The URL paths that rank 0's node requests from the other nodes.
const (
	SilencePath = "/hang/silence" // how long the workers of a node have been silent
	LookPath    = "/hang/look"    // evidence of its workers, of which none is changed
)

type silence struct{ SilentMS int64 }

// Handlers returns the handlers of the node's listener. current returns the watch of the newest
// generation, or nil.
func Handlers(current func() *Watch) map[string]http.Handler {
	answer := func(what func(*http.Request, *Watch) any) http.Handler {
		return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			g, err := strconv.ParseUint(r.URL.Query().Get("generation"), 10, 64)
			w := current()
			if err == nil && w != nil && w.Generation == g && !w.Workers.Ending() {
				_ = json.NewEncoder(out).Encode(what(r, w)) // if the reply is lost, the node asks again
				return
			}
			http.Error(out, "no worker of that generation is silent here", http.StatusConflict)
		})
	}
	return map[string]http.Handler{
		"GET " + SilencePath: answer(
			func(_ *http.Request, w *Watch) any { return silence{w.silent().Milliseconds()} }),
		"GET " + LookPath: answer(func(r *http.Request, w *Watch) any {
			return fitted(w.Workers.Look(r.Context()), w.roomOf(r))
		}),
		"GET " + PacePath: answer(
			func(_ *http.Request, w *Watch) any { return w.Workers.Progress() }),
	}
}

// roomOf returns the size of one rank's evidence that a request allows.
func (w *Watch) roomOf(r *http.Request) int {
	room, err := strconv.Atoi(r.URL.Query().Get("room"))
	if err != nil || room < 0 {
		return w.room()
	}
	return min(room, w.room())
}

const pythonPath = "PYTHONPATH="

// Tell adds the variables that make a worker answer requests for evidence. It keeps those that the
// user set. watch is the directory of python/watch.
func Tell(env []string, dir, watch string) []string {
	for _, together := range variables(dir) {
		set := slices.ContainsFunc(together, func(kv string) bool {
			name, _, _ := strings.Cut(kv, "=")
			return slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		})
		for _, kv := range together {
			if !set && strings.Contains(kv, "=") {
				env = append(env, kv)
			}
		}
	}
	i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, pythonPath) })
	switch rest := ""; {
	case i < 0:
		env = append(env, pythonPath+watch)
	default:
		if rest = strings.TrimPrefix(env[i], pythonPath); rest != "" {
			rest = string(filepath.ListSeparator) + rest
		}
		env[i] = pythonPath + watch + rest
	}
	return env
}
