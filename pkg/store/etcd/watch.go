package etcd

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/elasticd/elastic/pkg/store"
)

// A watch on a paused or cut member gets neither events nor an error. So after quietLimit it asks
// for a sign of life, and after signLimit more it is opened on another member: it is silent for
// three seconds at most.
//
// The request for a sign is a second watch on the same stream, from a revision that never comes.
// etcd confirms it at once. A progress request would not do: etcd does not answer it while the
// watch is from a future revision, as every watch of an idle store is.
const (
	quietLimit = 2 * time.Second
	signLimit  = time.Second

	never = math.MaxInt64 - 1 // a revision

	firstWait = 50 * time.Millisecond // between two openings
)

// watch is one watch as its consumer sees it, over several streams. Its own goroutine owns it.
type watch struct {
	s        *Store
	key, end string
	out      chan store.Change
	last     int64  // every change up to here was delivered
	cluster  uint64 // 0 until an answer names it
}

// Watch reopens its stream on other endpoints as often as needed, without a gap or a repeated
// change. It may end with ErrOtherCluster, beside store.ErrCompacted. While etcd answers, a change
// or a sign of life arrives at least every three seconds.
func (s *Store) Watch(ctx context.Context, key, end string, from int64) <-chan store.Change {
	w := &watch{s: s, key: key, end: end, out: make(chan store.Change), last: max(from, 1) - 1,
		cluster: s.cluster.Load()}
	go w.run(ctx)
	return w.out
}

func (w *watch) run(ctx context.Context) {
	defer close(w.out)
	wait := firstWait
	for {
		at := w.s.at.Load()
		opened, err := w.follow(ctx, int(at))
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, store.ErrCompacted) || errors.Is(err, ErrOtherCluster) ||
			errors.Is(err, errClosed) {
			w.tell(ctx, store.Change{Err: err})
			return
		}
		w.s.leave(at)
		if opened {
			wait = firstWait
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait/2 + rand.N(wait)):
		}
		wait = min(2*wait, store.Again)
	}
}

// follow opens one stream, and delivers its changes until it fails or is silent for too long.
func (w *watch) follow(ctx context.Context, at int) (opened bool, err error) {
	conn, err := w.s.conn(at)
	if err != nil {
		return false, err
	}
	var reader sync.WaitGroup
	defer reader.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	if err := w.s.auth.begin(ctx, conn); err != nil {
		return false, err
	}
	token := w.s.auth.current()
	stream, err := w.open(ctx, cancel, conn, token)
	if err != nil {
		return false, err
	}
	answers := make(chan answer)
	reader.Go(func() { receive(ctx, stream, answers) })

	id, asked, silence := int64(0), true, time.NewTimer(requestLimit)
	defer silence.Stop()
	for {
		select {
		case <-ctx.Done():
			return opened, ctx.Err()
		case a := <-answers:
			switch {
			case a.err != nil:
				return opened, classify(a.err)
			case !opened || a.WatchId == id:
				id = a.WatchId
				err = w.take(ctx, a.WatchResponse)
			case a.Created && !a.Canceled: // the sign of life that was asked for
				if err = w.take(ctx, a.WatchResponse); err == nil {
					err = stream.Send(cancelRequest(a.WatchId))
				}
			}
			if w.s.auth != nil && staleToken(err) {
				w.renewToken(ctx, at, token)
			}
			if err != nil {
				return opened, err
			}
			opened, asked = true, false
			silence.Reset(quietLimit)
		case <-silence.C:
			if asked {
				return opened, errSilent
			}
			if err := stream.Send(w.request(never)); err != nil {
				return opened, err
			}
			asked = true
			silence.Reset(signLimit)
		}
	}
}

// open starts a watch for every change after the last delivered one. cancel ends ctx, and so gives
// up a member that does not answer.
func (w *watch) open(
	ctx context.Context, cancel func(), conn *grpc.ClientConn, token string,
) (pb.Watch_WatchClient, error) {
	opening := time.AfterFunc(requestLimit, cancel)
	stream, err := pb.NewWatchClient(conn).Watch(w.s.auth.attach(clientv3.WithRequireLeader(ctx), token))
	if err != nil {
		return nil, err
	}
	if !opening.Stop() {
		return nil, errSilent
	}
	return stream, stream.Send(w.request(w.last + 1))
}

type answer struct {
	*pb.WatchResponse
	err error
}

// receive passes on the answers of a stream, until it fails or ctx ends.
func receive(ctx context.Context, stream pb.Watch_WatchClient, to chan<- answer) {
	for {
		res, err := stream.Recv()
		select {
		case to <- answer{res, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (w *watch) request(from int64) *pb.WatchRequest {
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{
		Key: []byte(w.key), RangeEnd: []byte(w.end), StartRevision: from, ProgressNotify: true}}}
}

func cancelRequest(id int64) *pb.WatchRequest {
	r := &pb.WatchCancelRequest{WatchId: id}
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: r}}
}

// take delivers one answer, split into revisions.
func (w *watch) take(ctx context.Context, a *pb.WatchResponse) error {
	if w.cluster == 0 {
		w.cluster = a.Header.ClusterId
	}
	switch {
	case a.Header.ClusterId != w.cluster:
		return ErrOtherCluster
	case a.Header.Revision < w.last:
		return store.ErrCompacted // the store was set back, or this member lags: a read shows which
	case a.CompactRevision != 0:
		return store.ErrCompacted
	case a.Canceled:
		return namedIn(a.CancelReason)
	case len(a.Events) == 0:
		if !a.Created { // a progress notice: everything up to its revision was sent
			w.last = max(w.last, a.Header.Revision)
		}
		w.tell(ctx, store.Change{Rev: w.last})
		return nil
	}
	for evs := a.Events; len(evs) > 0; {
		c := store.Change{Rev: evs[0].Kv.ModRevision}
		for len(evs) > 0 && evs[0].Kv.ModRevision == c.Rev {
			c.Events = append(c.Events, event(evs[0]))
			evs = evs[1:]
		}
		if c.Rev > w.last {
			w.last = c.Rev
			w.tell(ctx, c)
		}
	}
	return nil
}

func (w *watch) tell(ctx context.Context, c store.Change) {
	select {
	case w.out <- c:
	case <-ctx.Done():
	}
}

// renewToken gets a new token if it can. If not, the watch is opened again and fails again.
func (w *watch) renewToken(ctx context.Context, at int, old string) {
	if conn, err := w.s.conn(at); err == nil {
		_ = w.s.auth.renew(ctx, conn, old)
	}
}

func event(e *mvccpb.Event) store.Event {
	if e.Type == mvccpb.Event_DELETE {
		return store.Event{Entry: store.Entry{Key: string(e.Kv.Key), Rev: e.Kv.ModRevision}, Deleted: true}
	}
	return store.Event{Entry: entry(e.Kv)}
}
