// Package kubeflow_test holds the objects for Kubeflow's trainer to its schemas.
package kubeflow_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"
)

type object = map[string]any

// trainer is the module of the trainer whose schemas the objects follow.
const trainer = "github.com/kubeflow/trainer/v2@v2.3.0"

// schema is that of a kind, from the module of the trainer.
func schema(t *testing.T, plural string) object {
	t.Helper()
	download := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", trainer)
	download.Stderr = os.Stderr
	out, err := download.Output()
	if err != nil {
		t.Fatal(err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	crd := decode(t, filepath.Join(module.Dir, "manifests/base/crds/trainer.kubeflow.org_"+plural+".yaml"))
	version := crd["spec"].(object)["versions"].([]any)[0].(object)
	return version["schema"].(object)["openAPIV3Schema"].(object)
}

func decode(t *testing.T, file string) object {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var o object
	if err := yaml.Unmarshal(b, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// wrong lists what a schema does not allow in a value: fields that it does not have, that are missing,
// and values of another type.
func wrong(path string, schema object, v any) []string {
	if of, ok := schema["enum"].([]any); ok && !slices.Contains(of, v) {
		return []string{fmt.Sprintf("%s: %v is not one of %v", path, v, of)}
	}
	switch v := v.(type) {
	case object:
		return wrongObject(path, schema, v)
	case []any:
		items, ok := schema["items"].(object)
		if !ok {
			return []string{path + ": is a list"}
		}
		var all []string
		for i, item := range v {
			all = append(all, wrong(fmt.Sprintf("%s[%d]", path, i), items, item)...)
		}
		return all
	case int:
		if schema["type"] == "integer" || schema["x-kubernetes-int-or-string"] == true {
			return nil
		}
	case bool:
		if schema["type"] == "boolean" {
			return nil
		}
	case string:
		if schema["type"] == "string" || schema["x-kubernetes-int-or-string"] == true {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s: %v is no %v", path, v, schema["type"])}
}

func wrongObject(path string, schema, v object) []string {
	properties, _ := schema["properties"].(object)
	others, free := schema["additionalProperties"].(object)
	if properties == nil && !free {
		if schema["type"] == "object" { // metadata: Kubernetes' own
			return nil
		}
		return []string{path + ": is an object"}
	}
	var all []string
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, ok := v[name.(string)]; !ok {
			all = append(all, fmt.Sprintf("%s.%v: is missing", path, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		of, known := properties[name].(object)
		switch {
		case known:
			all = append(all, wrong(path+"."+name, of, v[name])...)
		case free:
			all = append(all, wrong(path+"."+name, others, v[name])...)
		default:
			all = append(all, path+"."+name+": is no field")
		}
	}
	return all
}

// The runtime and the TrainJob have only fields that the trainer knows, with values of their types.
func TestTheObjectsFollowTheSchemasOfTheTrainer(t *testing.T) {
	for file, plural := range map[string]string{
		"runtime.yaml": "clustertrainingruntimes", "trainjob.yaml": "trainjobs",
	} {
		of, o := schema(t, plural), decode(t, file)
		for _, w := range wrong(file, of, o) {
			t.Error(w)
		}
		o["spec"].(object)["trainerr"] = object{} // what the test is for
		if len(wrong(file, of, o)) != 1 {
			t.Errorf("%s: a field that is none is not found", file)
		}
	}
}
