package coordinator

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// metrics are read from the store and from Run when somebody asks; nothing is
// kept between two scrapes, so a job that is removed is gone here too.
type metrics struct{ m *Member }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("elastic_"+name, help, labels, nil)
}

// Describe sends nothing: which metrics there are depends on the jobs.
func (metrics) Describe(chan<- *prometheus.Desc) {}

func (c metrics) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(desc("build_info", "Version of elasticd.", "version"), 1, c.m.cfg.Version)
	gauge(desc("store_full", "1 while the store takes no writes for want of space (NOSPACE)."), truth(c.m.full()))
	gauge(desc("store_quota_bytes", "Size at which the store is full."), float64(c.m.cfg.Quota))
	out <- prometheus.MustNewConstMetric(desc("store_cures_total", "How often a full store was compacted, defragmented and opened again."),
		prometheus.CounterValue, float64(c.m.care.cures.Load()))

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := jobs(ctx, c.m.client, func(j schema.Job) error { return c.job(ctx, j, gauge) })
	if err != nil {
		out <- prometheus.NewInvalidMetric(desc("job_generation", "Newest generation that was proposed.", "job"), err)
	}
}

// job reads what this member has; a figure must not cost a round of the quorum.
func (c metrics) job(ctx context.Context, j schema.Job, gauge func(*prometheus.Desc, float64, ...string)) error {
	read := func(key string) clientv3.Op { return clientv3.OpGet(key, clientv3.WithSerializable()) }
	r, err := c.m.client.Txn(ctx).Then(
		read(j.Fence()), read(j.World()), read(j.Wish()), read(j.Head()),
		clientv3.OpGet(j.Nodes(), clientv3.WithPrefix(), clientv3.WithCountOnly(), clientv3.WithSerializable()),
	).Commit()
	if err != nil {
		return fmt.Errorf("read job %s: %w", j, err)
	}
	name := string(j)
	gauge(desc("job_nodes", "Nodes that hold a lease.", "job"), float64(r.Responses[4].GetResponseRange().Count), name)
	for i, each := range []func(e *store.Entry){
		func(e *store.Entry) {
			if _, g, err := schema.ParseFence(e.Value); err == nil {
				gauge(desc("job_generation", "Newest generation that was proposed.", "job"), float64(g), name)
			}
		},
		func(e *store.Entry) {
			w, err := schema.Decode[world](e)
			if err != nil {
				return
			}
			gauge(desc("job_phase", "1 for the phase that the World is in.", "job", "phase"), 1, name, w.Phase)
			gauge(desc("job_world_nodes", "Nodes of the newest World.", "job"), float64(w.Count), name)
			gauge(desc("job_world_size", "Workers of the newest World.", "job"), float64(w.Count*w.Slots), name)
			gauge(desc("job_restarts_used", "Restarts spent since the budget was full.", "job"), float64(w.Ledger.Used), name)
		},
		func(e *store.Entry) {
			w, err := schema.Decode[struct {
				NP int `json:"np"`
			}](e)
			if err == nil {
				gauge(desc("job_wished_nodes", "Nodes that the operator asked for.", "job"), float64(w.NP), name)
			}
		},
		func(e *store.Entry) {
			h, err := schema.Decode[struct {
				Number uint64 `json:"number"`
			}](e)
			if err == nil {
				gauge(desc("job_checkpoint_number", "Newest committed checkpoint.", "job"), float64(h.Number), name)
			}
		},
	} {
		for _, kv := range r.Responses[i].GetResponseRange().Kvs {
			each(&store.Entry{Key: string(kv.Key), Value: kv.Value})
		}
	}
	return nil
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
