package rendezvous_test

import (
	"testing"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// The id of a job becomes part of paths on the disks of its nodes. So a record may not have an id
// that leads elsewhere.
func TestIDsLeadNowhere(t *testing.T) {
	limits := rendezvous.Limits{Min: 1, Max: 2}
	for uid, want := range map[schema.UID]bool{
		"u": true, "0f8e": true, "../u": false, "..": false, "/u": false, "a/b": false, "a/../../b": false,
		"": false,
	} {
		job := rendezvous.Job{UID: uid, Attempt: 1, Slots: 1, Limits: limits, Rules: rendezvous.Rules{}}
		world := rendezvous.World{UID: uid, Generation: 1, Attempt: 1, Phase: rendezvous.Forming,
			Proposal: "p"}
		again := job
		again.UID, again.FirstUID = "u", uid
		for record, err := range map[string]error{
			"job": job.Validate(), "world": world.Validate(),
			"first": again.Validate(), "memory": (&rendezvous.Memory{Job: job}).Validate(),
		} {
			if optional := uid == "" && record == "first"; (err == nil) != (want || optional) {
				t.Errorf("%s with the id %q: %v", record, uid, err)
			}
		}
	}
}
