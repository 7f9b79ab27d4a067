package capture

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A file that is closed when its worker fails may be incomplete: a write failed, and the exception
// closed the file. It is taken if it was closed at an earlier look, or was renamed.
func TestWorkerThatFails(t *testing.T) {
	for _, c := range []struct {
		name string
		save func(b *bench, step string)
		want bool
	}{
		{"in the middle of a file", func(b *bench, step string) {
			f, err := os.Create(filepath.Join(b.dir, "model.raw"))
			must(b.t, err)
			_, err = f.WriteString(step)
			must(b.t, err)
			b.want(b.look(time.Second), "", "", 0)
			must(b.t, f.Close())
		}, false},
		{"in the middle of a file, between two looks",
			func(b *bench, step string) { b.write("model.raw", step) }, false},
		{"after a file was renamed", func(b *bench, step string) {
			b.write("model.raw.tmp", step)
			b.rename("model.raw.tmp", "model.raw")
		}, true},
		{"after a file was seen closed", func(b *bench, step string) {
			b.write("model.raw", step)
			b.now = time.Now() // the file is too young to be taken
			b.want(b.look(0), "", "", 0)
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &bench{t: t, dir: t.TempDir(), now: time.Now(), own: true}
			b.watch(nil)
			b.write("model.raw", "1")
			b.want(b.look(2*time.Second), "model.raw", "model.raw", unknown)
			c.save(b, "2")
			b.state = Failed
			p := b.once(true)
			if (p != nil) != c.want {
				t.Errorf("taken: %q, want %t; refused: %v", paths(p), c.want, b.refused)
			}
		})
	}
}

// There is no save before the first one. If its worker fails, a single file is a complete save if
// it was renamed, but not if it was only closed just before the failure.
func TestWorkerThatFailsInItsFirstSave(t *testing.T) {
	for _, renamed := range []bool{false, true} {
		b := &bench{t: t, dir: t.TempDir(), now: time.Now(), own: true}
		b.watch(nil)
		b.write("model.raw.tmp", "1")
		want := ""
		if renamed {
			b.rename("model.raw.tmp", "model.raw")
			want = "model.raw"
		} else {
			must(t, os.Remove(filepath.Join(b.dir, "model.raw.tmp")))
			b.write("model.raw", "1")
		}
		b.want(b.look(300*time.Millisecond), "", "", 0)
		b.state = Failed
		b.want(b.once(true), want, "model.raw", unknown)
	}
}
