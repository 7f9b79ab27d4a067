package main

import (
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/elasticd/elastic/internal/coordinator"
)

// commands are the commands of elasticd. Without one it serves.
func commands(stdout io.Writer) []*cli.Command {
	return []*cli.Command{
		{Name: "backup", Usage: "write what a member has to FILE", ArgsUsage: "FILE",
			Flags: backupFlags(), HideHelpCommand: true,
			Action: func(c *cli.Context) error { return writeBackup(c, stdout) }},
		{Name: "restore", Usage: "make the data directory of a member that is stopped out of FILE",
			ArgsUsage: "FILE", Flags: restoreFlags(), HideHelpCommand: true,
			Action: func(c *cli.Context) error { return restore(c, stdout) }},
	}
}

func backupFlags() []cli.Flag {
	text := func(name, env, usage string) cli.Flag {
		f := &cli.StringFlag{Name: name, Usage: usage}
		if env != "" {
			f.EnvVars = []string{env}
		}
		return f
	}
	return []cli.Flag{
		text("endpoint", "", "`URL` of the member (the socket in its data directory)"),
		text("name", "", "`NAME` of the member, whose directory is NAME.etcd (the host name)"),
		text("data-dir", "", "`DIR` of its data (NAME.etcd)"),
		text("cacert", "ELASTIC_CACERT", "CA `FILE` that certifies the member"),
		text("cert", "ELASTIC_CERT", "certificate `FILE` of this client"),
		text("key", "ELASTIC_KEY", "key `FILE` of this client"),
		text("user", "ELASTIC_USER", "`NAME` of a user with the role root, where etcd has users; ELASTIC_PASSWORD"),
	}
}

// restoreFlags are those of the flags of a member that its data depend on.
func restoreFlags() (all []cli.Flag) {
	wanted := map[string]bool{"name": true, "data-dir": true, "initial-cluster": true,
		"initial-cluster-token": true}
	for _, f := range flags() {
		if wanted[f.Names()[0]] {
			all = append(all, f)
		}
	}
	return all
}

// fileOf returns the only word of a command.
func fileOf(c *cli.Context) (string, error) {
	if c.NArg() != 1 {
		return "", usage("elasticd %s [flags] FILE: one FILE, after the flags", c.Command.Name)
	}
	return c.Args().First(), nil
}

func writeBackup(c *cli.Context, stdout io.Writer) error {
	file, err := fileOf(c)
	if err != nil {
		return err
	}
	s := coordinator.BackupSource{Endpoint: c.String("endpoint"),
		CA: c.String("cacert"), Cert: c.String("cert"), Key: c.String("key"),
		User: c.String("user"), Password: os.Getenv("ELASTIC_PASSWORD")}
	if s.Dir, err = (coordinator.Config{Name: c.String("name"), Dir: c.String("data-dir")}).DataDir(); err != nil {
		return err
	}
	if err := coordinator.WriteBackup(c.Context, s, file); err != nil {
		return err
	}
	st, err := os.Stat(file)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "wrote %s: %d bytes\n", file, st.Size())
	return err
}

func restore(c *cli.Context, stdout io.Writer) error {
	file, err := fileOf(c)
	if err != nil {
		return err
	}
	cfg := coordinator.Config{Name: c.String("name"), Dir: c.String("data-dir"),
		InitialCluster: c.String("initial-cluster"), Token: c.String("initial-cluster-token")}
	dir, err := cfg.DataDir()
	if err != nil {
		return err
	}
	if err := coordinator.Restore(cfg, file); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "restored %s: start elasticd on it with its usual flags\n", dir)
	return err
}
