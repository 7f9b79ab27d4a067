package version_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Both programs say the version that the linker was given, and without one never "(devel)".
func TestVersionOfTheBuild(t *testing.T) {
	const flag = "-X github.com/elasticd/elastic/internal/version.release=v1.2.3"
	for _, c := range []struct{ program, ask, flags, want string }{
		{"elastic", "version", flag, "v1.2.3"}, {"elastic", "version", "", "dev"},
		{"elasticd", "--version", flag, "v1.2.3"},
	} {
		bin := filepath.Join(t.TempDir(), c.program)
		build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags", c.flags, "-o",
			bin, "../../cmd/"+c.program)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		out, err := exec.CommandContext(t.Context(), bin, c.ask).CombinedOutput()
		if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), " "+c.want) {
			t.Errorf("%s %s says %q (%v), want %s", c.program, c.ask, out, err, c.want)
		}
	}
}
