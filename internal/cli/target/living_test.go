package target

import (
	"errors"
	"strings"
	"testing"

	"github.com/elasticd/elastic/internal/node/disk"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/schema"
)

// Which server is meant is not guessed.
func TestOnlyServer(t *testing.T) {
	a, b := disk.Living{Node: "a", Job: "x", Server: "db:2379"}, disk.Living{Node: "b", Job: "y", Server: "db:2379"}
	other := disk.Living{Node: "c", Job: "z", Server: "https://lab1:29400"}
	for _, c := range []struct {
		living   []disk.Living
		job      schema.Job // that the user named
		want     string     // its server
		fix, why string     // or the refusal
	}{
		{},
		{living: []disk.Living{a}, want: "db:2379"},
		{living: []disk.Living{a, b}, want: "db:2379"},
		{living: []disk.Living{a, b}, job: "other", want: "db:2379"},
		{living: []disk.Living{a, b, other}, job: "z", want: "https://lab1:29400"},
		{living: []disk.Living{a, b, other}, job: "y", want: "db:2379"},
		{living: []disk.Living{a, b, other}, fix: "--server=db:2379",
			why: "use 2: db:2379 (node a, job x), https://lab1:29400 (node c, job z)"},
		{living: []disk.Living{other, a}, job: "other", fix: "--server=https://lab1:29400", why: "use 2: "},
	} {
		got, err := onlyServer(c.living, c.job)
		e := &problem.Error{}
		errors.As(err, &e)
		if (err != nil) != (c.fix != "") || e.Fix != c.fix || !strings.Contains(e.Why, c.why) {
			t.Errorf("%v: %v: %s: %s", c.living, err, e.Why, e.Fix)
		}
		if got != nil && got.Server != c.want || got == nil && c.want != "" {
			t.Errorf("%v: %v, not %q", c.living, got, c.want)
		}
	}
}
