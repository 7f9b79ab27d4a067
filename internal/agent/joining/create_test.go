package joining

import (
	"strings"
	"testing"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// A node that was in a lost job and comes without its disk is told that the others wait for it.
func TestANodeWithoutItsDiskIsTold(t *testing.T) {
	j := &Joiner{}
	j.Job.Name = "x"
	claims := []rendezvous.Claim{{Node: "a", Members: []string{"a", "b"}}, {Node: "c"}}
	const all = "the server lost job x, and a, c claimed it: waiting until they make it again"
	if got := j.claimedText(claims, "new"); got != all {
		t.Errorf("a new node is told: %s", got)
	}
	if got := j.claimedText(claims, "b"); !strings.HasPrefix(got, all+". Node b was in it") {
		t.Errorf("a node that was in it is told: %s", got)
	}
}
