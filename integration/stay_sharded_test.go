//go:build torch

package integration

import "testing"

// Workers with a model of fully_shard, of the torch of TORCH, say so once and are started again.
func TestFullyShardedStateIsReportedAndNotKept(t *testing.T) {
	s := newMistaken(t, "fsdp", "a", "b", "c")
	s.reportedAndNotKept("FSDPModule")
}
