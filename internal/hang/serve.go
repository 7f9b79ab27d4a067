package hang

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// What a node's listener answers to the node of rank 0.
const (
	SilencePath = "/hang/silence" // how long the workers of a node have been silent
	InspectPath = "/hang/inspect" // what can be seen of them; it holds them
	StacksPath  = "/hang/stacks"  // their stacks; it ends those that are held
)

type silence struct{ SilentMS int64 }

// Handlers are the patterns of the node's listener; current is the watch of the newest generation,
// nil if there is none.
func Handlers(current func() *Watch) map[string]http.Handler {
	answer := func(what func(*http.Request, *Watch) any) http.Handler {
		return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			g, err := strconv.ParseUint(r.URL.Query().Get("generation"), 10, 64)
			w := current()
			if err == nil && w != nil && w.Generation == g && !w.Workers.Ending() {
				if v := what(r, w); v != nil {
					_ = json.NewEncoder(out).Encode(v) // a peer that went away asks again
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
				return nil // they go on: none is held for a stack
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

// Tell adds the variables without which a worker with a run directory cannot be asked what it does.
// Those that the user set stay.
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
