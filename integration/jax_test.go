package integration

import (
	"strings"
	"syscall"
	"testing"
)

// A worker whose SIGTERM a library like JAX has taken does not stop by it. The agent says why it waits, and
// kills it after the grace.
func TestALibraryThatTakesSIGTERMIsNamed(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	x := p.run("--job-id=x", "--grace=4s", "python3", p.script(`
import mmap, os, signal, sys
os.makedirs(os.path.join(os.environ["HOME"], "jaxlib"), exist_ok=True)
with open(os.path.join(os.environ["HOME"], "jaxlib", "libjax.so"), "wb+") as file:
    file.write(b"x" * 4096)
    file.flush()
    taken = mmap.mmap(file.fileno(), 4096)
signal.signal(signal.SIGTERM, lambda *_: None)
print("up", file=sys.stderr, flush=True)
while True:
    time.sleep(1)
`))
	p.says(x, "up")
	p.sends(x, syscall.SIGTERM)
	p.says(x, "JAX takes SIGTERM")
	<-x.done
	if !strings.Contains(x.stderr(), "are killed 4s after they were asked to stop") {
		t.Errorf("it says %q", x.stderr())
	}
}
