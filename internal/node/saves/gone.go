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
const storeEvery = 5 * time.Second

// watchStore tells the user once when the directory of the store was removed, or another one has its
// name: this agent has the old one open, in which no file can be made. It ends with ctx.
func (s *Saves) watchStore(ctx context.Context, dir string) {
	was, err := os.Stat(dir)
	for err == nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(storeEvery):
		}
		now, gone := os.Stat(dir)
		if errors.Is(gone, fs.ErrNotExist) || gone == nil && !os.SameFile(was, now) {
			s.c.Notice(fmt.Sprintf("%s was removed while this agent has it open: this node takes no save and "+
				"no copy of a checkpoint; end this agent and start it again", dir))
			return
		}
	}
}
