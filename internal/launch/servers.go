package launch

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/elasticd/elastic/pkg/roles"
)

// trainingRole is Paddle's name for each role.
var trainingRole = map[roles.Role]string{roles.Server: "PSERVER", roles.Trainer: "TRAINER",
	roles.Heter: "HETER_TRAINER"}

// lists are the variables with the endpoints of each role, which every process gets.
var lists = []struct {
	name string
	role roles.Role
}{{"PADDLE_TRAINER_ENDPOINTS", roles.Trainer}, {"PADDLE_PSERVERS_IP_PORT_LIST", roles.Server},
	{"PADDLE_HETER_TRAINER_IP_PORT_LIST", roles.Heter}}

// task sets the variables that Paddle's launchers of 2.x and 3.x set in a job with parameter
// servers. The role maker of 2.6 also needs POD_IP and PADDLE_PORT on a trainer.
func (in *Inputs) task(e *env, local int) {
	team, t := in.Team, in.Tasks[local]
	host, port, _ := net.SplitHostPort(team.Endpoint(t)) // all endpoints of a Team have this form
	e.set("ELASTIC_ROLE", string(t.Role))
	e.set("TRAINING_ROLE", trainingRole[t.Role])
	e.set("PADDLE_ROLE", trainingRole[t.Role])
	e.set("POD_IP", host)
	e.set("POD_NAME", in.Node)
	e.set("PADDLE_PORT", port)
	e.int("PADDLE_NNODES", in.Nodes)
	e.int("PADDLE_TRAINERS_NUM", len(team.All(roles.Trainer)))
	for _, l := range lists {
		e.set(l.name, strings.Join(team.All(l.role), ","))
	}
	e.set("PADDLE_COORDINATOR_ENDPOINTS", "") // Paddle's launcher sets it, too
	if in.ServersStay && t.Role == roles.Trainer {
		e.int("ELASTIC_RESTARTED", 1)
	}
	if t.Role == roles.Trainer {
		e.int("PADDLE_TRAINER_ID", t.Index)
	}
	e.set("PADDLE_GLOO_HTTP_ENDPOINT", team.HTTP)
	e.unlessSet("PADDLE_WITH_GLOO", "0")
	e.unlessSet("PADDLE_GLOO_RENDEZVOUS", "3")
	e.unlessSet("PADDLE_GLOO_FS_PATH",
		filepath.Join(in.RunDir, strconv.FormatUint(in.Generation, 10), "gloo"))
	if in.LogDir != "" {
		e.set("PADDLE_LOG_DIR", in.LogDir)
	}
	if t.Role == roles.Trainer || t.Role == roles.Heter {
		in.taskDevice(e, t)
	}
	if team.Spec.Mode == roles.PSHeter {
		in.stage(e, t)
	}
}

// taskDevice gives the trainers of a node its devices in turn. Each sees one device, as index 0.
func (in *Inputs) taskDevice(e *env, t roles.Task) {
	id := "0"
	if n := len(in.DeviceIDs); n > 0 {
		id = in.DeviceIDs[t.Local%n]
	}
	e.set("FLAGS_selected_gpus", "0")
	e.set("FLAGS_selected_xpus", "0")
	e.set("CUDA_VISIBLE_DEVICES", id)
	e.set("XPU_VISIBLE_DEVICES", id)
}

// stage sets what the stages of a heterogeneous job know of each other. Servers know only the heter
// workers.
func (in *Inputs) stage(e *env, t roles.Task) {
	team := in.Team
	e.set("PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST", strings.Join(team.All(roles.Heter), ","))
	if t.Stage == 0 {
		return
	}
	var sizes []string
	for n := 1; n <= team.Stages(); n++ {
		sizes = append(sizes, strconv.Itoa(len(team.Stage(n))))
	}
	e.set("PADDLE_STAGE_TRAINERS_NUM", "["+strings.Join(sizes, ", ")+"]")
	e.int("STAGE_ID", t.Stage)
	e.int("STAGE_NUM", team.Stages())
	e.set("PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST", strings.Join(team.Stage(t.Stage-1), ","))
	e.set("PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST", strings.Join(team.Stage(t.Stage+1), ","))
	device := "cpu"
	if len(team.Spec.HeterDevices) > 0 {
		device = team.Spec.HeterDevices[t.Stage-1]
	} else if t.Stage > 1 && len(in.DeviceIDs) > 0 {
		device = "gpu"
	}
	e.set("HETER_DEVICE_TYPE", device)
}

// endpointsFile returns endpoints.log of a job with parameter servers: one list for each role.
func endpointsFile(team *roles.Team) string {
	var b strings.Builder
	for _, l := range lists {
		if list := team.All(l.role); len(list) > 0 {
			fmt.Fprintf(&b, "%s: \n%s\n", l.name, strings.Join(list, "\n"))
		}
	}
	return b.String()
}
