package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/elasticd/elastic/pkg/store"
)

var _ store.Store = (*Store)(nil)

// Time that one endpoint has for an answer, before the next one is asked. A slower renewal is of no
// use to a lease of two seconds.
const (
	requestLimit = 2 * time.Second
	renewLimit   = 700 * time.Millisecond
	authLimit    = 5 * time.Second // etcd computes a bcrypt for it
)

// request is one exchange with one endpoint.
type request func(context.Context, *grpc.ClientConn, ...grpc.CallOption) error

// repeat says whether a request may be sent again while the result of the first sending is unknown.
type repeat bool

const (
	anew   repeat = true  // for reads, renewals, and what expires by itself
	unsent repeat = false // only if the request certainly did not leave this process
)

func (s *Store) Get(ctx context.Context, key, end string) (store.Read, error) {
	var res *pb.RangeResponse
	err := s.call(ctx, requestLimit, anew,
		func(ctx context.Context, c *grpc.ClientConn, o ...grpc.CallOption) (err error) {
			res, err = pb.NewKVClient(c).Range(ctx, &pb.RangeRequest{Key: []byte(key), RangeEnd: []byte(end)},
				o...)
			return err
		})
	if err != nil {
		return store.Read{}, fmt.Errorf("read %s: %w", key, err)
	}
	s.cluster.Store(res.Header.ClusterId)
	r := store.Read{Rev: res.Header.Revision, Cluster: res.Header.ClusterId}
	for _, kv := range res.Kvs {
		r.Entries = append(r.Entries, entry(kv))
	}
	return r, nil
}

// GetRanges implements store.Store. etcd treats a transaction that only reads as a linearizable
// read.
func (s *Store) GetRanges(ctx context.Context, ranges ...store.Range) (store.Read, error) {
	req := &pb.TxnRequest{}
	for _, g := range ranges {
		req.Success = append(req.Success,
			&pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{
				Key: []byte(g.From), RangeEnd: []byte(g.End), Limit: int64(g.Most)}}})
	}
	var res *pb.TxnResponse
	err := s.call(ctx, requestLimit, anew,
		func(ctx context.Context, c *grpc.ClientConn, o ...grpc.CallOption) (err error) {
			res, err = pb.NewKVClient(c).Txn(ctx, req, o...)
			return err
		})
	if err != nil {
		return store.Read{}, fmt.Errorf("read %s: %w", ranges[0].From, err)
	}
	s.cluster.Store(res.Header.ClusterId)
	r := store.Read{Rev: res.Header.Revision, Cluster: res.Header.ClusterId}
	for _, part := range res.Responses {
		for _, kv := range part.GetResponseRange().GetKvs() {
			r.Entries = append(r.Entries, entry(kv))
		}
	}
	return r, nil
}

func (s *Store) Txn(ctx context.Context, t store.Txn) (store.TxnResult, error) {
	req := txnRequest(t)
	var res *pb.TxnResponse
	err := s.call(ctx, requestLimit, unsent,
		func(ctx context.Context, c *grpc.ClientConn, o ...grpc.CallOption) (err error) {
			res, err = pb.NewKVClient(c).Txn(ctx, req, o...)
			return err
		})
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		err = refusal{fmt.Errorf("%w: %w", store.ErrLeaseLost, err)} // lease ids are not used again
	}
	if err != nil {
		return store.TxnResult{}, fmt.Errorf("transaction: %w", err)
	}
	out := store.TxnResult{OK: res.Succeeded, Rev: res.Header.Revision}
	if !res.Succeeded && t.Else != "" {
		if kvs := res.Responses[0].GetResponseRange().GetKvs(); len(kvs) > 0 {
			e := entry(kvs[0])
			out.Else = &e
		}
	}
	return out, nil
}

// Grant rounds ttl up to whole seconds. A lease whose grant got no answer expires by itself.
func (s *Store) Grant(ctx context.Context, ttl time.Duration) (store.Lease, time.Duration, error) {
	seconds := int64((ttl + time.Second - 1) / time.Second)
	var res *pb.LeaseGrantResponse
	err := s.call(ctx, requestLimit, anew,
		func(ctx context.Context, c *grpc.ClientConn, o ...grpc.CallOption) (err error) {
			res, err = pb.NewLeaseClient(c).LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: max(seconds, 1)}, o...)
			return err
		})
	if err != nil {
		return 0, 0, fmt.Errorf("grant lease: %w", err)
	}
	return store.Lease(res.ID), time.Duration(res.TTL) * time.Second, nil
}

// Renew uses etcd's stream of renewals for one call.
func (s *Store) Renew(ctx context.Context, l store.Lease) error {
	err := s.call(ctx, renewLimit, anew, func(ctx context.Context, c *grpc.ClientConn,
		o ...grpc.CallOption) error {
		var res pb.LeaseKeepAliveResponse
		err := c.Invoke(ctx, pb.Lease_LeaseKeepAlive_FullMethodName,
			&pb.LeaseKeepAliveRequest{ID: int64(l)}, &res, o...)
		if err == nil && res.TTL <= 0 {
			return rpctypes.ErrLeaseNotFound
		}
		return err
	})
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("renew lease: %w", store.ErrLeaseLost)
	}
	if err != nil {
		return fmt.Errorf("renew lease: %w", err)
	}
	return nil
}

