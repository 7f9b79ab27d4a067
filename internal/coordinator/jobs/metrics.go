package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

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
		s, err := readJob(ctx, kv, j, time.Now())
		if err != nil {
			return err
		}
		s.collect(emitter{out, s.name})
		return nil
	})
	if err != nil {
		generation := Desc("job_generation", "Newest generation that was proposed.", "job")
		out <- prometheus.NewInvalidMetric(generation, err)
	}
}

// jobState has the records of one job for its metrics, read at one revision.
type jobState struct {
	name       string
	now        time.Time
	generation schema.Generation
	fenced     bool
	rules      jobRecord
	world      *world
	wish       *wishRecord
	head       *headRecord
	progress   *progressRecord
	nodes      map[string]bool     // registered nodes
	held       map[string][]uint64 // checkpoints by node, from the inventories of the nodes
	heldRev    map[string]int64    // the revisions of the inventories
}

type (
	jobRecord struct {
		Rules struct {
			Replicas int `json:"replicas"`
		} `json:"rules"`
		Limits struct {
			Exact bool `json:"exact"`
		} `json:"limits"`
		Time time.Time `json:"time"`
	}
	wishRecord struct {
		NP int    `json:"np"`
		By string `json:"by"`
	}
	headRecord struct {
		Number  uint64    `json:"number"`
		Step    *int64    `json:"step"`
		Time    time.Time `json:"time"`
		Holders []struct {
			Node string `json:"node"`
		} `json:"holders"`
		Parts []struct {
			Holders []string `json:"holders"`
		} `json:"parts"`
		rev int64
	}
	progressRecord struct {
		Step *int64    `json:"step"`
		Time time.Time `json:"time"`
		Slow struct {
			Costs float64 `json:"costs"`
		} `json:"slow"`
	}
)

// readJob reads the records that this member has, without a round of the quorum. A record of an
// unknown format counts as missing.
func readJob(ctx context.Context, kv clientv3.KV, j schema.Job, now time.Time) (jobState, error) {
	s := jobState{name: string(j), now: now, nodes: map[string]bool{}, held: map[string][]uint64{},
		heldRev: map[string]int64{}}
	read := func(key string, opts ...clientv3.OpOption) clientv3.Op {
		return clientv3.OpGet(key, append(opts, clientv3.WithSerializable())...)
	}
	r, err := kv.Txn(ctx).Then(read(j.Job()), read(j.Fence()), read(j.World()), read(j.Wish()),
		read(j.Head()), read(j.Progress()), read(j.Nodes(), clientv3.WithPrefix(), clientv3.WithKeysOnly()),
		read(j.AllHeld(), clientv3.WithPrefix())).
		Commit()
	if err != nil {
		return s, fmt.Errorf("read job %s: %w", j, err)
	}
	for _, answer := range r.Responses {
		for _, kv := range answer.GetResponseRange().Kvs {
			s.take(j, kv)
		}
	}
	return s, nil
}

func (s *jobState) take(j schema.Job, kv *mvccpb.KeyValue) {
	switch key := string(kv.Key); key {
	case j.Job():
		s.rules, _ = record[jobRecord](kv)
	case j.Fence():
		if _, g, err := schema.ParseFence(kv.Value); err == nil {
			s.generation, s.fenced = g, true
		}
	case j.World():
		s.world = known[world](kv)
	case j.Wish():
		s.wish = known[wishRecord](kv)
	case j.Head():
		if s.head = known[headRecord](kv); s.head != nil {
			s.head.rev = kv.ModRevision
		}
	case j.Progress():
		s.progress = known[progressRecord](kv)
	default:
		if node, ok := strings.CutPrefix(key, j.Nodes()); ok {
			s.nodes[node] = true
		} else if node, ok := strings.CutPrefix(key, j.AllHeld()); ok {
			if h := known[[]uint64](kv); h != nil {
				s.held[node], s.heldRev[node] = *h, kv.ModRevision
			}
		}
	}
}

// known decodes a record. It returns nil for an unknown format.
func known[T any](kv *mvccpb.KeyValue) *T {
	v, err := schema.Decode[T](&store.Entry{Key: string(kv.Key), Value: kv.Value})
	if err != nil {
		return nil
	}
	return &v
}

// emitter sends metrics of one job to a scrape.
type emitter struct {
	out chan<- prometheus.Metric
	job string
}

func (e emitter) gauge(name, help string, v float64) {
	e.out <- prometheus.MustNewConstMetric(Desc(name, help, "job"), prometheus.GaugeValue, v, e.job)
}

func (s *jobState) collect(e emitter) {
	e.gauge("job_nodes", "Nodes that hold a lease.", float64(len(s.nodes)))
	if s.fenced {
		e.gauge("job_generation", "Newest generation that was proposed.", float64(s.generation))
	}
	if !s.rules.Time.IsZero() {
		e.gauge("job_age_seconds", "Time since the job, or its newest attempt, began.",
			max(0, s.now.Sub(s.rules.Time)).Seconds())
	}
	if s.wish != nil {
		e.gauge("job_wished_nodes", "Nodes that the operator asked for.", float64(s.wish.NP))
	}
	if s.wish != nil && (s.rules.Limits.Exact || s.wish.By == "scale") {
		e.gauge("job_asked_nodes", "Nodes that the job must have: of a range, after elastic scale only.",
			float64(s.wish.NP))
	}
	s.collectWorld(e)
	s.collectProgress(e)
	s.collectCheckpoint(e)
}

