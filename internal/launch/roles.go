package launch

import (
	"net"
	"strconv"
)

// Role is what the workers of a job are given beside the words of this project. A role names its
// variables as data, so that another one is another value and no other way through this package.
type Role struct {
	Name string // ROLE_NAME; "": default
	vars func(in *Inputs, e *env, local int)
}

// Trainer is a role of collective training, with the name that torchrun's --role gives it.
func Trainer(name string) Role {
	return Role{Name: name, vars: func(in *Inputs, e *env, local int) {
		in.torch(e, local)
		in.paddle(e, local)
	}}
}

// RPC is a role of workers that call each other (paddle.distributed.rpc).
func RPC(name string) Role {
	return Role{Name: name, vars: func(in *Inputs, e *env, local int) {
		in.torch(e, local)
		in.paddle(e, local)
		e.set("PADDLE_MASTER_ENDPOINT", net.JoinHostPort(in.MasterHost, strconv.Itoa(in.PaddlePort)))
		e.set("PADDLE_WORKER_ENDPOINT", in.endpoint(local))
	}}
}

// ParameterServers is the role of a process of Inputs.Team: what it is given depends on its task.
func ParameterServers() Role {
	return Role{Name: "default", vars: func(in *Inputs, e *env, local int) { in.task(e, local) }}
}

func (r Role) String() string {
	if r.Name == "" {
		return "default"
	}
	return r.Name
}

// environ of the zero Role is a trainer's.
func (r Role) environ(in *Inputs, e *env, local int) {
	if r.vars == nil {
		r = Trainer(r.Name)
	}
	r.vars(in, e, local)
}
