package worker

import (
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/elasticd/elastic/internal/worker/output"
	"github.com/elasticd/elastic/internal/worker/proc"
)

// BenchmarkStart is the way from nothing to a running worker and back.
func BenchmarkStart(b *testing.B) {
	s := benchSpec(b, "exec sleep 1000", output.Options{})
	for b.Loop() {
		g, err := Start(b.Context(), s)
		if err != nil {
			b.Fatal(err)
		}
		if err := g.Stop(b.Context(), 0); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOutput is how fast a worker may write, one MB a step.
func BenchmarkOutput(b *testing.B) {
	for _, shown := range []output.Std{output.None, output.Both} {
		b.Run(fmt.Sprintf("shown=%v", shown == output.Both), func(b *testing.B) {
			b.SetBytes(1 << 20)
			s := benchSpec(b, fmt.Sprintf("yes 'a line of a training script, of the usual length: step 1, "+
				"loss 0.1' | head -c %d", b.N<<20),
				output.Options{Console: io.Discard, Show: func(int) output.Std { return shown },
					Rotate: 64 << 20, Keep: 1})
			b.ResetTimer()
			g, err := Start(b.Context(), s)
			if err != nil {
				b.Fatal(err)
			}
			<-g.Done()
		})
	}
}

func benchSpec(b *testing.B, script string, o output.Options) Spec {
	b.Helper()
	dir := b.TempDir()
	o.Dir = filepath.Join(dir, "log")
	logs, err := output.Open(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { logs.Close(b.Context()) })
	return Spec{
		Mark: proc.MarkOf(dir), Node: "a", Generation: 1, Ranks: []int{0}, WorldSize: 1,
		Argv: []string{"/bin/sh", "-c", script}, Env: [][]string{{"PATH=/usr/bin:/bin"}}, Dir: dir,
		RunDir: filepath.Join(dir, "run"), Logs: logs, Guardian: guardianArgv(),
	}
}
