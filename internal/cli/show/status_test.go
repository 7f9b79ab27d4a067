package show

import (
	"strings"
	"testing"

	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

// A key that somebody made very long is named, and deleted, by its begin.
func TestUnreadableKeys(t *testing.T) {
	t.Parallel()
	key := "/elastic/v1/x/left/" + strings.Repeat("a", 5000)
	row := unreadRow([]status.Unread{{Key: key, Why: key + ": not a record"}})
	if want := "; delete one: etcdctl del --prefix " + key[:200]; !strings.HasSuffix(row, want) || len(row) > 500 {
		t.Errorf("%d characters: %s", len(row), row)
	}
	const short = "left out: /k: not a record; delete one: etcdctl del /k"
	if row := unreadRow([]status.Unread{{Key: "/k", Why: "/k: not a record"}}); row != short {
		t.Errorf("%s, want %s", row, short)
	}
}
