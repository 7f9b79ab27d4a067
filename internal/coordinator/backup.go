package coordinator

// This file writes backups of an elasticd, or another etcd, that runs.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/elasticd/elastic/internal/problem"
)

// BackupSource is the member of which a backup is taken.
type BackupSource struct {
	Endpoint       string // "": the socket in Dir
	Dir            string // its data directory, where there is no Endpoint
	CA, Cert, Key  string // files of this client
	User, Password string
}

// answerLimit is how long the member has to answer before the backup begins.
const answerLimit = 5 * time.Second

// WriteBackup writes a backup of a member that runs to file, in etcd's format. The file is whole, or it is
// what it was before.
func WriteBackup(ctx context.Context, s BackupSource, file string) error {
	c, err := s.client()
	if err != nil {
		return err
	}
	defer c.Close()
	asking, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	if _, err := c.Status(asking, c.Endpoints()[0]); err != nil {
		return problem.New(problem.Failed, "%s does not answer: %v", c.Endpoints()[0], err).
			Cure("--endpoint of a member that runs, with --cacert, --cert and --key where it has certificates")
	}
	r, err := c.SnapshotWithVersion(ctx)
	if err != nil {
		return notWritten(file, err)
	}
	defer r.Snapshot.Close()
	return save(file, r.Snapshot)
}

func (s BackupSource) client() (*clientv3.Client, error) {
	if s.Endpoint == "" {
		s.Endpoint = "unix://" + filepath.Join(s.Dir, ClientSocket)
	}
	conf := clientv3.Config{Endpoints: []string{s.Endpoint}, Logger: zap.NewNop(), Username: s.User,
		Password: s.Password, DialTimeout: answerLimit}
	if s.CA != "" || s.Cert != "" || s.Key != "" {
		info := transport.TLSInfo{TrustedCAFile: s.CA, CertFile: s.Cert, KeyFile: s.Key}
		var err error
		if conf.TLS, err = info.ClientConfig(); err != nil {
			return nil, usage(fmt.Sprintf("certificates: %v", err), "PEM files: --cacert, --cert and --key")
		}
	}
	c, err := clientv3.New(conf)
	if err != nil {
		return nil, problem.New(problem.Failed, "connect to %s: %v", s.Endpoint, err).
			Cure("--endpoint=https://HOST:2379 of a member that runs")
	}
	return c, nil
}

func notWritten(file string, err error) error {
	return problem.New(problem.Failed, "write backup %s: %v", file, err).Because("the file is as it was before").
		Cure("make room, or ask again when the member answers")
}

// save writes a whole backup beside file, and renames it.
func save(file string, from io.Reader) error {
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*.part")
	if err != nil {
		return notWritten(file, err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := io.Copy(f, from); err != nil {
		return notWritten(file, err)
	}
	if err := whole(f); err != nil {
		return notWritten(file, err)
	}
	if err := f.Sync(); err != nil {
		return notWritten(file, err)
	}
	if err := os.Rename(f.Name(), file); err != nil {
		return notWritten(file, err)
	}
	return nil
}

// whole checks the SHA-256 with which a backup ends.
func whole(f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	size := st.Size() - sha256.Size
	if size <= 0 || size%512 != 0 {
		return errors.New("it is cut off, or no backup of etcd")
	}
	sum, want := sha256.New(), make([]byte, sha256.Size)
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, size)); err != nil {
		return err
	}
	if _, err := f.ReadAt(want, size); err != nil {
		return err
	}
	if !bytes.Equal(sum.Sum(nil), want) {
		return errors.New("its bytes are not those that were written")
	}
	return nil
}
