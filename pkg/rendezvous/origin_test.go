package rendezvous_test

import (
	"strings"
	"testing"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

func TestOriginComparesCommands(t *testing.T) {
	long := strings.Repeat("x", 5000)
	of := func(command ...string) rendezvous.Origin { return rendezvous.NewOrigin("ada", "lab1", command) }
	for name, c := range map[string]struct {
		a, b rendezvous.Origin
		same bool
	}{
		"equal":             {of("python", "train.py"), of("python", "train.py"), true},
		"another script":    {of("python", "train.py"), of("python", "eval.py"), false},
		"another argument":  {of("train", "--lr=1"), of("train", "--lr=2"), false},
		"not known":         {of(), of("train"), true},
		"cut alike":         {of("train", long), of("train", long), true},
		"differ before cut": {of("train", "a"+long), of("train", "b"+long), false},
	} {
		if got := c.a.SameCommand(c.b); got != c.same {
			t.Errorf("%s: same is %v, want %v", name, got, c.same)
		}
	}
	if got := of("a", long); len(got.Command[1]) > 4096+len("…") {
		t.Errorf("a command of %d bytes was kept", len(got.Command[1]))
	}
}
