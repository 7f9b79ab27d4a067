// An agent that rests is not woken every second to look whether its CPU limit has changed.
//go:debug updatemaxprocs=0

// Elastic is the command line: elastic run is the agent of a node; every other command reads or
// changes a job.
package main

import (
	"os"

	"github.com/elasticd/elastic/internal/cli"
	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/worker"
	"github.com/elasticd/elastic/pkg/store/etcd"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == node.Guardian {
		os.Exit(worker.Guard())
	}
	etcd.Quiet()
	app := command.App{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Run: node.Run}
	os.Exit(cli.Main(app, os.Args[1:]))
}
