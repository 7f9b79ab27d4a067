package change

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/kube"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
)

// Kube is the command that keeps the replicas of a StatefulSet equal to the np of its job.
func Kube() command.Command {
	return command.Command{Name: "kube", Args: "sync", Most: 1,
		Usage:  "keep a StatefulSet and its job equal (in a pod)",
		Action: kubeAction, Flags: []command.Flag{
			{Name: "every", Arg: "TIME", Usage: "how often to look (1s)"},
		}}
}

func kubeAction(ctx context.Context, c *command.Call) error {
	if len(c.Args) != 1 || c.Args[0] != "sync" {
		return screen.New(screen.Usage, "kube %s: there is only kube sync", strings.Join(c.Args, " ")).
			Cure("elastic kube sync")
	}
	every, err := c.Setting("every").Duration(time.Second)
	if err != nil {
		return err
	}
	api, err := kube.InCluster(c.Getenv)
	if errors.Is(err, kube.ErrNotInCluster) {
		return screen.New(screen.Usage, "kube sync runs in a pod").
			Because("KUBERNETES_SERVICE_HOST is not set").
			Cure("kubectl apply -k deploy/kubernetes/sync")
	}
	if err != nil {
		return screen.New(screen.Failed, "the service account cannot be used: %v", err)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	s, err := target.Open(ctx, c, target.Ask, 0)
	if err != nil {
		return err
	}
	defer s.Close()
	c.Out.Say("keeping StatefulSets with the label %s equal with their jobs", kube.Label)
	sync := kube.Sync{API: api, Jobs: kubeJobs{s, c.Out.Now}, Every: every,
		Say: func(text string) { c.Out.Say("%s", text) }}
	sync.Run(ctx)
	return nil
}

// kubeJobs gives kube access to the jobs of a server.
type kubeJobs struct {
	s   *target.Server
	now func() time.Time
}

func (k kubeJobs) Read(ctx context.Context, name string, since int64) (kube.Job, error) {
	snap, err := rendezvous.Read(ctx, k.s, schema.Job(name))
	if err != nil {
		return kube.Job{}, err
	}
	if snap.Job == nil {
		return kube.Job{}, kube.ErrNoJob
	}
	st := k.s.Explain(&snap, k.now())
	text, err := json.Marshal(steady(st))
	if err != nil {
		return kube.Job{}, fmt.Errorf("write the status of %s: %w", name, err)
	}
	limits := snap.Job.Limits
	job := kube.Job{NP: snap.Wish.NP, NPAt: snap.Wish.Time, Min: limits.Min, Max: limits.Max,
		Ended:  target.Ended(&snap),
		Status: map[string]string{"state": string(st.State), "why": st.Why, "status.json": string(text)}}
	if limits.Exact {
		job.Min, job.Max = snap.Wish.NP, snap.Wish.NP
	}
	for _, e := range snap.Events {
		if shown, warning := mirrored(e.Kind); shown && e.Rev > since {
			job.Events = append(job.Events,
				kube.Happened{Rev: e.Rev, Time: e.Time, Kind: string(e.Kind), Node: e.Node,
					Text: e.Text, Bad: warning})
		}
	}
	return job, nil
}

// steady returns a status without the fields that change all the time.
func steady(st status.Status) status.Status {
	st.Progress, st.Doing, st.Server = nil, nil, nil
	return st
}

// mirrored reports whether Kubernetes shows an event of this kind, and whether as a warning. Events
// of normal training are not shown.
func mirrored(k history.Kind) (shown, warning bool) {
	switch k {
	case history.NodeLost, history.WorkerFailed, history.JobFailed, history.Bad, history.Refused,
		history.Backoff, history.Quarantined, history.Stalled:
		return true, true
	case history.JobCreated, history.NodeLeft, history.WaitEntered, history.WorldRunning, history.WishChanged,
		history.JobDone, history.JobStopped:
		return true, false
	}
	return false, false
}

func (k kubeJobs) Wish(ctx context.Context, name string, np int) error {
	snap, err := rendezvous.Read(ctx, k.s, schema.Job(name))
	if err != nil {
		return err
	}
	if snap.Job == nil {
		return kube.ErrNoJob
	}
	size := wanted{Setting: command.Setting{Name: "np", Text: fmt.Sprint(np), Origin: "replicas", Given: true}}
	if _, err := size.of(&snap); err != nil {
		return err
	}
	wish := snap.Wish
	wish.NP, wish.By = np, "scale"
	_, err = txn.Requests{Store: k.s, Job: snap.Job.Name}.SetWish(ctx, &snap, wish)
	return err
}
