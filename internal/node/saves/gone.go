package saves

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// storeEvery is how often watchStore looks at the directory of the store.
const storeEvery = 2 * time.Second

// watchStore abandons the store and tells the user, once, if its directory was removed or replaced.
// This agent still has the old directory open, and the next agent would not find it. It ends with ctx.
func (s *Saves) watchStore(ctx context.Context, dir string, abandon func()) {
	was, err := os.Stat(dir)
	for err == nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(storeEvery):
		}
		now, gone := os.Stat(dir)
		if errors.Is(gone, fs.ErrNotExist) || gone == nil && !os.SameFile(was, now) {
			abandon()
			s.c.Notice(fmt.Sprintf("%s was removed while this agent has it open: this node takes no save and "+
				"no copy of a checkpoint; end this agent and start it again", dir))
			return
		}
	}
}
