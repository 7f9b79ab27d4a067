package coordinator

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/pkg/v3/netutil"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/features"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/elasticd/elastic/internal/certs"
	"github.com/elasticd/elastic/internal/coordinator/streams"
	"github.com/elasticd/elastic/internal/problem"
)

// Config describes a member. The zero value is a single member whose clients use a socket in its
// data directory.
type Config struct {
	Name string // "": the name in the data directory, else the host name
	Dir  string // "": Name + ".etcd"

	ListenClients, AdvertiseClients []url.URL
	ListenPeers, AdvertisePeers     []url.URL // nil for a single member, which listens for none

	InitialCluster string // "": only this member
	Existing       bool   // join an existing cluster
	Token          string // "": etcd's default for a cluster, a random one for a single member

	Clients, Peers TLS
	Secret         certs.Token // what clients on TCP addresses must know, where Clients has no files
	Insecure       bool        // accept every client on TCP addresses

	Own             bool // "elastic run" started it for its nodes
	AllowMembership bool // clients may add members to a single one
	Alone           bool // forget the other members of the data directory: there is no majority of them

	Heartbeat, Election time.Duration // 0: 100 ms and 1 s; shortest lease = ceil(1.5 × Election) seconds
	// Flush is how often the database is written; 0: etcd's default. No acknowledged write depends
	// on it, because all are in etcd's log.
	Flush time.Duration
	Quota int64 // bytes; 0: 2 GiB

	Log     *zap.Logger // nil: none
	Version string      // of elasticd
}

const (
	defaultQuota = 2 << 30
	// signEvery is how often a watch gets a progress message; etcd adds up to a tenth. A client
	// asks for one after two seconds without a message, and opens the watch again after three.
	signEvery = 1800 * time.Millisecond

	// The window has a fixed size. gRPC would otherwise measure it with a ping for each request.
	window = 4 << 20
)

// ParseURLs parses a comma list of URLs as etcd does.
func ParseURLs(list string) ([]url.URL, error) {
	urls, err := types.NewURLs(strings.Split(list, ","))
	return urls, err
}

