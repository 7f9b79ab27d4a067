package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// alertRules is a file of rules as Prometheus reads it.
type alertRules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

// The alert rules parse, watch everything that an operator has to be woken for, and name phases,
// causes and labels that there are.
func TestAlertRules(t *testing.T) {
	var rules alertRules
	if err := yaml.Unmarshal([]byte(read(t, "deploy/monitoring/alerts.yaml")), &rules); err != nil {
		t.Fatal(err)
	}
	watched := map[string]bool{}
	metric, label := regexp.MustCompile(`\b(elastic|etcd)_[a-z_]+`),
		regexp.MustCompile(`(\w+)(=~|=)"([^"]*)"`)
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" || r.Expr == "" || r.Labels["severity"] == "" ||
				r.Annotations["summary"] == "" ||
				r.Annotations["action"] == "" {
				t.Errorf("the alert %q has no name, expression, severity, summary or action", r.Alert)
			}
			for _, pair := range []string{"()", "{}", "[]"} {
				if strings.Count(r.Expr, pair[:1]) != strings.Count(r.Expr, pair[1:]) {
					t.Errorf("%s: unbalanced %s in %s", r.Alert, pair, r.Expr)
				}
			}
			for _, m := range metric.FindAllString(r.Expr, -1) {
				watched[m] = true
			}
			for _, l := range label.FindAllStringSubmatch(r.Expr, -1) {
				for _, value := range strings.Split(l[3], "|") {
					if !knownLabel(l[1], value) {
						t.Errorf("%s asks for %s=%q", r.Alert, l[1], value)
					}
				}
			}
		}
	}
	for _, m := range []string{"elastic_job_progress_age_seconds", "elastic_job_nodes",
		"elastic_job_phase", "elastic_job_starts_total", "elastic_job_quarantined_nodes",
		"elastic_job_checkpoint_age_seconds", "elastic_job_checkpoint_copies", "elastic_store_full",
		"elastic_job_asked_nodes", "elastic_job_age_seconds", "elastic_store_member_up",
		"elastic_certificate_expires_timestamp_seconds", "elastic_machine_used",
		"etcd_server_has_leader"} {
		if !watched[m] {
			t.Errorf("no alert watches %s", m)
		}
	}
	board := read(t, "deploy/monitoring/grafana.json")
	for _, m := range []string{"elastic_job_step", "elastic_job_lost_seconds_total",
		"elastic_job_checkpoint_copies", "elastic_job_progress_age_seconds", "\"annotations\""} {
		if !strings.Contains(board, m) {
			t.Errorf("the dashboard does not show %s", m)
		}
	}
}

// knownLabel reports whether a series can have that value of a label.
func knownLabel(name, value string) bool {
	switch name {
	case "phase":
		return slices.Contains(
			[]rendezvous.Phase{rendezvous.Forming, rendezvous.Running, rendezvous.Finishing,
				rendezvous.Waiting, rendezvous.Done, rendezvous.Failed, rendezvous.Stopped}, rendezvous.Phase(value))
	case "cause":
		return slices.Contains([]rendezvous.Cause{rendezvous.CauseFirst, rendezvous.CauseAttempt,
			rendezvous.CauseNodeLost, rendezvous.CauseNodeJoined, rendezvous.CauseScale,
			rendezvous.CauseWorkerFailed, rendezvous.CauseDrain, rendezvous.CauseAsked,
			rendezvous.CauseCheckpoint}, rendezvous.Cause(value))
	}
	return false
}
