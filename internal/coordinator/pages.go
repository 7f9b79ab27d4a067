package coordinator

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/server/v3/auth"

	"github.com/elasticd/elastic/internal/page"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// newPage returns the page of the jobs in this store.
func (m *Member) newPage() *page.Page {
	return page.New(page.Config{Source: reader{m}, Health: m.health, Lines: page.NodeLines(reader{m})})
}

// readers lets only those see the page who may read all jobs. On a socket these are the users that
// can enter the data directory. Elsewhere, while etcd has roles, the name in the certificate is the
// user.
func (m *Member) readers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := m.mayRead(r); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// mayRead says why the sender of a request may not read all jobs; nil: it may.
func (m *Member) mayRead(r *http.Request) error {
	roles := m.etcd.Server.AuthStore()
	if at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr); !roles.IsAuthEnabled() ||
		at != nil && at.Network() == "unix" {
		return nil
	}
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return fmt.Errorf("etcd has roles: open the page with a client certificate, or: elastic page --user=NAME")
	}
	user := r.TLS.VerifiedChains[0][0].Subject.CommonName
	err := roles.IsRangePermitted(&auth.AuthInfo{Username: user, Revision: roles.Revision()},
		[]byte(schema.Root), []byte(store.End(schema.Root)))
	if err != nil {
		return fmt.Errorf("user %s of etcd may not read %s: %w", user, schema.Root, err)
	}
	return nil
}

// health returns the state of this store and of its members.
func (m *Member) health(ctx context.Context) page.Health {
	h := page.Health{Kind: "elasticd", Name: m.cfg.Name, Members: []page.Member{}, Warnings: []string{}}
	leader := m.etcd.Server.Leader()
	for _, peer := range m.etcd.Server.Cluster().Members() {
		own := peer.ID == m.etcd.Server.MemberID()
		h.Members = append(h.Members, page.Member{Name: peer.Name, Leader: peer.ID == leader,
			Down: !own && !anyListens(ctx, peer.PeerURLs)})
	}
	slices.SortFunc(h.Members, func(a, b page.Member) int { return strings.Compare(a.Name, b.Name) })
	if leader == 0 {
		h.Warnings = append(h.Warnings, "no leader: no request is answered, training goes on")
	}
	if m.full() {
		h.Warnings = append(h.Warnings, "the store is full")
	}
	for file, end := range m.certificates() {
		if left := time.Until(end); left < certificateSoon {
			h.Warnings = append(h.Warnings, fmt.Sprintf("%s expires in %s", file,
				phrase.Count(int(max(0, left)/(24*time.Hour)), "day")))
		}
	}
	slices.Sort(h.Warnings)
	return h
}

// certificateSoon is how long before its end a certificate is warned about.
const certificateSoon = 14 * 24 * time.Hour

// certificates returns when the certificate files of this member expire. They are read each time,
// because they are renewed.
func (m *Member) certificates() map[string]time.Time {
	ends := map[string]time.Time{}
	for _, file := range []string{m.cfg.Clients.Cert, m.cfg.Clients.CA, m.cfg.Peers.Cert, m.cfg.Peers.CA} {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
			c, err := x509.ParseCertificate(block.Bytes)
			if end, known := ends[file]; err == nil && (!known || c.NotAfter.Before(end)) {
				ends[file] = c.NotAfter
			}
		}
	}
	return ends
}

// anyListens reports whether a member accepts connections of its peers.
func anyListens(ctx context.Context, urls []string) bool {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			continue
		}
		network, address := "tcp", u.Host
		if u.Scheme == "unix" || u.Scheme == "unixs" {
			network, address = "unix", u.Host+u.Path
		}
		if c, err := new(net.Dialer).DialContext(ctx, network, address); err == nil {
			c.Close()
			return true
		}
	}
	return false
}