// TimeToLive implements store.Store.
func (s *Store) TimeToLive(ctx context.Context, l store.Lease) (left, granted time.Duration, err error) {
	var res *pb.LeaseTimeToLiveResponse
	err = s.call(ctx, requestLimit, anew,
		func(ctx context.Context, c *grpc.ClientConn, o ...grpc.CallOption) (err error) {
			res, err = pb.NewLeaseClient(c).LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: int64(l)},
				o...)
			return err
		})
	if err == nil && res.TTL < 0 || errors.Is(err, rpctypes.ErrLeaseNotFound) {
		err = store.ErrLeaseLost
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read lease: %w", err)
	}
	return time.Duration(res.TTL) * time.Second, time.Duration(res.GrantedTTL) * time.Second, nil
}

// Revoke ends a lease. It is no error if the lease is gone already.
func (s *Store) Revoke(ctx context.Context, l store.Lease) error {
	err := s.call(ctx, requestLimit, anew, func(ctx context.Context, c *grpc.ClientConn,
		o ...grpc.CallOption) error {
		_, err := pb.NewLeaseClient(c).LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: int64(l)}, o...)
		return err
	})
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("revoke lease: %w", err)
	}
	return nil
}

// call sends a request to one endpoint after the other, beginning with the one that answered last,
// until one answers. It returns an error of the context only if ctx has ended, and not for its own
// limits.
func (s *Store) call(ctx context.Context, limit time.Duration, r repeat, f request) error {
	ctx = clientv3.WithRequireLeader(ctx) // else a member without a leader does not answer
	var err error
	for range s.endpoints {
		var sent bool
		i := s.at.Load()
		sent, err = s.try(ctx, int(i), limit, f)
		if err == nil || answered(err) {
			return err
		}
		err = fmt.Errorf("%s: %w", s.endpoints[i], err)
		s.leave(i)
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		if sent && r == unsent {
			return err
		}
	}
	return err
}

// leave makes the endpoint after i the next one to use, unless another request has done so.
func (s *Store) leave(i int64) { s.at.CompareAndSwap(i, (i+1)%int64(len(s.endpoints))) }

// try sends a request to endpoint i, and once more if it needs a new token. sent reports whether
// the request may have reached etcd.
func (s *Store) try(ctx context.Context, i int, limit time.Duration, f request) (sent bool, err error) {
	conn, err := s.conn(i)
	if err != nil {
		return false, err
	}
	if err := s.auth.begin(ctx, conn); err != nil {
		return false, err
	}
	token := s.auth.current()
	sent, err = exchange(s.auth.attach(ctx, token), conn, limit, f)
	if s.auth == nil || !staleToken(err) {
		return sent, err
	}
	if err := s.auth.renew(ctx, conn, token); err != nil {
		return false, err // etcd did not carry it out
	}
	return exchange(s.auth.attach(ctx, s.auth.current()), conn, limit, f)
}

func exchange(
	ctx context.Context, conn *grpc.ClientConn, limit time.Duration, f request,
) (sent bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var p peer.Peer // gRPC fills it as soon as the request has a stream
	err = classify(f(ctx, conn, grpc.Peer(&p)))
	return p.Addr != nil, err
}

func txnRequest(t store.Txn) *pb.TxnRequest {
	r := &pb.TxnRequest{}
	for _, g := range t.If {
		c := &pb.Compare{Key: []byte(g.Key), RangeEnd: []byte(g.End)}
		switch g.What {
		case store.RevIs:
			c.Target, c.Result = pb.Compare_MOD, pb.Compare_EQUAL
			c.TargetUnion = &pb.Compare_ModRevision{ModRevision: g.Rev}
		case store.RevBelow:
			c.Target, c.Result = pb.Compare_MOD, pb.Compare_LESS
			c.TargetUnion = &pb.Compare_ModRevision{ModRevision: g.Rev}
		case store.ValueIs:
			c.Target, c.Result = pb.Compare_VALUE, pb.Compare_EQUAL
			c.TargetUnion = &pb.Compare_Value{Value: []byte(g.Value)}
		default:
			panic(fmt.Sprintf("guard on %s compares %d", g.Key, g.What))
		}
		r.Compare = append(r.Compare, c)
	}
	for _, w := range t.Then {
		op := &pb.RequestOp{}
		if w.Value == nil {
			op.Request = &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{
				Key: []byte(w.Key), RangeEnd: []byte(w.End)}}
		} else {
			op.Request = &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{
				Key: []byte(w.Key), Value: w.Value, Lease: int64(w.Lease)}}
		}
		r.Success = append(r.Success, op)
	}
	if t.Else != "" {
		read := &pb.RangeRequest{Key: []byte(t.Else)}
		r.Failure = []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: read}}}
	}
	return r
}

func entry(kv *mvccpb.KeyValue) store.Entry {
	return store.Entry{Key: string(kv.Key), Value: kv.Value, Rev: kv.ModRevision, Made: kv.CreateRevision,
		Lease: store.Lease(kv.Lease)}
}
