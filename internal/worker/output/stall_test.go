package output

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A disk that takes nothing does not hold a worker up: its pipe is not locked meanwhile, and has room.
func TestWorkersDoNotWaitForTheDisk(t *testing.T) {
	t.Parallel()
	l := newLogFile(filepath.Join(t.TempDir(), "log"), 1<<30, 0, func(s string) { t.Error(s) })
	defer l.close()
	l.begin("header\n")
	p := &Pump{Of: Both, Log: l}
	write, err := p.Open()
	if err != nil {
		t.Fatal(err)
	}
	p.Start()
	release := holdFile(t, l.Path, 'h')
	defer release()

	more := bytes.Repeat([]byte("another line\n"), 2*Chunk/13)
	wrote := make(chan error, 1)
	go func() {
		_, err := write.WriteString("one line\n")
		for left := 1; err == nil && left > 0; { // what the pump took stands before the locked file now
			left, err = unix.IoctlGetInt(int(p.Read.Fd()), unix.TIOCINQ)
		}
		if err == nil {
			_, err = write.Write(more)
		}
		wrote <- err
	}()
	select {
	case err := <-wrote:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the worker waits for the file")
		release()
		<-wrote
	}
	release()
	write.Close()
	<-p.done
	if got, err := os.ReadFile(l.Path); err != nil || string(got) != "header\none line\n"+string(more) {
		t.Errorf("the log has %d bytes, want %d more than %d: %v",
			len(got), len(more), len("header\none line\n"), err)
	}
}

// The ioctls of userfaultfd(2).
const (
	uffdAPI      = 0xc018aa3f
	uffdRegister = 0xc020aa00
	uffdCopy     = 0xc028aa03
)

// holdFile begins to write first, the first byte of a file, over itself, and keeps the kernel from
// ending that until release: it waits for the memory that the byte is in, with the file locked.
func holdFile(t *testing.T, path string, first byte) (release func()) {
	t.Helper()
	ioctl := func(fd uintptr, request uintptr, arg unsafe.Pointer) {
		t.Helper()
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(arg)); errno != 0 {
			t.Fatalf("userfaultfd: %v", errno)
		}
	}
	faults, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if errno != 0 {
		t.Fatalf("userfaultfd: %v; this test needs root", errno)
	}
	size := os.Getpagesize()
	page, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	at := uintptr(unsafe.Pointer(&page[0]))
	ioctl(faults, uffdAPI, unsafe.Pointer(&struct{ api, features, ioctls uint64 }{api: 0xaa}))
	ioctl(faults, uffdRegister,
		unsafe.Pointer(&struct{ start, length, mode, ioctls uint64 }{uint64(at), uint64(size), 1, 0}))
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	held := make(chan error, 1)
	go func() {
		_, err := syscall.Pwrite(int(file.Fd()), page[:1], 0)
		held <- err
	}()
	if _, err := unix.Read(int(faults), make([]byte, 32)); err != nil { // the byte is asked for
		t.Fatal(err)
	}
	released := false
	return func() {
		if released {
			return
		}
		released = true
		source := make([]byte, size)
		source[0] = first
		ioctl(faults, uffdCopy, unsafe.Pointer(&struct {
			to, from unsafe.Pointer
			n, mode  uint64
			done     int64
		}{unsafe.Pointer(&page[0]), unsafe.Pointer(&source[0]), uint64(size), 0, 0}))
		if err := <-held; err != nil {
			t.Error(err)
		}
		file.Close()
		unix.Close(int(faults))
		unix.Munmap(page)
	}
}
