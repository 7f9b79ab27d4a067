package coordinator

import (
	"cmp"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/elasticd/elastic/internal/problem"
)

// Restore makes the data directory of c out of a backup. The member then starts with the same c.
// Before, the directory must not exist or be empty; afterwards it is whole, or as it was. A single
// member becomes a new cluster, so that agents notice that the store is another one.
func Restore(c Config, file string) error {
	c.Insecure = true // it listens nowhere
	c, err := c.complete()
	if err != nil {
		return err
	}
	if list, err := os.ReadDir(c.Dir); len(list) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return problem.New(problem.DataDir, "data directory %s is not empty", c.Dir).
			Because("a backup is not mixed with other data").
			Cure("stop its elasticd and move %s away, or another --data-dir", c.Dir)
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
		return problem.New(problem.Failed, "restore %s: %v", file, err).
			Because("etcd refuses the file, or the cluster").
			Cure("a file that elasticd backup wrote, and the flags of the members")
	}
	d := directory{path: dir}
	return d.remember(id)
}
