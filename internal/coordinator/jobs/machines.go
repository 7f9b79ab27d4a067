package jobs

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elasticd/elastic/pkg/machines"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// collectMachines emits what is known of machines, which outlives their jobs. A machine of which nothing
// is known has no series.
func collectMachines(ctx context.Context, kv clientv3.KV, out chan<- prometheus.Metric) {
	r, err := kv.Get(ctx, schema.Machines, clientv3.WithPrefix(), clientv3.WithSerializable())
	if err != nil {
		return // the metrics of jobs report it
	}
	entries := make([]store.Entry, 0, len(r.Kvs))
	for _, x := range r.Kvs {
		entries = append(entries, entry(x))
	}
	now := time.Now()
	for _, m := range machines.Decode(entries) {
		for _, k := range machines.Kinds() {
			if weight := m.Weight(k, now); weight > 0 {
				out <- prometheus.MustNewConstMetric(Desc("machine_incidents",
					"Incidents of a machine. Each counts half as much after an hour.", "machine", "host", "kind"),
					prometheus.GaugeValue, weight, m.ID, m.Hostname, string(k))
			}
		}
		out <- prometheus.MustNewConstMetric(Desc("machine_used",
			"0 if the next job takes the machine as a spare, or not at all.", "machine", "host"),
			prometheus.GaugeValue, used(&m, now), m.ID, m.Hostname)
	}
}

// used is 1 if the next job takes a machine like any other.
func used(m *machines.Record, now time.Time) float64 {
	if m.Drained != nil || m.Doubt("", now) != "" {
		return 0
	}
	return 1
}
