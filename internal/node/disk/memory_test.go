package disk

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

func TestMemory(t *testing.T) {
	d := newTestDisk(t)
	d.Server = "one:2379"
	life(t, d, "u", "", "m")
	if c, err := d.Recall("a"); c != nil || err != nil {
		t.Fatalf("before it was in a job: %v %v", c, err)
	}
	c := rendezvous.Claim{Job: rendezvous.Job{UID: "u"}, World: 3, Count: 2, Members: []string{"a", "b"}}
	if err := d.Remember("a", &c); err != nil {
		t.Fatal(err)
	}
	got, err := d.Recall("a")
	if err != nil || got == nil || got.World != 3 || got.Node != "a" || got.Job.Name != d.job ||
		len(got.Members) != 2 {
		t.Errorf("%+v %v", got, err)
	}
	if others := d.Others("b"); len(others) != 1 || others[0].Node != "a" {
		t.Errorf("for another node of this host: %+v", others)
	}
	if others := d.Others("a"); len(others) != 0 {
		t.Errorf("its own is none of another: %+v", others)
	}
	d.Server = "two:2379"
	if others := d.Others("b"); len(others) != 0 {
		t.Errorf("on another server: %+v", others)
	}
	if err := os.WriteFile(filepath.Join(d.JobDir("a"), claimFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Recall("a"); got != nil || err != nil {
		t.Errorf("what is no memory: %+v %v", got, err)
	}
	if err := d.Remember("a", &c); err != nil {
		t.Fatal(err)
	}
	if aside := life(t, d, schema.UID("v"), "", "n"); aside == "" {
		t.Error("another job took the place, and nothing went aside")
	}
	if got, err := d.Recall("a"); got != nil || err != nil {
		t.Errorf("what another job left: %+v %v", got, err)
	}
	for range 2 { // also when there is nothing
		if err := d.Remember("a", nil); err != nil {
			t.Error(err)
		}
	}
}

// What a job kept goes on under its new id, also for a node that was away while it was made again
// twice.
func TestAdoptFollowsTheJob(t *testing.T) {
	d := newTestDisk(t)
	life(t, d, "u", "", "m")
	if aside, err := d.Adopt("a",
		rendezvous.Job{UID: "w", Succeeds: "v", Lineage: []schema.UID{"u"}}); aside != "" ||
		err != nil {
		t.Errorf("moved aside: %q %v", aside, err)
	}
	if _, err := os.Stat(filepath.Join(d.JobDir("a"), "store/manifests/m")); err != nil {
		t.Error(err)
	}
}
