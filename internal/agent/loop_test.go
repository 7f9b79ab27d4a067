package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/internal/agent/joining"
	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// The preparation of a generation that was replaced is cancelled: it may fetch for hours.
func TestANewerGenerationEndsWhatPreparedTheOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoop(Config{}, Deps{})
		ctx, cancel := context.WithCancel(t.Context())
		l.newestEffect(ctx, "ready", func(ctx context.Context) message.Event {
			<-ctx.Done()
			return message.Readied{Generation: 1, Err: ctx.Err()}
		})
		l.newestEffect(ctx, "ready",
			func(context.Context) message.Event { return message.Readied{Generation: 2} })
		synctest.Wait()
		for range 2 {
			select {
			case <-l.events:
			default:
				t.Error("one of them is still under way")
			}
		}
		cancel()
		l.effects.Wait()
	})
}

// A read that the store answers late proves nothing: the silent node may have answered, and this
// store shows it late.
func TestAReadThatComesLateProvesNoSilence(t *testing.T) {
	for late, proves := range map[time.Duration]bool{0: true, awaitEvery - time.Millisecond: true,
		awaitEvery + time.Millisecond: false, time.Second: false} {
		t.Run(late.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				etcd := memory.New()
				a, b, job := etcd.Client("a"), etcd.Client("b"), schema.Job("x")
				lease, _, err := b.Grant(t.Context(), 9*time.Second)
				if err != nil {
					t.Fatal(err)
				}
				suspicion := membership.Suspicion{Node: "b", By: "a", Sign: membership.Silent}
				res, err := a.Txn(t.Context(), store.Txn{Then: []store.Write{
					store.Put(job.Suspect("b", "a"), schema.Encode(suspicion))}})
				if err != nil {
					t.Fatal(err)
				}
				suspicion.Rev = res.Rev
				time.Sleep(5 * time.Second) // b does not renew
				a.Fates(func(memory.Op) memory.Fate { return memory.Fate{Delay: late} })
				l := newLoop(Config{Config: joining.Config{Job: rendezvous.Job{Name: job}}},
					Deps{Store: a, Peers: mutePeers{}})
				about := membership.Ref{Node: "b", Incarnation: "b1", Address: "b:1"}
				e := l.awaitAnswer(t.Context(),
					message.AwaitAnswer{About: about, Lease: lease, Suspicion: suspicion})
				if got := e.(message.Awaited).Err; (got == nil) != proves {
					t.Errorf("it says %v", got)
				}
			})
		})
	}
}

// tried is the saves of a node that may be unable to prepare a checkpoint.
type tried struct {
	Saves
	err error
}

func (s tried) Fits(context.Context, rendezvous.World) error { return s.err }
func (s tried) NotReady(error)                               {}
func (s tried) Ready()                                       {}

// reaching answers for all members of a World.
type reaching struct {
	Peers
	kind membership.AnswerKind
}

func (reaching) Here() string { return "c:1" }
func (p reaching) Reach(context.Context, membership.Ref, string) (membership.AnswerKind, error) {
	return p.kind, nil
}

// A node says that a World may have it only if its disks have room and others reach it.
func TestANodeProvesThatItCanBeReady(t *testing.T) {
	full := errors.New("no space")
	for _, x := range []struct {
		err  error
		kind membership.AnswerKind
		able bool
	}{{nil, membership.Same, true}, {full, membership.Same, false}, {nil, membership.Refused, false}} {
		s, job := memory.New().Client("c"), schema.Job("x")
		me := membership.Node{Ref: membership.Ref{Node: "c", Incarnation: "c1"}}
		res, err := s.Txn(t.Context(), store.Txn{Then: []store.Write{store.Put(job.Node("c"), schema.Encode(me)),
			store.Put(job.Warming("c"), []byte("c1"))}})
		if err != nil {
			t.Fatal(err)
		}
		me.Rev = res.Rev
		l := newLoop(Config{Config: joining.Config{Job: rendezvous.Job{Name: job}}},
			Deps{Store: s, Saves: tried{err: x.err}, Peers: reaching{kind: x.kind}})
		e := l.publishWarm(t.Context(), message.PublishWarm{Me: me,
			World: rendezvous.World{Members: []membership.Ref{{Node: "a"}}}}).(message.PublishedWarm)
		read, err := s.Get(t.Context(), job.Warming("c"), "")
		if err != nil {
			t.Fatal(err)
		}
		if able := len(read.Entries) == 0; able != x.able || (e.Err == nil) != x.able || e.Local == x.able {
			t.Errorf("%+v: able %t, %+v", x, able, e)
		}
	}
}
