package coordinator

import (
	"path/filepath"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/problem"
)

// room is the space that must stay free for the database and for small files.
const room = 16 << 20

// checkSpace fails if the disk has too little space for etcd to start. etcd creates two segments of its
// log, or one if it has some already, and panics without space for them. An etcd that was killed leaves
// the segment that it had created in advance, and the next one uses it.
func (d *directory) checkSpace() error {
	var disk unix.Statfs_t
	if err := unix.Statfs(d.path, &disk); err != nil {
		return dirError("look at the disk of the data directory", err)
	}
	segments, err := filepath.Glob(filepath.Join(d.path, "member", "wal", "*.wal"))
	if err != nil {
		return dirError("look into the data directory", err)
	}
	needs := wal.SegmentSizeBytes + room
	if len(segments) == 0 {
		needs += wal.SegmentSizeBytes
	}
	free := int64(disk.Bavail) * disk.Bsize
	var next unix.Stat_t
	if unix.Stat(filepath.Join(d.path, "member", "wal", "0.tmp"), &next) == nil {
		free += min(next.Blocks*512, wal.SegmentSizeBytes)
	}
	if free >= needs {
		return nil
	}
	return problem.New(problem.DataDir, "data directory %s: the disk has %d MiB free", d.path, free>>20).
		Because("the log of etcd needs %d MiB to begin", needs>>20).
		Cure("make space on that disk, or another --data-dir")
}
