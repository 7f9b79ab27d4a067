package coordinator

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// Source is the member of which a backup is taken.
type Source struct {
	Endpoint       string // "": the socket in Dir
	Dir            string // its data directory, where there is no Endpoint
	Certs          TLS    // of this client
	User, Password string
}

// answerLimit is how long the member has to answer before the backup begins.
const answerLimit = 5 * time.Second

// Backup writes a backup of a member that runs to file, in etcd's format. The file is whole, or it is
// what it was before.
//
// Errors: ErrUsage, ErrBackup.
func Backup(ctx context.Context, s Source, file string) error {
	c, err := s.client()
	if err != nil {
		return err
	}
	defer c.Close()
	asking, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	if _, err := c.Status(asking, c.Endpoints()[0]); err != nil {
		return &Problem{Kind: ErrBackup, Text: fmt.Sprintf("%s does not answer: %v", c.Endpoints()[0], err),
			Fix: "--endpoint of a member that runs, with --cacert, --cert and --key where it has certificates"}
	}
	r, err := c.SnapshotWithVersion(ctx)
	if err != nil {
		return notWritten(file, err)
	}
	defer r.Snapshot.Close()
	return writeBackup(file, r.Snapshot)
}

func (s Source) client() (*clientv3.Client, error) {
	if s.Endpoint == "" {
		s.Endpoint = "unix://" + filepath.Join(s.Dir, clientSocket)
	}
	conf := clientv3.Config{Endpoints: []string{s.Endpoint}, Logger: zap.NewNop(), Username: s.User,
		Password: s.Password, DialTimeout: answerLimit}
	if s.Certs != (TLS{}) {
		var err error
		if conf.TLS, err = s.Certs.client(); err != nil {
			return nil, usage(fmt.Sprintf("certificates: %v", err), "PEM files: --cacert, --cert and --key")
		}
	}
	c, err := clientv3.New(conf)
	if err != nil {
		return nil, &Problem{Kind: ErrBackup, Text: fmt.Sprintf("connect to %s: %v", s.Endpoint, err),
			Fix: "--endpoint=https://HOST:2379 of a member that runs"}
	}
	return c, nil
}

func (t TLS) client() (*tls.Config, error) {
	info := t.info()
	return info.ClientConfig()
}

func notWritten(file string, err error) error {
	return &Problem{Kind: ErrBackup, Text: fmt.Sprintf("write backup %s: %v", file, err),
		Why: "the file is as it was before", Fix: "make room, or ask again when the member answers"}
}

// writeBackup writes a whole backup beside file, and renames it.
func writeBackup(file string, from io.Reader) error {
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
	return syncDir(filepath.Dir(file))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
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

// Restore makes the data directory of c out of a backup. The member then starts with the same c.
// Before, the directory must not exist or be empty; afterwards it is whole, or as it was. A single
// member becomes a new cluster, so that agents notice that the store is another one.
//
// Errors: ErrUsage, ErrDataDir, ErrBackup.
func Restore(c Config, file string) error {
	c.Insecure = true // it listens nowhere
	c, err := c.complete()
	if err != nil {
		return err
	}
	if err := checkBackup(file); err != nil {
		return err
	}
	if list, err := os.ReadDir(c.Dir); len(list) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &Problem{Kind: ErrDataDir, Text: fmt.Sprintf("data directory %s is not empty", c.Dir),
			Why: "a backup is not mixed with other data",
			Fix: fmt.Sprintf("stop its elasticd and move %s away, or another --data-dir", c.Dir)}
	}
	if err := os.MkdirAll(filepath.Dir(c.Dir), 0o700); err != nil {
		return dirError("make data directory", err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(c.Dir), filepath.Base(c.Dir)+".restore-")
	if err != nil {
		return dirError("make data directory", err)
	}
	defer os.RemoveAll(tmp)
	if err := c.restoreTo(filepath.Join(tmp, "data"), file); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(tmp, "data"), c.Dir); err != nil { // also over an empty directory
		return dirError("restore data directory", err)
	}
	return syncDir(filepath.Dir(c.Dir))
}

func checkBackup(file string) error {
	f, err := os.Open(file)
	if err == nil {
		defer f.Close()
		err = whole(f)
	}
	if err != nil {
		return &Problem{Kind: ErrBackup, Text: fmt.Sprintf("backup %s: %v", file, err),
			Fix: "a file that elasticd backup, or etcdctl snapshot save, wrote"}
	}
	return nil
}

// restoreTo makes a new directory with the data of a backup, and the identity of the member.
func (c Config) restoreTo(dir, file string) error {
	id := identity{Format: 1, Name: c.Name, Token: c.Token}
	if c.single() {
		c.InitialCluster = c.Name + "=" + c.AdvertisePeers[0].String()
		id.Token = cmp.Or(id.Token, rand.Text())
	}
	id.Token = cmp.Or(id.Token, embed.NewConfig().InitialClusterToken)
	members, err := types.NewURLsMap(c.InitialCluster)
	if err != nil {
		return err
	}
	err = snapshot.NewV3(c.Log).Restore(snapshot.RestoreConfig{SnapshotPath: file, Name: c.Name,
		OutputDataDir: dir, PeerURLs: members[c.Name].StringSlice(), InitialCluster: c.InitialCluster,
		InitialClusterToken: id.Token})
	if err != nil {
		return &Problem{Kind: ErrBackup, Text: fmt.Sprintf("restore %s: %v", file, err),
			Why: "etcd refuses the backup or --initial-cluster", Fix: "compare the flags with those of the members"}
	}
	d := directory{path: dir}
	return d.remember(id)
}
