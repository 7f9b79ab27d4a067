package coordinator

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/elasticd/elastic/internal/coordinator/jobs"
)

// metrics are read from the store and from Run at each scrape; nothing is kept between two scrapes,
// so a job that is removed is gone here too.
type metrics struct{ m *Member }

// Describe sends nothing: which metrics there are depends on the jobs.
func (metrics) Describe(chan<- *prometheus.Desc) {}

func (c metrics) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(jobs.Desc("build_info", "Version of elasticd.", "version"), 1, c.m.cfg.Version)
	full := 0.0
	if c.m.full() {
		full = 1
	}
	gauge(jobs.Desc("store_full", "1 while the store takes no writes for want of space (NOSPACE)."), full)
	gauge(jobs.Desc("store_quota_bytes", "Size at which the store is full."), float64(c.m.cfg.Quota))
	out <- prometheus.MustNewConstMetric(jobs.Desc("store_cures_total",
		"How often a full store was compacted, defragmented and opened again."),
		prometheus.CounterValue, float64(c.m.care.cures.Load()))

	if !c.m.leads() {
		return // of a cluster the leader alone tells of the jobs: each series is there once
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	jobs.Collect(ctx, c.m.client, out)
}
