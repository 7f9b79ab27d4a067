package device_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/internal/device"
)

// machine is a tree of /proc, /sys and /dev with these files, and an environment.
func machine(t *testing.T, files map[string]string, env ...string) device.Host {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	vars := map[string]string{"PATH": filepath.Join(root, "bin")}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		vars[name] = value
	}
	return device.Host{Root: root, Getenv: func(name string) string { return vars[name] },
		Limit: 10 * time.Second}
}

// smi is a machine whose nvidia-smi lists n GPUs.
func smi(t *testing.T, n int, env ...string) device.Host {
	t.Helper()
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "echo '%d, GPU-%d0aa, 00000000:%d0:00.0'\n", i, i, i+1)
	}
	return machine(t, map[string]string{"bin/nvidia-smi": "#!/bin/sh\n" + out.String()}, env...)
}

func TestFind(t *testing.T) {
	kfd := map[string]string{}
	for i, simd := range []int{0, 304, 304} {
		path := fmt.Sprintf("sys/class/kfd/kfd/topology/nodes/%d/properties", i)
		kfd[path] = fmt.Sprintf("cpu_cores_count 8\nsimd_count %d\n", simd)
	}
	proc := map[string]string{
		"proc/driver/nvidia/gpus/0000:18:00.0/information": "Model: 	 H100\nGPU UUID: 	 GPU-77\n",
		"proc/driver/nvidia/gpus/0000:3b:00.0/information": "Model: 	 H100\n",
	}
	broken := map[string]string{"bin/nvidia-smi": "#!/bin/sh\necho 'NVIDIA-SMI has failed'; exit 9\n"}
	for k, v := range proc {
		broken[k] = v
	}
	for name, c := range map[string]struct {
		host device.Host
		kind device.Kind
		want string
	}{
		"nothing":                          {machine(t, nil), device.Any, "no gpu"},
		"NVIDIA by its tool":               {smi(t, 3), device.Any, "gpu 0,1,2"},
		"NVIDIA by the driver":             {machine(t, proc), device.GPU, "gpu 0,1"},
		"NVIDIA by the driver, tool fails": {machine(t, broken), device.GPU, "gpu 0,1"},
		"some are visible, in an order":    {smi(t, 4, "CUDA_VISIBLE_DEVICES=3,1"), device.GPU, "gpu 3,1"},
		"by UUID": {smi(t, 4, "CUDA_VISIBLE_DEVICES=GPU-20,GPU-1"), device.GPU,
			"gpu GPU-20,GPU-1"},
		"a part of one": {smi(t, 1, "CUDA_VISIBLE_DEVICES=MIG-1/2/3"), device.GPU,
			"gpu MIG-1/2/3"},
		"a wrong id ends the list":  {smi(t, 4, "CUDA_VISIBLE_DEVICES=0,9,1"), device.GPU, "gpu 0"},
		"hidden":                    {smi(t, 4, "CUDA_VISIBLE_DEVICES=-1"), device.GPU, "no gpu"},
		"all, as containers say it": {smi(t, 2, "CUDA_VISIBLE_DEVICES=all"), device.GPU, "gpu 0,1"},
		"AMD":                       {machine(t, kfd), device.Any, "gpu 0,1"},
		"AMD, one visible":          {machine(t, kfd, "HIP_VISIBLE_DEVICES=1"), device.Any, "gpu 1"},
		"Ascend": {machine(t, map[string]string{"dev/davinci0": "", "dev/davinci10": "",
			"dev/davinci_manager": "", "dev/davinci2": ""}), device.Any, "npu 0,2,10"},
		"Kunlun": {machine(t, map[string]string{"dev/xpu0": "", "dev/xpu1": "", "dev/xpuctrl": ""}),
			device.XPU, "xpu 0,1"},
		"of another kind than is asked for": {smi(t, 2), device.NPU, "no npu"},
		"a variable where there is no device": {machine(t, nil, "CUDA_VISIBLE_DEVICES=0,1"), device.Any,
			"no gpu"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := device.Find(t.Context(), c.host, c.kind).String(); got != c.want {
				t.Errorf("found %s, want %s", got, c.want)
			}
		})
	}
}

