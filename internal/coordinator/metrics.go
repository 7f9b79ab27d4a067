package coordinator

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/elasticd/elastic/pkg/schema"
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
	out <- prometheus.MustNewConstMetric(desc("store_cures_total",
		"How often a full store was compacted, defragmented and opened again."),
		prometheus.CounterValue, float64(c.m.care.cures.Load()))

	if !c.m.leads() {
		return // of a cluster the leader alone tells of the jobs: each series is there once
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := jobs(ctx, c.m.client, func(j schema.Job) error {
		s, err := readJob(ctx, c.m.client, j, time.Now())
		if err != nil {
			return err
		}
		s.collect(emitter{out, s.name})
		return nil
	})
	if err != nil {
		out <- prometheus.NewInvalidMetric(desc("job_generation", "Newest generation that was proposed.", "job"), err)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
