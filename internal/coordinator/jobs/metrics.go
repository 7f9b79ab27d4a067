package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Desc describes a metric of elasticd.
func Desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("elastic_"+name, help, labels, nil)
}

// Collect sends the metrics of all jobs to a scrape.
func Collect(ctx context.Context, kv clientv3.KV, out chan<- prometheus.Metric) {
	collectMachines(ctx, kv, out)
	err := list(ctx, kv, func(j schema.Job) error {
		r, err := readJob(ctx, kv, j)
		if err != nil {
			return err
		}
		s, _ := rendezvous.DecodePart(j, r) // a record that cannot be read counts as missing
		for i := range r.Entries {
			if node := schema.Rest(j.AllHeld(), r.Entries[i].Key); len(node) == 1 {
				if h, err := schema.Decode[[]checkpoint.Number](&r.Entries[i]); err == nil {
					s.Held[node[0]] = rendezvous.Held{Numbers: h, Rev: r.Entries[i].Rev}
				}
			}
		}
		if s.Job != nil {
			(&state{s, time.Now()}).collect(emitter{out, string(j)})
		}
		return nil
	})
	if err != nil {
		generation := Desc("job_generation", "Newest generation that was proposed.", "job")
		out <- prometheus.NewInvalidMetric(generation, err)
	}
}

// state is a job at one revision, for its metrics.
type state struct {
	rendezvous.Snapshot
	now time.Time
}

// readJob reads the records that this member has, without a round of the quorum.
func readJob(ctx context.Context, kv clientv3.KV, j schema.Job) (store.Read, error) {
	read := func(key string, opts ...clientv3.OpOption) clientv3.Op {
		return clientv3.OpGet(key, append(opts, clientv3.WithSerializable())...)
	}
	r, err := kv.Txn(ctx).Then(read(j.Job()), read(j.Fence()), read(j.World()), read(j.Wish()), read(j.Head()),
		read(j.Progress()), read(j.Nodes(), clientv3.WithPrefix()), read(j.AllHeld(), clientv3.WithPrefix())).Commit()
	if err != nil {
		return store.Read{}, fmt.Errorf("read job %s: %w", j, err)
	}
	return entries(r), nil
}

// emitter sends metrics of one job to a scrape.
type emitter struct {
	out chan<- prometheus.Metric
	job string
}

func (e emitter) gauge(name, help string, v float64) {
	e.out <- prometheus.MustNewConstMetric(Desc(name, help, "job"), prometheus.GaugeValue, v, e.job)
}

func (s *state) collect(e emitter) {
	e.gauge("job_nodes", "Nodes that hold a lease.", float64(len(s.Nodes)))
	if s.Fence > 0 {
		e.gauge("job_generation", "Newest generation that was proposed.", float64(s.Fence))
	}
	e.gauge("job_age_seconds", "Time since the job, or its newest attempt, began.",
		max(0, s.now.Sub(s.Job.Time)).Seconds())
	if s.Wish.NP > 0 {
		e.gauge("job_wished_nodes", "Nodes that the operator asked for.", float64(s.Wish.NP))
	}
	if s.Wish.NP > 0 && (s.Job.Limits.Exact || s.Wish.By == "scale") {
		e.gauge("job_asked_nodes", "Nodes that the job must have: of a range, after elastic scale only.",
			float64(s.Wish.NP))
	}
	s.collectWorld(e)
	s.collectProgress(e)
	s.collectCheckpoint(e)
}

func (s *state) collectWorld(e emitter) {
	w := s.World
	if w == nil {
		return
	}
	e.out <- prometheus.MustNewConstMetric(Desc("job_phase",
		"1 for the phase that the World is in.", "job", "phase"),
		prometheus.GaugeValue, 1, e.job, string(w.Phase))
	e.gauge("job_phase_age_seconds", "Time since the World entered its phase.",
		max(0, s.now.Sub(w.Time)).Seconds())
	e.gauge("job_world_nodes", "Nodes of the newest World.", float64(w.Count))
	e.gauge("job_world_size", "Workers of the newest World.", float64(w.Size()))
	e.gauge("job_restarts_used", "Restarts spent since the budget was full.", float64(w.Ledger.Used))
	e.gauge("job_quarantined_nodes", "Nodes that are kept out of the next World.",
		float64(s.quarantined()))
	for cause, c := range w.Causes {
		e.out <- prometheus.MustNewConstMetric(Desc("job_starts_total",
			"Starts of the workers after the first, by cause.", "job", "cause"),
			prometheus.CounterValue, float64(c.Count), e.job, string(cause))
		e.out <- prometheus.MustNewConstMetric(Desc("job_lost_seconds_total",
			"Time without training before these starts, by cause.", "job", "cause"),
			prometheus.CounterValue, float64(c.IdleMS)/1000, e.job, string(cause))
	}
}

// quarantined returns the number of nodes in quarantine now.
func (s *state) quarantined() int {
	out := map[string]bool{}
	for _, q := range s.World.Quarantine {
		if q.Until > s.World.Generation {
			out[q.Node] = true
		}
	}
	for _, n := range s.World.Ledger.Nodes {
		if n.Quarantine > 0 && s.now.Before(n.Time.Add(time.Duration(n.Quarantine))) {
			out[n.Node] = true
		}
	}
	return len(out)
}

// collectProgress emits the age of the newest progress while a world runs. At other times the phase
// shows that there is no progress.
func (s *state) collectProgress(e emitter) {
	p := s.Progress
	if p == nil {
		return
	}
	if p.Step != nil {
		e.gauge("job_step", "Newest step that the workers reported.", float64(*p.Step))
	}
	if s.World == nil || s.World.Phase != rendezvous.Running {
		return
	}
	since := p.Time
	if s.World.Time.After(since) {
		since = s.World.Time
	}
	e.gauge("job_progress_age_seconds", "Time since the workers of a running World reported progress.",
		max(0, s.now.Sub(since)).Seconds())
	slow := 0.
	if p.Slow != nil {
		slow = p.Slow.Costs
	}
	e.gauge("job_slow_ratio", "Share of the time that a slow rank costs.", slow)
}

func (s *state) collectCheckpoint(e emitter) {
	h := s.Head
	if h.Number == 0 {
		return
	}
	e.gauge("job_checkpoint_number", "Newest committed checkpoint.", float64(h.Number))
	if h.Step != nil {
		e.gauge("job_checkpoint_step", "Step of the newest committed checkpoint.", float64(*h.Step))
	}
	e.gauge("job_checkpoint_age_seconds", "Time since the newest checkpoint was committed.",
		max(0, s.now.Sub(h.Time)).Seconds())
	e.gauge("job_checkpoint_copies", "Registered nodes that have the newest checkpoint.", float64(s.copies()))
	e.gauge("job_checkpoint_copies_wanted", "Copies that the job asks for (--replicas).",
		float64(s.Job.Rules.Replicas))
}

// copies counts the registered nodes that have the newest checkpoint. If it has parts, it counts the
// copies of the part with the fewest.
func (s *state) copies() int {
	var all []string
	for _, n := range s.Nodes {
		if s.HoldsAll(n.Node) {
			all = append(all, n.Node)
		}
	}
	return s.Head.CopiesAt(all, func(node string) bool { return s.Node(node) != nil })
}