// A driver that hangs does not hang the start: after the limit /proc is read.
func TestToolThatHangs(t *testing.T) {
	h := machine(t, map[string]string{
		"bin/nvidia-smi": "#!/bin/sh\nexec /bin/sleep 1000\n",
		"proc/driver/nvidia/gpus/0000:18:00.0/information": "",
	})
	h.Limit = 50 * time.Millisecond
	if got := device.Find(t.Context(), h, device.Any).String(); got != "gpu 0" {
		t.Errorf("found %s", got)
	}
}

func TestChoose(t *testing.T) {
	none := machine(t, nil)
	for name, c := range map[string]struct {
		host    device.Host
		list    string
		workers int
		binding device.Binding
		want    []string // of each worker
		err     string
	}{
		"all, untouched": {smi(t, 2), "0,1", 2, device.Auto, []string{
			"FLAGS_selected_gpus=0 PADDLE_LOCAL_DEVICE_IDS=0 FLAGS_selected_accelerators=0",
			"FLAGS_selected_gpus=1 PADDLE_LOCAL_DEVICE_IDS=1 FLAGS_selected_accelerators=1"}, ""},
		"some": {smi(t, 4), "2, 3", 2, device.Auto, []string{
			"CUDA_VISIBLE_DEVICES=2,3 CUDA_DEVICE_ORDER=PCI_BUS_ID FLAGS_selected_gpus=0 " +
				"PADDLE_LOCAL_DEVICE_IDS=0 FLAGS_selected_accelerators=0",
			"CUDA_VISIBLE_DEVICES=2,3 CUDA_DEVICE_ORDER=PCI_BUS_ID FLAGS_selected_gpus=1 " +
				"PADDLE_LOCAL_DEVICE_IDS=1 FLAGS_selected_accelerators=1"}, ""},
		"each its own": {smi(t, 4), "3,2", 2, device.Env, []string{
			"CUDA_VISIBLE_DEVICES=3 CUDA_DEVICE_ORDER=PCI_BUS_ID FLAGS_selected_gpus=0 " +
				"PADDLE_LOCAL_DEVICE_IDS=0 FLAGS_selected_accelerators=0",
			"CUDA_VISIBLE_DEVICES=2 CUDA_DEVICE_ORDER=PCI_BUS_ID FLAGS_selected_gpus=0 " +
				"PADDLE_LOCAL_DEVICE_IDS=0 FLAGS_selected_accelerators=0"}, ""},
		"visibility left alone": {smi(t, 4), "2,3", 2, device.None, []string{
			"FLAGS_selected_gpus=2 PADDLE_LOCAL_DEVICE_IDS=2 FLAGS_selected_accelerators=2",
			"FLAGS_selected_gpus=3 PADDLE_LOCAL_DEVICE_IDS=3 FLAGS_selected_accelerators=3"}, ""},
		"two for each worker": {smi(t, 4), "0,1,2,3", 2, device.Auto, []string{
			"FLAGS_selected_gpus=0,1 PADDLE_LOCAL_DEVICE_IDS=0,1 FLAGS_selected_accelerators=0,1",
			"FLAGS_selected_gpus=2,3 PADDLE_LOCAL_DEVICE_IDS=2,3 FLAGS_selected_accelerators=2,3"}, ""},
		"ids are the tool's, not those of what is visible": {smi(t, 8, "CUDA_VISIBLE_DEVICES=4,5,6"), "5", 1,
			device.None,
			[]string{"FLAGS_selected_gpus=1 PADDLE_LOCAL_DEVICE_IDS=1 FLAGS_selected_accelerators=1"}, ""},
		"more workers than devices": {smi(t, 1), "0", 2, device.Auto, []string{"", ""}, ""},
		"no device was found": {none, "0,1", 2, device.Auto, []string{
			"CUDA_VISIBLE_DEVICES=0,1 CUDA_DEVICE_ORDER=PCI_BUS_ID FLAGS_selected_gpus=0 " +
				"PADDLE_LOCAL_DEVICE_IDS=0 FLAGS_selected_accelerators=0",
			"CUDA_VISIBLE_DEVICES=0,1 CUDA_DEVICE_ORDER=PCI_BUS_ID FLAGS_selected_gpus=1 " +
				"PADDLE_LOCAL_DEVICE_IDS=1 FLAGS_selected_accelerators=1"}, ""},
		"one that does not exist": {smi(t, 2), "0,7", 2, device.Auto, nil,
			"there is no gpu 7; here: gpu 0,1"},
		"twice":                 {smi(t, 2), "0,0", 2, device.Auto, nil, "gpu 0 is named twice"},
		"twice, by id and UUID": {smi(t, 2), "1,GPU-1", 2, device.Auto, nil, "gpu GPU-1 is named twice"},
		"hidden by the variable": {smi(t, 4, "CUDA_VISIBLE_DEVICES=0,1"), "2", 1, device.Auto, nil,
			"gpu 2 is here, and CUDA_VISIBLE_DEVICES does not show it"},
		"no id": {smi(t, 2), "zero", 1, device.Auto, nil,
			`"zero" is no device id; here: gpu 0,1`},
		"an empty one": {smi(t, 2), "0,,1", 2, device.Auto, nil,
			`"" is no device id; here: gpu 0,1`},
		"no id, and no device here":  {none, "zero", 1, device.Auto, nil, `"zero" is no device id`},
		"a range is not written so":  {none, "0-3", 1, device.Auto, nil, `"0-3" is no device id`},
		"twice, where there is none": {none, "1,1", 2, device.Auto, nil, "gpu 1 is named twice"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := device.Find(t.Context(), c.host, device.Any).Choose(c.list)
			if c.err != "" {
				if !errors.Is(err, device.ErrDevice) || err.Error() != "device: "+c.err {
					t.Errorf("%v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var envs []string
			for _, e := range got.Environ(c.binding, c.workers) {
				envs = append(envs, strings.Join(e, " "))
			}
			if d := cmp.Diff(c.want, envs); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

// numa is a host with four NUMA nodes of four cores each, two threads a core. Four GPUs: one on node
// 0, two on node 1, one on node 3.
func numa(t *testing.T) device.Host {
	t.Helper()
	files := map[string]string{}
	for node := range 4 {
		files[fmt.Sprintf("sys/devices/system/node/node%d/cpulist", node)] = fmt.Sprintf("%d-%d,%d-%d\n",
			node*4, node*4+3, 16+node*4, 16+node*4+3)
	}
	for i, node := range []int{0, 1, 1, 3} {
		files[fmt.Sprintf("sys/bus/pci/devices/0000:%d0:00.0/numa_node", i+1)] = fmt.Sprintln(node)
	}
	var out strings.Builder
	for i := range 4 {
		fmt.Fprintf(&out, "echo '%d, GPU-%d, 00000000:%d0:00.0'\n", i, i, i+1)
	}
	files["bin/nvidia-smi"] = "#!/bin/sh\n" + out.String()
	return machine(t, files)
}

func TestNUMA(t *testing.T) {
	h := numa(t)
	all := device.ParseCPUs("0-31")
	choice := device.Find(t.Context(), h, device.GPU).All()
	for name, c := range map[string]struct {
		allowed []int
		want    []string
	}{
		"all":                  {all, []string{"0-3,16-19", "4-7,20-23", "4-7,20-23", "12-15,28-31"}},
		"only what is allowed": {device.ParseCPUs("0,5-6,12"), []string{"0", "5,6", "5,6", "12"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := choice.CPUs(h, 4, c.allowed)
			if err != nil {
				t.Fatal(err)
			}
			var want [][]int
			for _, list := range c.want {
				want = append(want, device.ParseCPUs(list))
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
	if _, err := choice.CPUs(h, 4, device.ParseCPUs("0-3")); !errors.Is(err, device.ErrDevice) {
		t.Errorf("no processor is left: %v", err)
	}
	if _, err := choice.CPUs(h, 5, all); !errors.Is(err, device.ErrDevice) {
		t.Errorf("more workers than devices: %v", err)
	}
}
