package coordinator

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/pkg/v3/netutil"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/features"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// Config says which member this is. The zero value is a single member on
// etcd's own ports of 127.0.0.1.
type Config struct {
	Name string // "": the name in the data directory, else the host name
	Dir  string // "": Name + ".etcd"

	ListenClients, AdvertiseClients []url.URL
	ListenPeers, AdvertisePeers     []url.URL // NoPeers: a single member that listens for none
	NoPeers                         bool

	InitialCluster string // "": this member alone
	Existing       bool   // join a cluster that exists
	Token          string // "": etcd's own for a cluster, a random one for a single member

	Clients, Peers TLS
	Insecure       bool // listen beyond loopback without TLS

	Heartbeat, Election time.Duration // 0: 100 ms and 1 s; least lease = ceil(1.5 × Election) seconds
	Quota               int64         // bytes; 0: 2 GiB

	Log     *zap.Logger // nil: none
	Version string      // of elasticd
}

// TLS names files as etcd's flags do.
type TLS struct {
	Cert, Key, CA string
	ClientAuth    bool
}

const defaultQuota = 2 << 30

// ParseURLs reads a comma list of URLs that etcd accepts.
func ParseURLs(list string) ([]url.URL, error) {
	urls, err := types.NewURLs(strings.Split(list, ","))
	return urls, err
}

// complete fills in the defaults and refuses what contradicts itself.
func (c Config) complete() (Config, error) {
	if c.Name == "" {
		c.Name = hostname()
	}
	if c.Name == embed.DefaultName {
		return c, usage("--name=default: members of that name are taken for one another", "another --name, or none: the host name")
	}
	if c.Dir == "" {
		c.Dir = c.Name + ".etcd"
	}
	if c.ListenClients == nil {
		c.ListenClients = []url.URL{{Scheme: c.Clients.scheme(), Host: "127.0.0.1:2379"}}
	}
	if c.ListenPeers == nil && !c.NoPeers {
		c.ListenPeers = []url.URL{{Scheme: c.Peers.scheme(), Host: "127.0.0.1:2380"}}
	}
	if c.AdvertiseClients == nil {
		c.AdvertiseClients = reachable(c.ListenClients)
	}
	if c.AdvertisePeers == nil {
		c.AdvertisePeers = reachable(c.ListenPeers)
	}
	if c.NoPeers {
		c.AdvertisePeers = []url.URL{{Scheme: "http", Host: "127.0.0.1:2380"}} // etcd wants one; nobody dials it
	}
	if c.Quota == 0 {
		c.Quota = defaultQuota
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = 100 * time.Millisecond
	}
	if c.Election == 0 {
		c.Election = 10 * c.Heartbeat
	}
	if c.Election < 5*c.Heartbeat {
		return c, usage(fmt.Sprintf("election timeout %s with heartbeat %s: at least 5 heartbeats are needed", c.Election, c.Heartbeat), "--election-timeout of 10 heartbeats")
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.InitialCluster != "" {
		members, err := types.NewURLsMap(c.InitialCluster)
		if err != nil {
			return c, usage(fmt.Sprintf("--initial-cluster=%s: %v", c.InitialCluster, err), "--initial-cluster=a=http://HOST:2380,b=…")
		}
		if members[c.Name] == nil {
			return c, usage(fmt.Sprintf("--initial-cluster does not name this member, %s", c.Name), "--name as it is written there")
		}
	}
	return c, c.secure()
}

// single reports whether the member starts a cluster of its own.
func (c Config) single() bool { return c.InitialCluster == "" && !c.Existing }

// secure refuses keys that nothing would use, and open ports that nothing protects.
func (c Config) secure() error {
	for _, side := range []struct {
		tls    TLS
		flag   string
		listen []url.URL
	}{{c.Clients, "", c.ListenClients}, {c.Peers, "peer-", c.ListenPeers}} {
		t := side.tls
		if err := t.check(side.flag); err != nil {
			return err
		}
		encrypted := func(u url.URL) bool { return u.Scheme == "https" || u.Scheme == "unixs" }
		if t.Cert != "" && len(side.listen) > 0 && !slices.ContainsFunc(side.listen, encrypted) {
			return usage(fmt.Sprintf("--%scert-file is given, but %s is not https", side.flag, &side.listen[0]), "https:// in the URL")
		}
		if t.Cert == "" && slices.ContainsFunc(side.listen, encrypted) {
			return usage(fmt.Sprintf("an https URL needs --%scert-file and --%[1]skey-file", side.flag), "both, or http://")
		}
		for _, u := range side.listen {
			if u.Scheme == "http" && !loopback(u.Hostname()) && !c.Insecure {
				return &Problem{Kind: ErrListen, Text: fmt.Sprintf("%s is open to other machines without TLS", &u),
					Why: "whoever reaches it can read and change every job",
					Fix: fmt.Sprintf("https:// with --%scert-file, --%[1]skey-file and --%[1]strusted-ca-file; or --insecure in a closed network", side.flag)}
			}
		}
	}
	return nil
}

func (t TLS) scheme() string {
	if t.Cert != "" {
		return "https"
	}
	return "http"
}

func (t TLS) check(flag string) error {
	switch {
	case (t.Cert == "") != (t.Key == ""):
		return usage(fmt.Sprintf("--%scert-file and --%[1]skey-file belong together", flag), "give both")
	case t.ClientAuth && t.CA == "":
		return usage(fmt.Sprintf("--%sclient-cert-auth needs to know whom to trust", flag), fmt.Sprintf("--%strusted-ca-file=FILE", flag))
	case t.Cert == "":
		return nil
	}
	if _, err := tls.LoadX509KeyPair(t.Cert, t.Key); err != nil {
		return usage(fmt.Sprintf("--%scert-file=%s: %v", flag, t.Cert, err), "a PEM certificate and its key")
	}
	return nil
}

func (t TLS) info() transport.TLSInfo {
	return transport.TLSInfo{CertFile: t.Cert, KeyFile: t.Key, TrustedCAFile: t.CA, ClientCertAuth: t.ClientAuth}
}

// etcd builds the configuration of the embedded server.
func (c Config) etcd(token string, conns *conns, streams *Streams) (*embed.Config, error) {
	e := embed.NewConfig()
	e.Name, e.Dir = c.Name, c.Dir
	e.ListenClientUrls, e.AdvertiseClientUrls = c.ListenClients, c.AdvertiseClients
	e.ListenPeerUrls, e.AdvertisePeerUrls = c.ListenPeers, c.AdvertisePeers
	e.InitialCluster = c.InitialCluster
	if e.InitialCluster == "" {
		e.InitialCluster = e.InitialClusterFromName(c.Name)
	}
	e.InitialClusterToken = token
	if c.Existing {
		e.ClusterState = embed.ClusterStateFlagExisting
	}
	e.ClientTLSInfo, e.PeerTLSInfo = c.Clients.info(), c.Peers.info()
	e.TlsMinVersion = "TLS1.3"
	e.TickMs, e.ElectionMs = uint(c.Heartbeat.Milliseconds()), uint(c.Election.Milliseconds())

	// A web page must not reach the store of whoever looks at it. For etcd an empty CORS list
	// means everybody, so the list holds what no browser sends.
	e.EnableGRPCGateway = false
	e.CORS = map[string]struct{}{"-": {}}
	e.HostWhitelist = c.hosts()

	e.QuotaBackendBytes = c.Quota
	e.AutoCompactionMode, e.AutoCompactionRetention = embed.CompactorModePeriodic, "5m"
	e.WatchProgressNotifyInterval = time.Second // a watch is asked anew after 3 silent seconds
	e.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.StatsHandler(conns), grpc.ChainStreamInterceptor(streams.Intercept)}
	e.ZapLoggerBuilder = embed.NewZapLoggerBuilder(c.Log)
	err := e.ServerFeatureGate.(interface{ SetFromMap(map[string]bool) error }).SetFromMap(map[string]bool{
		string(features.InitialCorruptCheck): true,
		string(features.CompactHashCheck):    true,
	})
	return e, err
}

