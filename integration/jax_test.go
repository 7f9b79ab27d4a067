package integration

import (
	"fmt"
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
import mmap, os, signal
os.makedirs(os.path.join(os.environ["HOME"], "jaxlib"), exist_ok=True)
with open(os.path.join(os.environ["HOME"], "jaxlib", "libjax.so"), "wb+") as file:
    file.write(b"x" * 4096)
    file.flush()
    taken = mmap.mmap(file.fileno(), 4096)
signal.signal(signal.SIGTERM, lambda *_: None)
print("up", flush=True)
while True:
    time.sleep(1)
`))
	until(t, "the script is up", func() error {
		if x.stdout() != "up\n" {
			return fmt.Errorf("it wrote %q", x.stdout())
		}
		return nil
	})
	p.sends(x, syscall.SIGTERM)
	p.says(x, "JAX takes SIGTERM")
	<-x.done
	if !strings.Contains(x.stderr(), "are killed 4s after they were asked to stop") {
		t.Errorf("it says %q", x.stderr())
	}
}
