package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/schema"
)

// Label names the job that a StatefulSet runs. Only objects with it are read or changed.
const Label = "elastic.dev/job"

// synced is the annotation with the size that both sides last agreed on.
const synced = "elastic.dev/synced"

// account is the directory in which a pod finds the credentials of its service account.
const account = "/var/run/secrets/kubernetes.io/serviceaccount"

// Client is a client of the API server, with the rights of a service account.
type Client struct {
	base      string
	dir       string // token, ca.crt, namespace
	namespace string
	http      *http.Client
}

// ErrNotInCluster means that this process does not run in a pod.
var ErrNotInCluster = errors.New("this is no pod of a Kubernetes cluster")

// ErrForbidden means that the service account lacks a right.
var ErrForbidden = errors.New("the service account lacks a right")

// InCluster returns the client of a pod.
func InCluster(getenv func(string) string) (*Client, error) {
	host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, ErrNotInCluster
	}
	return Open("https://"+net.JoinHostPort(host, port), account)
}

// Open returns a client of the API server at base, with the credentials in dir.
func Open(base, dir string) (*Client, error) {
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the API server: %w", err)
	}
	namespace, err := os.ReadFile(filepath.Join(dir, "namespace"))
	if err != nil {
		return nil, fmt.Errorf("read the namespace: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s holds no certificate", filepath.Join(dir, "ca.crt"))
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	return &Client{base: base, dir: dir, namespace: strings.TrimSpace(string(namespace)),
		http: &http.Client{Transport: transport, Timeout: 10 * time.Second}}, nil
}