// hosts are the names under which HTTP requests without TLS may come in.
func (c Config) hosts() map[string]struct{} {
	known := map[string]struct{}{}
	for _, u := range slices.Concat(c.ListenClients, c.AdvertiseClients) {
		host := u.Hostname()
		known[host] = struct{}{}
		if loopback(host) || unspecified(host) {
			for _, h := range []string{"localhost", "127.0.0.1", "::1"} {
				known[h] = struct{}{}
			}
		}
		if unspecified(host) {
			known[hostname()] = struct{}{}
		}
	}
	delete(known, "") // of a unix socket, which no page reaches; etcd reads an empty set as everybody
	known["-"] = struct{}{}
	return known
}

// reachable replaces the address "every interface" by one that others can dial.
func reachable(listen []url.URL) []url.URL {
	urls := slices.Clone(listen)
	for i, u := range urls {
		if !unspecified(u.Hostname()) {
			continue
		}
		host, err := netutil.GetDefaultHost()
		if err != nil {
			host = hostname()
		}
		urls[i].Host = net.JoinHostPort(host, u.Port())
	}
	return urls
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func unspecified(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsUnspecified()
}

// hostname is the host's name without its domain.
func hostname() string {
	h, err := os.Hostname()
	if err != nil || h == "" {
		return "elasticd"
	}
	h, _, _ = strings.Cut(h, ".")
	return h
}
