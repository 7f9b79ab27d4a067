package saves

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// storeEvery is how often the directory of the store is looked for.
const storeEvery = 2 * time.Second

// watchStore abandons the store and tells the user, once, when its directory was removed, or another one
// has its name: this agent has the old one open, which the next agent would not find. It ends with ctx.
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
