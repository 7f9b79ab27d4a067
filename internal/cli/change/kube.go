package change

import (
	"context"
	"errors"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/kube"
	"github.com/elasticd/elastic/internal/problem"
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
		return problem.New(problem.Usage, "kube %s: there is only kube sync", strings.Join(c.Args, " ")).
			Cure("elastic kube sync")
	}
	every, err := c.Setting("every").Duration(time.Second)
	if err != nil {
		return err
	}
	api, err := kube.InCluster(c.Getenv)
	if errors.Is(err, kube.ErrNotInCluster) {
		return problem.New(problem.Usage, "kube sync runs in a pod").
			Because("KUBERNETES_SERVICE_HOST is not set").
			Cure("kubectl apply -k deploy/kubernetes/sync")
	}
	if err != nil {
		return problem.New(problem.Failed, "the service account cannot be used: %v", err)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	s, err := target.Open(ctx, c, target.Ask, 0)
	if err != nil {
		return err
	}
	defer s.Close()
	c.Out.Say("keeping StatefulSets with the label %s equal with their jobs", kube.Label)
	sync := kube.Sync{API: api, Store: s, Every: every,
		Say: func(text string) { c.Out.Say("%s", text) }}
	sync.Run(ctx)
	return nil
}
