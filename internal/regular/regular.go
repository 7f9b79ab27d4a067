// Package regular opens and writes files in places where others may write: log directories,
// checkpoint directories, and what a user names. There a file may be a link that leads elsewhere, a
// pipe that blocks whoever opens it, a device without an end, or another user's. Every open of such
// a file goes through this package; a test of internal lists all others, with the reason.
package regular

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Limits of what is read whole.
const (
	secretMax = 64 << 10
	// Small is enough for a file of a few lines.
	Small = 64 << 10
)

var (
	// ErrNotRegular means that there is a link, a pipe, a device or a directory instead of a file.
	ErrNotRegular = errors.New("it is no regular file")
	// ErrForeign means that another user owns the file, or can change it.
	ErrForeign = errors.New("another user has access")
	// ErrTooLarge means that a file is larger than what is read.
	ErrTooLarge = errors.New("it is too large")
)

// Open opens a file for reading. It never blocks. A link is followed, because reading what the link
// names is harmless.
func Open(path string) (*os.File, error) { return open(path, os.O_RDONLY) }

// Read returns the content of a file of at most limit bytes. Errors: ErrNotRegular, ErrTooLarge,
// and those of the file system.
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, limit)
}

// ReadOwn returns the content of a file that only we, or root, can write. Errors: ErrForeign, and
// those of Read.
func ReadOwn(path string) ([]byte, error) { return readChecked(path, 0o022) }

// ReadSecret is ReadOwn for a file that no other user can read. A group may read it. Errors:
// ErrForeign, and those of Read.
func ReadSecret(path string) ([]byte, error) { return readChecked(path, 0o026) }

// CheckDir fails if somebody else, except root, can put files into a directory. Errors: ErrForeign,
// and those of the file system.
func CheckDir(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return checkMode(path, &st, 0o022)
}

func readChecked(path string, never uint32) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if err := checkMode(path, &st, never); err != nil {
		return nil, err
	}
	return readAll(f, secretMax)
}

// checkMode fails if another user owns something, or has one of the permissions of never.
func checkMode(path string, st *unix.Stat_t, never uint32) error {
	if int(st.Uid) != os.Geteuid() && st.Uid != 0 {
		return foreign(path, "it belongs to user %d, you are %d", st.Uid, os.Geteuid())
	}
	if mode := st.Mode & 0o777; mode&never != 0 {
		return foreign(path, "its mode is %04o: chmod %04o %s", mode, mode&^(never|0o007), path)
	}
	return nil
}

// Write opens a file for writing, and makes it with mode 0600 if there is none. flags are those of
// os.OpenFile. It follows no link, and writes to no file with a second name, or of a user who is
// neither ours nor that of the directory.
// Errors: ErrNotRegular, ErrForeign.
func Write(path string, flags int) (*os.File, error) {
	truncate := flags&os.O_TRUNC != 0 // only what has passed the checks is emptied
	f, err := open(path, flags&^os.O_TRUNC|os.O_CREATE|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	err = checkOwn(f)
	if err == nil && truncate {
		err = f.Truncate(0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Replace writes a file whole or not at all. What had the name before is not written to.
func Replace(path string, content []byte) error {
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text()[:8]+"~")
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		os.Remove(temp)
	}
	return err
}

func open(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NONBLOCK, 0o600)
	if errors.Is(err, unix.ELOOP) && flags&unix.O_NOFOLLOW != 0 {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w: a symbolic link", ErrNotRegular)}
	}
	if errors.Is(err, unix.ENXIO) { // a pipe that nobody reads
		return nil, &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w: %s", ErrNotRegular, info.Mode().Type())}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func readAll(f *os.File, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = &fs.PathError{Op: "read", Path: f.Name(), Err: ErrTooLarge}
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// checkOwn fails if a file that is open for writing may be another one than its name says.
func checkOwn(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	if st.Nlink > 1 {
		return &fs.PathError{Op: "open", Path: f.Name(), Err: fmt.Errorf("%w: it has %d names", ErrNotRegular,
			st.Nlink)}
	}
	// Where a server of files gives all of them to one user, the directory has the same one.
	var dir unix.Stat_t
	if int(st.Uid) != os.Geteuid() && (unix.Stat(filepath.Dir(f.Name()), &dir) != nil || dir.Uid != st.Uid) {
		return foreign(f.Name(), "it belongs to user %d, you are %d", st.Uid, os.Geteuid())
	}
	return nil
}

func foreign(path, how string, args ...any) error {
	return &fs.PathError{Op: "open", Path: path,
		Err: fmt.Errorf("%w: %s", ErrForeign, fmt.Sprintf(how, args...))}
}
