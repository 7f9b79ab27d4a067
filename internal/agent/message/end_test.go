package message

import (
	"strings"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// A node hears that its job was stopped. The end is told once, and where the checkpoint is only if the store
// shows the world that ended: one that was set back shows an older one, or none.
func TestEndInAStoreThatWasSetBack(t *testing.T) {
	world := &rendezvous.World{Generation: 2, Attempt: 1, Phase: rendezvous.Stopped,
		Outcome: &rendezvous.Outcome{Message: "the operator asked for it"}}
	head := checkpoint.Head{Number: 3, Holders: []membership.Ref{{Node: "a"}}}
	for _, x := range []struct {
		name  string
		shown *rendezvous.World
		want  string
	}{
		{"the store shows the end", world,
			"job x stopped: the operator asked for it\n" +
				"checkpoint 3 is on a; to get its files: elastic ckpt get x 3 DIR"},
		{"it shows no world", nil, "job x stopped: the operator asked for it"},
		{"it shows an older one", &rendezvous.World{Generation: 1, Attempt: 1, Phase: rendezvous.Running},
			"job x stopped: the operator asked for it"},
	} {
		node := membership.Node{Ref: membership.Ref{Node: "a"}, Attempt: 1}
		f := &Facts{Node: node, Job: &rendezvous.Job{Name: "x"}, Joined: true, World: world,
			Snapshot: &rendezvous.Snapshot{World: x.shown, Head: head, Whole: true}}
		var n Notices
		var got []string
		for range 2 {
			for _, line := range n.Lines(f) {
				got = append(got, line.Text)
			}
		}
		if text := strings.Join(got, "\n"); text != x.want {
			t.Errorf("%s: it says\n%s\nand should say\n%s", x.name, text, x.want)
		}
	}
}