// size returns the number of workers of w.
func (w *world) size() int {
	if w.Ranks == nil {
		return w.Count * w.Slots
	}
	return len(slices.Concat(w.Ranks...))
}

func (s *jobState) collectWorld(e emitter) {
	w := s.world
	if w == nil {
		return
	}
	e.out <- prometheus.MustNewConstMetric(Desc("job_phase",
		"1 for the phase that the World is in.", "job", "phase"),
		prometheus.GaugeValue, 1, e.job, w.Phase)
	if !w.Time.IsZero() {
		e.gauge("job_phase_age_seconds", "Time since the World entered its phase.",
			max(0, s.now.Sub(w.Time)).Seconds())
	}
	e.gauge("job_world_nodes", "Nodes of the newest World.", float64(w.Count))
	e.gauge("job_world_size", "Workers of the newest World.", float64(w.size()))
	e.gauge("job_restarts_used", "Restarts spent since the budget was full.", float64(w.Ledger.Used))
	e.gauge("job_quarantined_nodes", "Nodes that are kept out of the next World.",
		float64(w.quarantined(s.now)))
	for cause, c := range w.Causes {
		e.out <- prometheus.MustNewConstMetric(Desc("job_starts_total",
			"Starts of the workers after the first, by cause.", "job", "cause"),
			prometheus.CounterValue, float64(c.Count), e.job, cause)
		e.out <- prometheus.MustNewConstMetric(Desc("job_lost_seconds_total",
			"Time without training before these starts, by cause.", "job", "cause"),
			prometheus.CounterValue, float64(c.IdleMS)/1000, e.job, cause)
	}
}

// quarantined returns the number of nodes in quarantine at now.
func (w *world) quarantined(now time.Time) int {
	out := map[string]bool{}
	for _, q := range w.Quarantine {
		out[q.Node] = q.Until > w.Generation
	}
	for _, n := range w.Ledger.Nodes {
		until := n.Time.Add(time.Duration(n.Quarantine * float64(time.Second)))
		out[n.Node] = out[n.Node] || n.Quarantine > 0 && now.Before(until)
	}
	count := 0
	for _, is := range out {
		if is {
			count++
		}
	}
	return count
}

// collectProgress emits the age of the newest progress while a world runs. At other times the phase
// shows that there is no progress.
func (s *jobState) collectProgress(e emitter) {
	p := s.progress
	if p == nil {
		return
	}
	if p.Step != nil {
		e.gauge("job_step", "Newest step that the workers reported.", float64(*p.Step))
	}
	if s.world == nil || s.world.Phase != "running" || p.Time.IsZero() {
		return
	}
	since := p.Time
	if s.world.Time.After(since) {
		since = s.world.Time
	}
	e.gauge("job_progress_age_seconds", "Time since the workers of a running World reported progress.",
		max(0, s.now.Sub(since)).Seconds())
	e.gauge("job_slow_ratio", "Share of the time that a slow rank costs.", p.Slow.Costs)
}

func (s *jobState) collectCheckpoint(e emitter) {
	h := s.head
	if h == nil {
		return
	}
	e.gauge("job_checkpoint_number", "Newest committed checkpoint.", float64(h.Number))
	if h.Step != nil {
		e.gauge("job_checkpoint_step", "Step of the newest committed checkpoint.", float64(*h.Step))
	}
	if !h.Time.IsZero() {
		e.gauge("job_checkpoint_age_seconds", "Time since the newest checkpoint was committed.",
			max(0, s.now.Sub(h.Time)).Seconds())
	}
	e.gauge("job_checkpoint_copies", "Registered nodes that have the newest checkpoint.", float64(s.copies()))
	e.gauge("job_checkpoint_copies_wanted", "Copies that the job asks for (--replicas).",
		float64(s.rules.Rules.Replicas))
}

// copies counts the registered nodes that have the newest checkpoint. If it has parts, it counts the
// copies of the part with the fewest. An inventory that is older than the commit does not count; the
// record of the commit does.
func (s *jobState) copies() (n int) {
	fewest := s.copiesOf(nil)
	for i, p := range s.head.Parts {
		if n := s.copiesOf(p.Holders); i == 0 || n < fewest {
			fewest = n
		}
	}
	return fewest
}

// copiesOf counts the holders that the record lists for a part; nil: for the whole checkpoint.
func (s *jobState) copiesOf(holders []string) (n int) {
	holds := map[string]bool{}
	for _, r := range s.head.Holders {
		holds[r.Node] = s.head.Parts == nil
	}
	for _, node := range holders {
		holds[node] = true
	}
	for node, numbers := range s.held {
		has := slices.Contains(numbers, s.head.Number)
		if has || s.head.Parts == nil && s.heldRev[node] > s.head.rev {
			holds[node] = has
		}
	}
	for node, has := range holds {
		if has && s.nodes[node] {
			n++
		}
	}
	return n
}