// StatefulSet has the fields of a StatefulSet that are used here.
type StatefulSet struct {
	Metadata struct {
		Name            string            `json:"name"`
		UID             string            `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Replicas int `json:"replicas"`
	} `json:"spec"`
}

// Job returns the job that the StatefulSet runs.
func (s *StatefulSet) Job() schema.Job { return schema.Job(s.Metadata.Labels[Label]) }

// List returns the StatefulSets that have Label.
func (c *Client) List(ctx context.Context) ([]StatefulSet, error) {
	var list struct {
		Items []StatefulSet `json:"items"`
	}
	path := c.path("apis/apps/v1", "statefulsets", "") + "?labelSelector=" + url.QueryEscape(Label)
	err := c.do(ctx, call{method: http.MethodGet, path: path, answer: &list})
	return list.Items, err
}

// Resize sets the replicas of s, and records n as the agreed size. It fails if s has changed since
// it was read.
func (c *Client) Resize(ctx context.Context, s *StatefulSet, n int) error {
	return c.patch(ctx, s, map[string]any{"replicas": n}, n)
}

// Note records n as the agreed size. It fails if s has changed since it was read.
func (c *Client) Note(ctx context.Context, s *StatefulSet, n int) error {
	return c.patch(ctx, s, nil, n)
}

func (c *Client) patch(ctx context.Context, s *StatefulSet, spec map[string]any, agreed int) error {
	change := map[string]any{"metadata": map[string]any{
		"resourceVersion": s.Metadata.ResourceVersion,
		"annotations":     map[string]string{synced: fmt.Sprint(agreed)},
	}}
	if spec != nil {
		change["spec"] = spec
	}
	return c.do(ctx, call{method: http.MethodPatch, body: change, kind: "application/merge-patch+json",
		path: c.path("apis/apps/v1", "statefulsets", s.Metadata.Name) + "?fieldManager=elastic"})
}

// validObject matches the names of ConfigMaps and events. Names of jobs may have capitals and '_'
// as well.
var validObject = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// objectName returns the name of a job's ConfigMap, which is also the prefix of its events' names.
func objectName(job schema.Job) string { return "elastic-" + string(job) }

// Publish writes the ConfigMap elastic-<job> with data.
func (c *Client) Publish(ctx context.Context, job schema.Job, data map[string]string) error {
	name := objectName(job)
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": data,
		"metadata": map[string]any{"name": name, "labels": map[string]schema.Job{Label: job}}}
	return c.do(ctx, call{method: http.MethodPatch, body: object, kind: "application/apply-patch+yaml",
		path: c.path("api/v1", "configmaps", name) + "?fieldManager=elastic&force=true"})
}

// Event is one Kubernetes event about a StatefulSet or one of its pods.
type Event struct {
	Name    string // writing an event with the same name again is harmless
	Pod     string // the event is about this pod, if there is one of that name; "": about the StatefulSet
	Reason  string
	Message string
	Warning bool
	Time    time.Time
}

// Tell records e with s.
func (c *Client) Tell(ctx context.Context, s *StatefulSet, e Event) error {
	kind := "Normal"
	if e.Warning {
		kind = "Warning"
	}
	about := map[string]string{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": s.Metadata.Name,
		"namespace": c.namespace, "uid": s.Metadata.UID}
	if uid := c.podUID(ctx, e.Pod); uid != "" {
		about["apiVersion"], about["kind"], about["name"], about["uid"] = "v1", "Pod", e.Pod, uid
	}
	at := e.Time.UTC().Format(time.RFC3339)
	err := c.do(ctx, call{method: http.MethodPost, path: c.path("api/v1", "events", ""),
		kind: "application/json", body: map[string]any{
			"metadata":       map[string]string{"name": e.Name, "namespace": c.namespace},
			"involvedObject": about,
			"reason":         e.Reason, "message": e.Message, "type": kind, "count": 1,
			"firstTimestamp": at, "lastTimestamp": at,
			"source": map[string]string{"component": "elastic"},
		}})
	if errors.Is(err, errConflict) {
		return nil
	}
	return err
}

// podUID returns the uid of a pod; "": there is none of that name, or it may not be read.
func (c *Client) podUID(ctx context.Context, name string) string {
	if !validObject.MatchString(name) {
		return ""
	}
	var pod struct {
		Metadata struct{ UID string }
	}
	err := c.do(ctx, call{method: http.MethodGet, path: c.path("api/v1", "pods", name), answer: &pod})
	if err != nil {
		return ""
	}
	return pod.Metadata.UID
}

func (c *Client) path(group, kind, name string) string {
	p := fmt.Sprintf("/%s/namespaces/%s/%s", group, c.namespace, kind)
	if name != "" {
		p += "/" + name
	}
	return p
}

// call is one request.
type call struct {
	method, path, kind string
	body, answer       any
}

// errConflict means that an object has changed since it was read, or exists already.
var errConflict = errors.New("changed or exists already")

// limit is how many bytes of a response are read.
const limit = 16 << 20

func (c *Client) do(ctx context.Context, r call) error {
	var body io.Reader
	if r.body != nil {
		b, err := json.Marshal(r.body)
		if err != nil {
			return fmt.Errorf("%s %s: %w", r.method, r.path, err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, body)
	if err != nil {
		return err
	}
	token, err := os.ReadFile(filepath.Join(c.dir, "token")) // Kubernetes replaces the file from time to time
	if err != nil {
		return fmt.Errorf("read the token of the service account: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	req.Header.Set("Accept", "application/json")
	if r.kind != "" {
		req.Header.Set("Content-Type", r.kind)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("the API server does not answer: %w", err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, limit))
	if err != nil {
		return fmt.Errorf("read the answer of the API server: %w", err)
	}
	if res.StatusCode >= 300 {
		return refused(res.StatusCode, r, b)
	}
	if r.answer == nil {
		return nil
	}
	if err := json.Unmarshal(b, r.answer); err != nil {
		return fmt.Errorf("%s %s: %w", r.method, r.path, err)
	}
	return nil
}

// refused returns the error of the API server.
func refused(code int, r call, body []byte) error {
	var status struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(body, &status) // without a message the error has only the code
	why := fmt.Errorf("%s %s: %d %s", r.method, r.path, code, status.Message)
	switch code {
	case http.StatusForbidden, http.StatusUnauthorized:
		return fmt.Errorf("%w: %w", ErrForbidden, why)
	case http.StatusConflict:
		return fmt.Errorf("%w: %w", errConflict, why)
	}
	return why
}
