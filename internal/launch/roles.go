package launch

// Role is what a worker does in its job. The workers of a job are trainers, all of one role; a role
// names its variables as data, so that another one is another value and no other way through this
// package.
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
