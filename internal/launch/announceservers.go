package launch

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/roles"
)

// shownOfTask are the variables in Paddle's tables for parameter servers.
var shownOfTask = []string{"PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_TRAINER_ENDPOINTS", "PADDLE_PORT",
	"TRAINING_ROLE", "PADDLE_TRAINERS_NUM", "POD_IP", "PADDLE_WITH_GLOO", "PADDLE_GLOO_RENDEZVOUS",
	"PADDLE_GLOO_FS_PATH", "PADDLE_GLOO_HTTP_ENDPOINT", "PADDLE_HETER_TRAINER_IP_PORT_LIST",
	"PADDLE_COORDINATOR_ENDPOINTS", "PADDLE_TRAINER_ID", "STAGE_ID", "STAGE_NUM", "HETER_DEVICE_TYPE",
	"FLAGS_selected_gpus", "FLAGS_selected_xpus", "CUDA_VISIBLE_DEVICES", "XPU_VISIBLE_DEVICES"}

// AnnounceTasks returns the start lines of Paddle's launcher for parameter servers: the environment
// of the first process of each role on this node, and where the logs are.
func AnnounceTasks(in Inputs, logs string, now time.Time) string {
	var b strings.Builder
	given := Given(in)
	for _, kind := range []struct {
		role roles.Role
		word string
		line int
	}{{roles.Server, "server", 973}, {roles.Trainer, "worker", 1041}, {roles.Heter, "heter_worker", 1110}} {
		first, count := -1, 0
		for local, t := range in.Tasks {
			if t.Role != kind.role {
				continue
			}
			if count++; first < 0 {
				first = local
			}
		}
		if count == 0 {
			continue
		}
		fmt.Fprintf(&b, "INFO %s launch_utils.py:%d] Local %s start %d processes. First process "+
			"distributed environment info (Only For Debug):\n",
			stamped(now), kind.line, kind.word, count)
		values := map[string]string{}
		for _, kv := range given[first] {
			name, value, _ := strings.Cut(kv, "=")
			values[name] = value
		}
		table(&b, shownOfTask, values)
	}
	at := func(stem string) string { return filepath.Join(logs, stem+".*") }
	fmt.Fprintf(&b, "INFO %s launch_utils.py:903] Please check servers, workers and heter_worker logs in "+
		"%s, %s and %s",
		stamped(now), at("workerlog"), at("serverlog"), at("heterlog"))
	return b.String()
}

// AnnounceEnd returns the lines of Paddle's launcher when the trainers are done and the other tasks
// of this node have ended.
func AnnounceEnd(tasks []roles.Task, now time.Time) []string {
	has := func(role roles.Role) bool {
		return slices.ContainsFunc(tasks, func(t roles.Task) bool { return t.Role == role })
	}
	lines := []string{"914] all workers exit, going to finish parameter server and heter_worker."}
	if has(roles.Heter) {
		lines = append(lines, "920] all heter_worker are killed")
	}
	if has(roles.Server) {
		lines = append(lines, "926] all parameter server are killed")
	}
	for i, line := range lines {
		lines[i] = fmt.Sprintf("INFO %s launch_utils.py:%s", stamped(now), line)
	}
	return lines
}

// AnnounceMode returns the line about the flags that determined the mode.
func AnnounceMode(flags []string, devices int, now time.Time) string {
	return fmt.Sprintf(
		"INFO %s launch.py:298] Run parameter-sever mode. pserver arguments:['%s'], cuda count:%d",
		stamped(now), strings.Join(flags, "', '"), devices)
}
