package main

import (
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/elasticd/elastic/internal/certs"
	"github.com/elasticd/elastic/internal/coordinator"
	"github.com/elasticd/elastic/internal/local"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/internal/version"
)

// flags are the flags of etcd under their names, and those of elasticd.
func flags() []cli.Flag {
	text := func(name, value, usage string) *cli.StringFlag {
		return &cli.StringFlag{Name: name, Value: value, Usage: usage}
	}
	yes := func(name, usage string) *cli.BoolFlag { return &cli.BoolFlag{Name: name, Usage: usage} }
	all := []cli.Flag{
		text("name", "", "this member's name `NAME` (the host name)"),
		text("data-dir", "", "`DIR` of its data (NAME.etcd)"),
		text("listen-client-urls", "",
			"`URLS` for clients (a socket in DIR; with --cert-file https://127.0.0.1:2379)"),
		text("advertise-client-urls", "", "`URLS` announced to clients (those it listens on)"),
		text("listen-peer-urls", "",
			"`URLS` for the other members (none for a single member, else 127.0.0.1:2380)"),
		text("initial-advertise-peer-urls", "", "`URLS` announced to the other members (those it listens on)"),
		text("initial-cluster", "", "all members, `NAME=URL,…`, when a cluster is made"),
		text("initial-cluster-state", "new", "`STATE` of the cluster: existing for a member that joins one"),
		text("initial-cluster-token", "", "`TEXT` that tells this cluster from others"),
		&cli.IntFlag{Name: "heartbeat-interval", Value: 100, Usage: "`MS` between heartbeats of the leader"},
		&cli.IntFlag{Name: "election-timeout", DefaultText: "10 heartbeats",
			Usage: "`MS` without heartbeat until an election"},
		&cli.Int64Flag{Name: "quota-backend-bytes", DefaultText: "2 GiB",
			Usage: "`BYTES` at which the store is full"},
	}
	for _, side := range []struct{ flag, peers string }{{"", "clients"}, {"peer-", "the other members"}} {
		all = append(all,
			text(side.flag+"cert-file", "", "certificate `FILE` for "+side.peers),
			text(side.flag+"key-file", "", "key `FILE` for "+side.peers),
			text(side.flag+"trusted-ca-file", "", "CA `FILE` that certifies "+side.peers),
			yes(side.flag+"client-cert-auth", "ask "+side.peers+" for certificates"))
	}
	all = append(all,
		text("http", ownSocket,
			"`ADDRESS` of /healthz, /readyz and /metrics: HOST:PORT, unix:/PATH, a socket in DIR, or empty for none"),
		yes("insecure", "serve every client that reaches a TCP address"),
		yes("allow-membership", "let clients add members to a single one"),
		yes("force-new-cluster", "go on alone: forget the other members, which are gone for good"),
		&cli.BoolFlag{Name: strings.TrimLeft(local.LocalFlag, "-"), Hidden: true},
		&cli.BoolFlag{Name: "ensured", Hidden: true},
		&cli.StringFlag{Name: "runtime-dir", Hidden: true},
		&cli.StringFlag{Name: "listen", Hidden: true},
		&cli.DurationFlag{Name: "idle", Value: time.Minute, Hidden: true},
	)
	return all
}

// app is the command line. It returns its errors. Only main prints them and exits.
func app(stdout, stderr io.Writer) *cli.App {
	return &cli.App{
		Name:            "elasticd",
		Usage:           "server of elastic: an etcd member that maintains itself",
		UsageText:       usageText,
		Version:         version.String(),
		Flags:           flags(),
		Commands:        commands(stdout),
		HideHelpCommand: true,
		Writer:          stdout,
		ErrWriter:       stderr,
		OnUsageError:    func(_ *cli.Context, err error, _ bool) error { return usage("%v", err) },
		ExitErrHandler:  func(*cli.Context, error) {},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usage("%q: only flags are understood", c.Args().First())
			}
			if c.Bool("local") {
				r := local.Runtime{Dir: c.String("runtime-dir"), Data: c.String("data-dir"), Idle: c.Duration("idle"),
					Listen: c.String("listen"), Access: local.Access{Open: c.Bool("insecure"),
						Token: certs.Token(os.Getenv(local.TokenEnv))}}
				return serveLocal(c.Context, localServer{Runtime: r, ensured: c.Bool("ensured")}, stderr)
			}
			cfg, err := config(c)
			if err != nil {
				return err
			}
			return serve(c.Context, cfg, c.String("http"), stderr)
		},
	}
}

func usage(format string, args ...any) error {
	return problem.New(problem.Usage, format, args...).Cure("elasticd -h lists the flags")
}

// normalize replaces --data_dir by --data-dir, and so on.
func normalize(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = a
		if a == "--" {
			return append(out[:i], args[i:]...)
		}
		if name, value, has := strings.Cut(a, "="); strings.HasPrefix(name, "-") {
			out[i] = strings.ReplaceAll(name, "_", "-")
			if has {
				out[i] += "=" + value
			}
		}
	}
	return out
}

func config(c *cli.Context) (coordinator.Config, error) {
	cfg := coordinator.Config{
		Name: c.String("name"), Dir: c.String("data-dir"),
		InitialCluster: c.String("initial-cluster"), Token: c.String("initial-cluster-token"),
		Insecure: c.Bool("insecure"), AllowMembership: c.Bool("allow-membership"),
		Alone:     c.Bool("force-new-cluster"),
		Heartbeat: time.Duration(c.Int("heartbeat-interval")) * time.Millisecond,
		Election:  time.Duration(c.Int("election-timeout")) * time.Millisecond,
		Quota:     c.Int64("quota-backend-bytes"),
		Clients:   files(c, ""), Peers: files(c, "peer-"),
	}
	switch state := c.String("initial-cluster-state"); state {
	case "new":
	case "existing":
		cfg.Existing = true
	default:
		return cfg, usage("--initial-cluster-state=%s: new or existing", state)
	}
	for name, urls := range map[string]*[]url.URL{
		"listen-client-urls": &cfg.ListenClients, "advertise-client-urls": &cfg.AdvertiseClients,
		"listen-peer-urls": &cfg.ListenPeers, "initial-advertise-peer-urls": &cfg.AdvertisePeers,
	} {
		if c.String(name) == "" {
			continue
		}
		var err error
		if *urls, err = coordinator.ParseURLs(c.String(name)); err != nil {
			return cfg, usage("--%s=%s: %v", name, c.String(name), err)
		}
	}
	return cfg, nil
}

func files(c *cli.Context, side string) coordinator.TLS {
	return coordinator.TLS{Cert: c.String(side + "cert-file"), Key: c.String(side + "key-file"),
		CA: c.String(side + "trusted-ca-file"), ClientAuth: c.Bool(side + "client-cert-auth")}
}

const usageText = "elasticd [flags]\n   elasticd backup|restore [flags] FILE\n\n" +
	"example, one of three members:\n   elasticd --name=a " +
	"--listen-client-urls=https://10.0.0.1:2379 --listen-peer-urls=https://10.0.0.1:2380 \\\n" +
	"     --initial-cluster=a=https://10.0.0.1:2380,b=https://10.0.0.2:2380,c=https://10.0.0.3:2380 \\\n" +
	"     --cert-file=server.pem --key-file=server-key.pem --trusted-ca-file=ca.pem \\\n" +
	"     --peer-cert-file=peer.pem --peer-key-file=peer-key.pem --peer-trusted-ca-file=ca.pem"
