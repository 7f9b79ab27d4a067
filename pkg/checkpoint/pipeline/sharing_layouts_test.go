package pipeline

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
)

// put makes a file of a save in its place, as frameworks do.
func (x *team) put(node, name, data string) {
	x.t.Helper()
	if at := strings.LastIndexByte(name, '/'); at >= 0 {
		must(x.t, x.dirs[node].Mkdir(name[:at], 0o755))
	}
	memfs.WriteFile(x.t, x.dirs[node], name, []byte(data), 0o600)
	time.Sleep(time.Millisecond)
}

// DeepSpeed and Megatron write into directories of their steps on each node, and rank 0 names the
// newest in a tracker file, on its own node. A node without the tracker shows its first part to be
// complete with the second one.
func TestLayoutsOfFrameworks(t *testing.T) {
	for name, c := range map[string]struct {
		format, tracker string
		names           func(step int) string // what the tracker says
		files           map[string][]string   // by node; # is the step
	}{
		"DeepSpeed": {"DeepSpeed", "latest", func(step int) string { return fmt.Sprint("global_step", step) },
			map[string][]string{
				"a": {"global_step#/mp_rank_00_model_states.pt",
					"global_step#/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"},
				"b": {"global_step#/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"},
			}},
		"Megatron": {"Megatron", "latest_checkpointed_iteration.txt",
			func(step int) string { return fmt.Sprint(step) }, map[string][]string{
				"a": {"iter_%/mp_rank_00/model_optim_rng.pt"},
				"b": {"iter_%/mp_rank_01/model_optim_rng.pt"},
			}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newTeam(t, false, "a", "b")
				defer x.close()
				at := func(name string, step int) string {
					return strings.NewReplacer("#", fmt.Sprint(step), "%", fmt.Sprintf("%07d", step)).Replace(name)
				}
				save := func(step int, pause time.Duration) {
					for _, node := range []string{"a", "b"} {
						for _, f := range c.files[node] {
							x.put(node, at(f, step), fmt.Sprint(f, " at ", step))
						}
					}
					time.Sleep(pause) // the barrier before the tracker
					x.put("a", c.tracker, c.names(step))
				}
				save(10, 0)
				time.Sleep(3 * time.Second)
				save(20, 0)
				if e := next[replicator.Sharded](t, x.reports["a"]); e.Format != c.format {
					t.Errorf("%+v", e)
				}
				committed := func(step int64) {
					t.Helper()
					var h replicator.Committed
					for h.Head.Step == nil || *h.Head.Step != step {
						h = next[replicator.Committed](t, x.reports["a"])
					}
					got := x.whole(h.Head, "a")
					for _, node := range []string{"a", "b"} {
						for _, f := range c.files[node] {
							if !strings.HasSuffix(got[at(f, int(step))], fmt.Sprint(" at ", step)) {
								t.Errorf("%s: %q", f, got)
							}
						}
					}
					if !strings.HasSuffix(got[c.tracker], c.names(int(step))) {
						t.Errorf("%s of step %d: %q", c.tracker, step, got[c.tracker])
					}
				}
				// node b has no file that says that its part is complete: the next save says so
				for step := 30; step <= 50; step += 10 {
					save(step, 5*time.Second)
					committed(int64(step) - 10)
				}
			})
		})
	}
}
