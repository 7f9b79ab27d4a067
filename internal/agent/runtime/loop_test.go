package runtime

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/internal/agent/joining"
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
		l.newestEffect(ctx, "ready", func(ctx context.Context) event.Event {
			<-ctx.Done()
			return event.Readied{Generation: 1, Err: ctx.Err()}
		})
		l.newestEffect(ctx, "ready",
			func(context.Context) event.Event { return event.Readied{Generation: 2} })
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
					action.AwaitAnswer{About: about, Lease: lease, Suspicion: suspicion})
				if got := e.(event.Awaited).Err; (got == nil) != proves {
					t.Errorf("it says %v", got)
				}
			})
		})
	}
}
