package launch

import (
	"net"
	"strconv"
)

// Role has the variables of other launchers that the workers of a job are given. Each role is a
// value with these variables as data.
type Role struct {
	Name string // ROLE_NAME
	vars func(in *Inputs, e *env, local int)
}

// Trainer returns the role of collective training. name is that of torchrun's --role.
func Trainer(name string) Role {
	return Role{Name: name, vars: func(in *Inputs, e *env, local int) {
		in.torch(e, local)
		in.paddle(e, local)
	}}
}

// RPC returns the role of workers that call each other (paddle.distributed.rpc).
func RPC(name string) Role {
	return Role{Name: name, vars: func(in *Inputs, e *env, local int) {
		in.torch(e, local)
		in.paddle(e, local)
		e.set("PADDLE_MASTER_ENDPOINT", net.JoinHostPort(in.MasterHost, strconv.Itoa(in.PaddlePort)))
		e.set("PADDLE_WORKER_ENDPOINT", in.endpoint(local))
	}}
}

// ParameterServers returns the role of a process of Inputs.Team. Its variables depend on its task.
func ParameterServers() Role {
	return Role{Name: "default", vars: func(in *Inputs, e *env, local int) { in.task(e, local) }}
}

func (r Role) String() string { return r.Name }
