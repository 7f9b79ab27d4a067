package hang

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// The URL paths that rank 0's node requests from the other nodes.
const (
	SilencePath = "/hang/silence" // how long the workers of a node have been silent
	InspectPath = "/hang/inspect" // evidence of its workers; stops some of them
	StacksPath  = "/hang/stacks"  // the stacks of the stopped workers; ends them
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
				if v := what(r, w); v != nil {
					_ = json.NewEncoder(out).Encode(v) // if the reply is lost, the node asks again
					return
				}
			}
			http.Error(out, "no worker of that generation is silent here", http.StatusConflict)
		})
	}
	return map[string]http.Handler{
		"GET " + SilencePath: answer(
			func(_ *http.Request, w *Watch) any { return silence{w.silent().Milliseconds()} }),
		"POST " + InspectPath: answer(func(r *http.Request, w *Watch) any {
			if w.silent() < w.Timeout/2 {
				return nil // the workers go on, and none is stopped
			}
			room, err := strconv.Atoi(r.URL.Query().Get("room"))
			if err != nil || room < 0 {
				room = w.room()
			}
			return w.inspect(r.Context(), min(room, w.room()))
		}),
		"POST " + StacksPath: answer(
			func(r *http.Request, w *Watch) any { return w.Workers.Stacks(r.Context()) }),
	}
}

// Tell adds the variables that make a worker answer requests for evidence. It keeps those that the
// user set.
func Tell(env []string, dir string) []string {
	for _, together := range variables(dir) {
		set := slices.ContainsFunc(together, func(kv string) bool {
			name, _, _ := strings.Cut(kv, "=")
			return slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		})
		if !set {
			env = append(env, together...)
		}
	}
	return env
}
