// Package helm_test holds the chart to the manifests of deploy/kubernetes, which `make kube` runs.
package helm_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"
)

type object = map[string]any

// render renders the chart as helm does, with the functions that it uses.
func render(t *testing.T, server, job object) map[string]object {
	t.Helper()
	b, err := os.ReadFile("elastic/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(b, &values); err != nil {
		t.Fatal(err)
	}
	maps.Copy(values["server"].(object), server)
	maps.Copy(values["job"].(object), job)
	files, err := filepath.Glob("elastic/templates/*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatalf("%q, %v", files, err)
	}
	functions := template.FuncMap{
		"quote": strconv.Quote,
		"list":  func(all ...string) []string { return all },
		"toJson": func(v any) (string, error) {
			b, err := json.Marshal(v)
			return string(b), err
		},
	}
	all := map[string]object{}
	for _, f := range files {
		x, err := template.New(filepath.Base(f)).Funcs(functions).ParseFiles(f)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := x.Execute(&out, object{"Values": values}); err != nil {
			t.Fatal(err)
		}
		maps.Copy(all, objects(t, &out))
	}
	return all
}

// objects decodes documents, by kind and name.
func objects(t *testing.T, r io.Reader) map[string]object {
	t.Helper()
	all := map[string]object{}
	for d := yaml.NewDecoder(r); ; {
		var o object
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if o != nil {
			all[o["kind"].(string)+" "+o["metadata"].(object)["name"].(string)] = o
		}
	}
}

// base is the manifests of a folder of deploy/kubernetes.
func base(t *testing.T, folder string, names ...string) map[string]object {
	t.Helper()
	all := map[string]object{}
	for _, name := range names {
		f, err := os.Open(filepath.Join("..", "kubernetes", folder, name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		maps.Copy(all, objects(t, f))
	}
	return all
}

// plain takes away what the chart has beyond the manifests.
func plain(o object) object {
	if o["kind"] != "StatefulSet" && o["kind"] != "Job" {
		return o
	}
	pod := o["spec"].(object)["template"].(object)["spec"].(object)
	container := pod["containers"].([]any)[0].(object)
	delete(container, "imagePullPolicy")
	if r, ok := container["resources"].(object); ok && len(r) == 0 {
		delete(container, "resources")
	}
	return o
}

// With its own values, and those of the manifests, the chart makes their objects.
func TestTheChartMakesTheManifests(t *testing.T) {
	for name, c := range map[string]struct {
		job  object
		want map[string]object
	}{
		"server":  {object{"enabled": false}, base(t, "elasticd", "service", "statefulset", "budget")},
		"indexed": {nil, base(t, "indexed-job", "job")},
		"range": {object{"kind": "range", "np": "1:8", "storage": "20Gi",
			"flags": []any{"--grace=30s", "--batch-size=256", "--lr=0.1"}}, base(t, "job", "service", "statefulset")},
	} {
		t.Run(name, func(t *testing.T) {
			got := render(t, object{"enabled": name == "server"}, c.job)
			if len(got) != len(c.want) {
				t.Errorf("%d objects, want %d", len(got), len(c.want))
			}
			for key, want := range c.want {
				if !reflect.DeepEqual(plain(got[key]), want) {
					t.Errorf("%s:\n%v\nwant\n%v", key, got[key], want)
				}
			}
		})
	}
}

// One member is a cluster of its own, and what cert-manager makes is what the pods mount.
func TestOneMemberWithCertManager(t *testing.T) {
	all := render(t, object{"members": 1, "certManager": true}, nil)
	server := all["StatefulSet elasticd"]["spec"].(object)
	if server["replicas"] != 1 {
		t.Errorf("replicas: %v", server["replicas"])
	}
	made := map[string]bool{}
	for _, o := range all {
		if o["kind"] == "Certificate" {
			made[o["spec"].(object)["secretName"].(string)] = true
		}
	}
	for _, secret := range []string{"elasticd", "elasticd-peer", "elasticd-client"} {
		if !made[secret] {
			t.Errorf("no Certificate makes the Secret %s", secret)
		}
	}
}
