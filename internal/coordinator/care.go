package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/elasticd/elastic/internal/coordinator/jobs"
	"github.com/elasticd/elastic/pkg/schema"
)

const (
	lookEvery = 5 * time.Second // alarms cannot be watched
	tidyEvery = time.Hour
	history   = 10_000 // revisions that tidy keeps
	// A cure rewrites the databases of all members, so it is repeated only after this time.
	cureAgain = 10 * time.Minute
	peerLimit = 5 * time.Minute // to defragment one member
	careLimit = 30 * time.Minute
	signLimit = 10 * time.Second
)

// care is the state of Run about the space of the store. The metrics read cures too.
type care struct {
	reported bool      // the log has the message that the store is full
	tried    time.Time // when the last cure started
	cures    atomic.Int64
}

// writeVersion writes schema.Elasticd, once for each version.
func (m *Member) writeVersion(ctx context.Context) {
	ctx, cancel := context.WithTimeout(m.asRoot(ctx), signLimit)
	defer cancel()
	_, err := m.client.Txn(ctx).
		If(clientv3.Compare(clientv3.Value(schema.Elasticd), "=", m.cfg.Version)).
		Else(clientv3.OpPut(schema.Elasticd, m.cfg.Version)).Commit()
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		m.log.Warn("write the version into the store", zap.Error(err))
	}
}

// look logs whether the store is full. If it is, the leader cures it.
func (m *Member) look(ctx context.Context, now time.Time) {
	full := m.tell()
	if !full || !m.leads() || !m.care.tried.IsZero() && now.Sub(m.care.tried) < cureAgain {
		return
	}
	m.care.tried = now
	ctx, cancel := context.WithTimeout(ctx, careLimit)
	defer cancel()
	if err := m.cure(ctx); err != nil {
		m.log.Error("the store is still full", zap.Error(err))
		return
	}
	if !m.tell() {
		m.care.tried = time.Time{}
		m.care.cures.Add(1)
	}
}

// tell logs once that the store is full, or that it has space again.
func (m *Member) tell() (full bool) {
	full = m.full()
	switch {
	case !full && m.care.reported:
		m.log.Warn("the store has space again")
	case full && !m.care.reported:
		m.log.Error("the store is full: no node can join and no checkpoint can be committed until it has "+
			"space again",
			zap.Int64("quota", m.cfg.Quota))
	}
	m.care.reported = full
	return full
}

// full reports whether a member raised the alarm NOSPACE. etcd then refuses puts and new leases
// until the alarm is disarmed.
func (m *Member) full() bool { return m.alarm(pb.AlarmType_NOSPACE) }

func (m *Member) alarm(kind pb.AlarmType) bool {
	for _, a := range m.etcd.Server.Alarms() {
		if a.Alarm == kind {
			return true
		}
	}
	return false
}

// cure compacts the whole history, defragments one member after the other, and disarms the alarm.
func (m *Member) cure(ctx context.Context) error {
	ctx = m.asRoot(ctx)
	now, err := m.client.Get(ctx, schema.Elasticd, clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("read the revision: %w", err)
	}
	if _, err := m.client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical()); err != nil &&
		!compacted(err) {
		return fmt.Errorf("compact: %w", err)
	}
	if err := m.defragment(ctx); err != nil {
		return err
	}
	for _, a := range m.etcd.Server.Alarms() {
		if a.Alarm != pb.AlarmType_NOSPACE {
			continue
		}
		if _, err := m.client.AlarmDisarm(ctx, (*clientv3.AlarmMember)(a)); err != nil {
			return fmt.Errorf("disarm: %w", err)
		}
	}
	return nil
}

// defragment shrinks the database of each member in turn, this one last. A member answers no
// requests meanwhile. It skips a member that it cannot reach. It fails if this member's data is
// still too large.
func (m *Member) defragment(ctx context.Context) error {
	members, err := m.client.MemberList(ctx)
	if err != nil {
		return fmt.Errorf("list members: %w", err)
	}
	for _, peer := range members.Members {
		if peer.ID == uint64(m.etcd.Server.MemberID()) {
			continue
		}
		if err := m.defragmentPeer(ctx, peer.ClientURLs); err != nil {
			m.log.Error("a member was not defragmented", zap.String("member", peer.Name), zap.Error(err))
		}
	}
	b := m.etcd.Server.Backend() // the in-process client cannot defragment
	if err := b.Defrag(); err != nil {
		return fmt.Errorf("defragment: %w", err)
	}
	return m.fits(b.Size())
}

func (m *Member) fits(size int64) error {
	if size > m.cfg.Quota*9/10 {
		return fmt.Errorf("the data itself takes %d of %d bytes: remove jobs (elastic rm) or raise "+
			"--quota-backend-bytes", size, m.cfg.Quota)
	}
	return nil
}

func (m *Member) defragmentPeer(ctx context.Context, urls []string) error {
	if len(urls) == 0 {
		return fmt.Errorf("it has not published its address")
	}
	cfg := clientv3.Config{Endpoints: urls[:1], Logger: zap.NewNop(), Context: ctx}
	if m.cfg.Clients.Cert != "" {
		tls, err := m.cfg.Clients.info().ClientConfig()
		if err != nil {
			return err
		}
		cfg.TLS = tls
	}
	c, err := clientv3.New(cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, peerLimit)
	defer cancel()
	if _, err := c.Defragment(ctx, urls[0]); err != nil {
		return fmt.Errorf("defragment: %w", err)
	}
	s, err := c.Status(ctx, urls[0])
	if err != nil {
		return fmt.Errorf("read the size: %w", err)
	}
	return m.fits(s.DbSize)
}

// tidy runs every hour on the leader. It removes jobs that ended long ago, compacts old history,
// and defragments a large database that is mostly free.
func (m *Member) tidy(ctx context.Context, now time.Time) {
	if !m.leads() {
		return
	}
	ctx, cancel := context.WithTimeout(m.asRoot(ctx), careLimit)
	defer cancel()
	if n, err := jobs.RemoveEnded(ctx, m.client, now); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		m.log.Error("remove jobs that ended", zap.Int("removed", n), zap.Error(err))
	}
	if err := m.shorten(ctx, history); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		m.log.Error("forget old history", zap.Error(err))
	}
	b := m.etcd.Server.Backend()
	if b.Size() > m.cfg.Quota/2 && b.SizeInUse() < b.Size()/2 {
		if err := m.defragment(ctx); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
			m.log.Error("give space back", zap.Error(err))
		}
	}
}

// shorten compacts history older than keep revisions. etcd does this every five minutes, but a
// local server is often idle and ends sooner.
func (m *Member) shorten(ctx context.Context, keep int64) error {
	r, err := m.client.Get(ctx, schema.Elasticd, clientv3.WithCountOnly())
	if err != nil || r.Header.Revision <= keep {
		return err
	}
	if _, err := m.client.Compact(ctx, r.Header.Revision-keep); err != nil && !compacted(err) {
		return err
	}
	return nil
}

func compacted(err error) bool { return rpctypes.Error(err) == rpctypes.ErrCompacted }
