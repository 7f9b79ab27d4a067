package txn

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

const (
	// maxOutput bounds the text of a rendezvous.Output in bytes.
	maxOutput = 16 << 10
	// keptOutputs is how many generations keep one.
	keptOutputs = 4
)

// KeepOutput keeps the end of what a failed worker of w wrote, unless another worker of w was first. It is
// sent once: what is lost is on the disk of the node.
func (r Requests) KeepOutput(ctx context.Context, w *rendezvous.World, o rendezvous.Output) error {
	o.Text = o.Text[max(0, len(o.Text)-maxOutput):]
	for o.Text != "" && !utf8.RuneStart(o.Text[0]) {
		o.Text = o.Text[1:]
	}
	o.Text = strings.ToValidUTF8(o.Text, "\uFFFD")
	then := []store.Write{store.Put(r.Job.Output(w.Generation), schema.Encode(o))}
	if w.Generation > keptOutputs {
		then = append(then, store.DeleteRange(r.Job.AllOutputs(),
			schema.Before(r.Job.AllOutputs(), w.Generation-keptOutputs+1)))
	}
	for _, g := range []schema.Generation{w.Generation, w.Generation + 1} { // the next one may be proposed
		res, err := r.Store.Txn(ctx, store.Txn{If: []store.Guard{schema.FenceIs(r.Job, w.UID, g),
			store.Absent(r.Job.Output(w.Generation))}, Then: then})
		if err != nil || res.OK {
			return err
		}
	}
	return nil
}
