package coordinator

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/elasticd/elastic/internal/coordinator/jobs"
)

// metrics reads the store and the state of Run at each scrape. It caches nothing, so a removed job
// disappears at once.
type metrics struct{ m *Member }

// Describe sends nothing, because the metrics depend on the jobs.
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
	for file, end := range c.m.certificates() {
		gauge(jobs.Desc("certificate_expires_timestamp_seconds", "When a certificate file of elasticd expires.",
			"file"), float64(end.Unix()), file)
	}
	gauge(jobs.Desc("store_quota_bytes", "Size at which the store is full."), float64(c.m.cfg.Quota))
	out <- prometheus.MustNewConstMetric(jobs.Desc("store_cures_total",
		"How often a full store was compacted, defragmented and opened again."),
		prometheus.CounterValue, float64(c.m.care.cures.Load()))

	if !c.m.leads() {
		return // only the leader exports the metrics of jobs, so each series exists once
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, member := range c.m.health(ctx).Members {
		up := 1.0
		if member.Down {
			up = 0
		}
		gauge(jobs.Desc("store_member_up", "1 while the leader reaches this member.", "member"), up, member.Name)
	}
	jobs.Collect(c.m.asRoot(ctx), c.m.client, out)
}
