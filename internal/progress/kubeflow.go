package progress

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

const (
	trainerPause = 5 * time.Second // between two reports, as Kubeflow asks
	trainerLimit = 5 * time.Second // of one report
	trainerLast  = 2 * time.Second // of the last report, which the end of the agent waits for
)

// Kubeflow reports the progress to Kubeflow's trainer, if the pod has its address. One goroutine
// sends the reports. A newer report replaces one that waits. An error loses only that report.
type Kubeflow struct {
	url, ca, token string // ca and token are files that Kubernetes replaces
	notice         func(string)
	pause          time.Duration
	news           chan struct{}

	mu   sync.Mutex
	next *rendezvous.Progress // guarded by mu; nil: nothing new
}

// NewKubeflow reads the variables of Kubeflow's trainer. It returns nil if they are not set.
func NewKubeflow(getenv func(string) string, notice func(string)) *Kubeflow {
	for _, prefix := range []string{"KUBEFLOW_TRAINER_SERVER_", "KUBEFLOW_TRAINER_STATUS_"} {
		url := getenv(prefix + "URL")
		if url == "" {
			continue
		}
		if !strings.HasPrefix(url, "https://") {
			notice(prefix + "URL is no https:// address: progress is not reported to Kubeflow, whose token " +
				"would be readable")
			return nil
		}
		return &Kubeflow{url: url, ca: getenv(prefix + "CA_CERT"), token: getenv(prefix + "TOKEN"),
			notice: notice, pause: trainerPause, news: make(chan struct{}, 1)}
	}
	return nil
}

// Tell queues a report of p. It never blocks. It may be called on nil.
func (t *Kubeflow) Tell(p rendezvous.Progress) {
	if t == nil {
		return
	}
	t.mu.Lock()
	t.next = &p
	t.mu.Unlock()
	select {
	case t.news <- struct{}{}:
	default:
	}
}

func (t *Kubeflow) take() *rendezvous.Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.next
	t.next = nil
	return p
}

// requeue queues a report again that failed, unless there is a newer one. The last report then has
// it.
func (t *Kubeflow) requeue(p *rendezvous.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next == nil {
		t.next = p
	}
}

// Run sends reports until ctx ends, and then a report that is still queued.
func (t *Kubeflow) Run(ctx context.Context) {
	failed := false
	report := func(ctx context.Context, limit time.Duration) {
		p := t.take()
		if p == nil {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		err := t.post(ctx, *p)
		if err != nil {
			t.requeue(p)
		}
		if err != nil && !failed {
			t.notice(fmt.Sprintf("progress is not reported to Kubeflow: %v", err))
		}
		failed = err != nil
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-t.news:
			report(ctx, trainerLimit)
			select {
			case <-ctx.Done():
			case <-time.After(t.pause):
			}
		}
	}
	report(context.WithoutCancel(ctx), trainerLast)
}

func (t *Kubeflow) post(ctx context.Context, p rendezvous.Progress) error {
	body, err := json.Marshal(trainerReport(p))
	if err != nil {
		return err
	}
	client, err := t.client()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if t.token != "" {
		token, err := os.ReadFile(t.token)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16))
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("the trainer answers %s", answer.Status)
	}
	return nil
}

// client trusts only the certificate of the trainer. It follows no redirect, because another server
// must not get the token.
func (t *Kubeflow) client() (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.ca != "" {
		pem, err := os.ReadFile(t.ca)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New(t.ca + " has no certificate")
		}
	}
	return &http.Client{
		Transport:     &http.Transport{TLSClientConfig: config},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// trainerMetric is one number of the progress, as text.
type trainerMetric struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// trainerBody is the body of a request to the trainer. Unknown values are left out.
type trainerBody struct {
	Percentage *int            `json:"progressPercentage,omitempty"`
	Remaining  *int64          `json:"estimatedRemainingSeconds,omitempty"`
	Metrics    []trainerMetric `json:"metrics,omitempty"`
	Time       time.Time       `json:"lastUpdatedTime"`
}

func trainerReport(p rendezvous.Progress) map[string]trainerBody {
	b := trainerBody{Time: p.Time.UTC().Truncate(time.Second)}
	if p.Done != nil {
		b.Percentage = new(int(100 * min(max(*p.Done, 0), 1)))
	}
	if p.Left != nil {
		b.Remaining = new(int64(time.Duration(*p.Left) / time.Second))
	}
	number := func(name string, v *float64) {
		if v != nil {
			b.Metrics = append(b.Metrics, trainerMetric{name, strconv.FormatFloat(*v, 'g', 6, 64)})
		}
	}
	number("loss", p.Loss)
	if p.Step != nil {
		b.Metrics = append(b.Metrics, trainerMetric{"step", strconv.FormatInt(*p.Step, 10)})
	}
	number("samples_per_second", p.SamplesPerSecond)
	return map[string]trainerBody{"trainerStatus": b}
}
