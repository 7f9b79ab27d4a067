package rendezvous_test

import (
	"os"
	"strings"
	"testing"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// A job whose records the version before wrote is read, and goes on from its newest checkpoint. The
// first record that is written again has the new format, which that version refuses.
func TestAJobOfTheVersionBefore(t *testing.T) {
	text, err := os.ReadFile("testdata/format1.txt")
	if err != nil {
		t.Fatal(err)
	}
	s := memory.New().Client("a")
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		put := store.Txn{Then: []store.Write{store.Put(lines[i], []byte(lines[i+1]))}}
		if _, err := s.Txn(t.Context(), put); err != nil {
			t.Fatal(err)
		}
	}
	x, err := rendezvous.Read(t.Context(), s, "x")
	if err != nil {
		t.Fatal(err)
	}
	if x.Job.Identity() != "ZEU4D5HE7ASUVMKN7XVAFEI7UQ" || x.Head.Number != 12 || *x.Head.Step != 236 ||
		len(x.Head.Holders) != 2 || x.World.Generation != 1 || len(x.World.Members) != 2 || x.Fence != 1 {
		t.Errorf("job %+v, head %+v, world %+v, fence %d", x.Job, x.Head, x.World, x.Fence)
	}
	if err := (txn.Requests{Store: s, Job: "x"}).AllowResume(t.Context(), &x, ""); err != nil {
		t.Errorf("it cannot be recovered: %v", err)
	}
}
