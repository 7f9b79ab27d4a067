package node

import (
	"context"
	"time"

	"github.com/elasticd/elastic/internal/device"
	"github.com/elasticd/elastic/pkg/machines"
)

// noteLimit is how long the store may take to record something about a machine.
const noteLimit = 5 * time.Second

// note writes into the record of this machine what speaks against it. Nothing depends on the record, so
// an error of the store is ignored.
func (w *workers) note(k machines.Kind, text string) {
	i := machines.Incident{Node: w.node, Job: w.o.Job.Name, Kind: k, Text: text,
		Time: machines.Repeated(time.Now())}
	if job := w.job.Load(); job != nil {
		i.UID = job.UID
	}
	w.effects.Go(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, noteLimit)
		defer cancel()
		_ = machines.Note(ctx, w.store, hardware(lookUp(w.o.Environ)), []machines.Incident{i})
	})
}

// lookAtDevices looks, after a worker failed here, for errors of accelerators since its generation
// began. It tells the user, and writes them into the record of this machine.
func (w *workers) lookAtDevices(since time.Time) {
	w.effects.Go(func(ctx context.Context) {
		for _, e := range (device.Host{Getenv: lookUp(w.o.Environ)}).Errors(ctx, since) {
			w.notice("this machine: " + e)
			w.note(machines.Device, e)
		}
	})
}
