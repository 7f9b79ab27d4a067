package launch

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Arguments are the arguments that Paddle's launcher prints, in its order. A missing one is None.
type Arguments struct {
	GPUs, Heters, HeterNum, HTTPPort, IPs, LogDir, NProc string
	ServerNum, Servers, Script                           string
	ScriptArgs                                           []string
	WorkerNum, Workers                                   string
}

// String returns the block that Paddle 2.x prints at the start of a log.
func (a Arguments) String() string {
	none := func(s string) string {
		if s == "" {
			return "None"
		}
		return s
	}
	var quoted []string
	for _, arg := range a.ScriptArgs {
		quoted = append(quoted, "'"+arg+"'")
	}
	var b strings.Builder
	b.WriteString("-----------  Configuration Arguments -----------\n")
	for _, row := range [][2]string{
		{"gpus", none(a.GPUs)}, {"heter_worker_num", none(a.HeterNum)}, {"heter_workers", a.Heters},
		{"http_port", none(a.HTTPPort)},
		{"ips", a.IPs}, {"log_dir", a.LogDir}, {"nproc_per_node", none(a.NProc)},
		{"server_num", none(a.ServerNum)},
		{"servers", a.Servers}, {"training_script", a.Script},
		{"training_script_args", "[" + strings.Join(quoted, ", ") + "]"},
		{"worker_num", none(a.WorkerNum)}, {"workers", a.Workers},
	} {
		fmt.Fprintf(&b, "%s: %s\n", row[0], row[1])
	}
	b.WriteString("------------------------------------------------\n")
	return b.String()
}

// shownVariables are the variables of a trainer in Paddle's table, in its order. Missing variables are left
// out.
var shownVariables = []string{"PADDLE_TRAINER_ENDPOINTS", "FLAGS_selected_gpus", "FLAGS_selected_xpus",
	"FLAGS_selected_npus", "PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM", "PADDLE_CURRENT_ENDPOINT"}

// Announce returns the start lines of Paddle's launcher: the environment of the first process of
// this node, and where the others are. logs is the log directory to print.
func Announce(in Inputs, logs string, now time.Time) string {
	device := "CPU"
	values := map[string]string{}
	for _, kv := range Given(in)[0] {
		name, value, _ := strings.Cut(kv, "=")
		values[name] = value
	}
	for _, kind := range []string{"gpu", "xpu", "npu"} {
		if _, ok := values["FLAGS_selected_"+kind+"s"]; ok {
			device = strings.ToUpper(kind)
		}
	}
	stamp := stamped(now)
	var b strings.Builder
	fmt.Fprintf(&b, "launch train in %s mode\n", device)
	fmt.Fprintf(&b, "INFO %s launch_utils.py:472] Local start %d processes. First process distributed "+
		"environment info (Only For Debug):\n", stamp, in.Workers)
	table(&b, shownVariables, values)
	fmt.Fprintf(&b, "INFO %s launch_utils.py:475] details abouts PADDLE_TRAINER_ENDPOINTS can be "+
		"found in %s, and detail running logs maybe found in %s",
		stamp, filepath.Join(logs, "endpoints.log"), filepath.Join(logs, "workerlog.0"))
	return b.String()
}

func stamped(now time.Time) string { return now.Format("2006-01-02 15:04:05,000") }

// table prints the named variables that have a value, in the order of names.
func table(b *strings.Builder, names []string, values map[string]string) {
	const left, right = 40, 45
	border := strings.Repeat("=", left+2+right)
	fmt.Fprintf(b, "+%s+\n", border)
	fmt.Fprintf(b, "|%*s  %s|\n", left, "Distributed Envs", centre("Value", right))
	fmt.Fprintf(b, "+%s+\n", strings.Repeat("-", left+2+right))
	for _, name := range names {
		value, ok := values[name]
		if !ok {
			continue
		}
		if len(value) >= right {
			value = "... " + value[len(value)-right+4:]
		}
		fmt.Fprintf(b, "|%*s  %s|\n", left, name, centre(value, right))
	}
	fmt.Fprintf(b, "+%s+\n", border)
}

func centre(s string, width int) string {
	space := max(0, width-len(s))
	return strings.Repeat(" ", space/2) + s + strings.Repeat(" ", space-space/2)
}
