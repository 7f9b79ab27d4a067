package check

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The limits of the check of a disk.
const (
	diskBytes = 64 << 20
	diskTime  = 3 * time.Second
	diskBlock = 1 << 20
)

// Disk writes into a directory, and reports free space, speed and the time of an fsync. It fails if
// the disk cannot be written, or has less than least bytes free.
func Disk(ctx context.Context, dir string, least int64) Finding {
	text, err := measureDisk(ctx, dir, least)
	if err != nil {
		return Finding{Check: "disk", Failed: true, Text: fmt.Sprintf("%s: %v", dir, err)}
	}
	return Finding{Check: "disk", Text: dir + ": " + text}
}

func measureDisk(ctx context.Context, dir string, least int64) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return "", err
	}
	free := int64(fs.Bavail) * fs.Bsize
	if free < least {
		return "", fmt.Errorf("%s free, and %s are needed", Bytes(float64(free)), Bytes(float64(least)))
	}
	f, err := os.CreateTemp(dir, ".elastic-check-")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block := make([]byte, diskBlock)
	began := time.Now()
	written := 0
	for written < min(diskBytes, int(free/2)) && time.Since(began) < diskTime && ctx.Err() == nil {
		n, err := f.Write(block)
		written += n
		if err != nil {
			return "", err
		}
	}
	if err := f.Sync(); err != nil {
		return "", err
	}
	took := time.Since(began)
	began = time.Now()
	if _, err := f.Write(block[:4<<10]); err != nil {
		return "", err
	}
	if err := f.Sync(); err != nil {
		return "", err
	}
	rate, fsync := Bytes(float64(written)/took.Seconds()), time.Since(began).Round(100*time.Microsecond)
	return fmt.Sprintf("%s free, writes %s/s, fsync in %s", Bytes(float64(free)), rate, fsync), ctx.Err()
}
