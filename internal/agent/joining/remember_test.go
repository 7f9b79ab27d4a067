package joining

import (
	"slices"
	"testing"

	"github.com/elasticd/elastic/internal/recovery"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// claimOnDisk is a disk that has a claim.
type claimOnDisk struct {
	Disk
	claim   *rendezvous.Claim
	earlier []rendezvous.Earlier
}

func (d *claimOnDisk) Recall(string) (*rendezvous.Claim, error) { return d.claim, nil }

func (d *claimOnDisk) Earlier(string) []rendezvous.Earlier { return d.earlier }

func (d *claimOnDisk) Remember(_ string, c *rendezvous.Claim) error { d.claim = c; return nil }

// A node that joins again writes what it would claim. The read of the job shows no spares, and those
// that it knew of in the same World may still be there.
func TestSparesAreRememberedAtTheNextEntry(t *testing.T) {
	spares := []string{"d"}
	for _, c := range []struct {
		world rendezvous.World // that the disk knows
		want  []string
	}{
		{rendezvous.World{Generation: 3, Order: 30, Count: 2}, spares},
		{rendezvous.World{Generation: 2, Order: 20, Count: 2}, nil},
		{rendezvous.World{Generation: 3, Order: 29, Count: 2}, nil}, // in another history
	} {
		job := rendezvous.Job{UID: "u"}
		was := rendezvous.NewClaim("a", job, rendezvous.Wish{}, &c.world)
		was.Spares = spares
		disk := &claimOnDisk{claim: &was}
		j := New(Config{}, Deps{Disk: disk, Memory: new(recovery.Memory)})
		now := rendezvous.World{Generation: 3, Order: 30, Count: 2}
		if _, err := j.remember(&rendezvous.Snapshot{Job: &job, World: &now}); err != nil {
			t.Fatal(err)
		}
		if got := disk.claim; got.World != schema.Generation(3) || !slices.Equal(got.Spares, c.want) {
			t.Errorf("from World %d of order %d it remembers %+v", c.world.Generation, c.world.Order, got)
		}
	}
}

// A node that joined another job of that name remembers that it gave up the earlier one.
func TestAJobThatWasGivenUpIsRemembered(t *testing.T) {
	old := rendezvous.NewClaim("a", rendezvous.Job{UID: "u"}, rendezvous.Wish{}, nil)
	disk := &claimOnDisk{earlier: []rendezvous.Earlier{{Claim: old}}}
	j := New(Config{}, Deps{Disk: disk, Memory: new(recovery.Memory)})
	gaveUp, err := j.remember(&rendezvous.Snapshot{Job: &rendezvous.Job{UID: "v"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []schema.UID{"u"}
	if !slices.Equal(disk.claim.GaveUp, want) || !slices.Equal(gaveUp, want) {
		t.Errorf("it remembers %v, and the agent %v", disk.claim.GaveUp, gaveUp)
	}
}