// DataDir returns the absolute path of the data directory.
func (c Config) DataDir() (string, error) {
	if c.Name == "" {
		c.Name = hostname()
	}
	if c.Dir == "" {
		c.Dir = c.Name + ".etcd"
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	return dir, nil
}

// complete adds the defaults. It fails for settings that contradict each other.
func (c Config) complete() (Config, error) {
	if c.Name == "" {
		c.Name = hostname()
	}
	if c.Name == embed.DefaultName {
		return c, usage("--name=default: members of that name are taken for one another",
			"another --name, or none: the host name")
	}
	var err error
	if c.Dir, err = c.DataDir(); err != nil {
		return c, err
	}
	if c.ListenClients == nil && c.Clients.Cert != "" {
		c.ListenClients = []url.URL{{Scheme: "https", Host: "127.0.0.1:2379"}}
	}
	own := url.URL{Scheme: "unix", Path: filepath.Join(c.Dir, ClientSocket)}
	if c.ListenClients == nil {
		c.ListenClients = []url.URL{own}
	}
	if c.ListenPeers == nil && (!c.single() || c.Peers.Cert != "") {
		c.ListenPeers = []url.URL{{Scheme: c.Peers.scheme(), Host: "127.0.0.1:2380"}}
	}
	if c.AdvertiseClients == nil {
		c.AdvertiseClients = reachable(c.ListenClients)
	}
	if !slices.Contains(c.ListenClients, own) && len(own.Path) <= socketMax { // for backups
		c.ListenClients = append(slices.Clone(c.ListenClients), own)
	}
	if c.AdvertisePeers == nil {
		c.AdvertisePeers = reachable(c.ListenPeers)
	}
	if c.ListenPeers == nil {
		c.AdvertisePeers = []url.URL{{Scheme: "http", Host: "127.0.0.1:2380"}} // nobody dials it
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
		return c, usage(fmt.Sprintf("election timeout %s with heartbeat %s: at least 5 heartbeats "+
			"are needed", c.Election, c.Heartbeat), "--election-timeout of 10 heartbeats")
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if err := c.checkCluster(); err != nil {
		return c, err
	}
	return c, c.secure()
}

// checkCluster fails if the initial cluster cannot be parsed, or does not have this member.
func (c Config) checkCluster() error {
	if c.InitialCluster == "" {
		return nil
	}
	members, err := types.NewURLsMap(c.InitialCluster)
	if err != nil {
		return usage(fmt.Sprintf("--initial-cluster=%s: %v", c.InitialCluster, err),
			"--initial-cluster=a=http://HOST:2380,b=…")
	}
	if members[c.Name] == nil {
		return usage(fmt.Sprintf("--initial-cluster does not name this member, %s",
			c.Name), "--name as it is written there")
	}
	return nil
}

// single reports whether the member is a cluster of its own.
func (c Config) single() bool { return c.InitialCluster == "" && !c.Existing }

// etcd returns the configuration of the embedded server.
//
// etcd's HTTP pages (/metrics, /version, /debug) have no access control, so the client ports serve
// only gRPC. etcd still needs an address for the pages. It gets a socket that is removed right
// after the start.
func (c Config) etcd(token, pages string, conns *conns, open *streams.Streams) (*embed.Config, error) {
	e := embed.NewConfig()
	e.Name, e.Dir = c.Name, c.Dir
	e.ListenClientUrls, e.AdvertiseClientUrls = c.ListenClients, c.AdvertiseClients
	e.ListenClientHttpUrls = []url.URL{{Scheme: "unix", Path: pages}}
	e.ListenPeerUrls, e.AdvertisePeerUrls = c.ListenPeers, c.AdvertisePeers
	e.InitialCluster = c.InitialCluster
	if e.InitialCluster == "" {
		e.InitialCluster = e.InitialClusterFromName(c.Name)
	}
	e.InitialClusterToken = token
	e.ForceNewCluster = c.Alone
	if c.Existing {
		e.ClusterState = embed.ClusterStateFlagExisting
	}
	e.ClientTLSInfo, e.PeerTLSInfo = c.Clients.info(), c.Peers.info()
	e.TlsMinVersion = "TLS1.3"
	e.TickMs, e.ElectionMs = uint(c.Heartbeat.Milliseconds()), uint(c.Election.Milliseconds())

	e.BackendBatchInterval = c.Flush

	e.EnableGRPCGateway = false
	e.QuotaBackendBytes = c.Quota
	e.AutoCompactionMode, e.AutoCompactionRetention = embed.CompactorModePeriodic, "5m"
	e.WatchProgressNotifyInterval = signEvery
	e.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.StatsHandler(conns),
		grpc.ChainUnaryInterceptor(c.refuses()), grpc.ChainStreamInterceptor(open.Intercept),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(window)}
	if c.Clients.Cert == "" {
		g, err := newGate(c.Secret)
		if err != nil {
			return nil, err
		}
		e.GRPCAdditionalServerOptions = append(e.GRPCAdditionalServerOptions, grpc.Creds(g))
	}
	e.ZapLoggerBuilder = embed.NewZapLoggerBuilder(c.Log)
	err := e.ServerFeatureGate.(interface{ SetFromMap(map[string]bool) error }).SetFromMap(map[string]bool{
		string(features.InitialCorruptCheck): true,
		string(features.CompactHashCheck):    true,
	})
	return e, err
}

// reachable replaces an "all interfaces" address by one that others can dial.
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

func unspecified(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsUnspecified()
}

// hostname returns the host's name without its domain.
func hostname() string {
	h, err := os.Hostname()
	if err != nil || h == "" {
		return "elasticd"
	}
	h, _, _ = strings.Cut(h, ".")
	return h
}

func usage(text, fix string) error { return problem.New(problem.Usage, "%s", text).Cure("%s", fix) }
