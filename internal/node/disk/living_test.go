package disk

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// Only an agent that lives and has joined names a server, and a look at it takes no lock.
func TestLiving(t *testing.T) {
	dir := t.TempDir()
	begin := func(node string, job schema.Job, server string) (end func()) {
		t.Helper()
		d, err := Open(dir, job)
		if err != nil {
			t.Fatal(err)
		}
		unlock, err := d.Lock(node)
		if err != nil {
			t.Fatal(err)
		}
		if d.Server = server; server != "" {
			m := &rendezvous.Memory{Job: rendezvous.Job{UID: "u"}}
			if err := d.Remember(node, m); err != nil {
				t.Fatal(err)
			}
		}
		return unlock
	}
	want := func(all ...Living) {
		t.Helper()
		got, err := LivingOf(dir)
		if d := cmp.Diff(all, got); d != "" || err != nil {
			t.Fatalf("%v\n%s", err, d)
		}
	}
	want()
	end := begin("a", "x", "db:2379")
	want(Living{"a", "x", "db:2379"})
	joins := begin("b", "x", "") // it has not joined
	want(Living{"a", "x", "db:2379"})
	other := begin("a", "w", LocalServer)
	want(Living{"a", "w", LocalServer}, Living{"a", "x", "db:2379"})
	end()
	other()
	joins()
	want()
	begin("a", "x", "db:2379")() // LivingOf left no lock behind
}
