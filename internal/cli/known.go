package cli

import (
	"errors"
	"strings"
	"syscall"

	"github.com/elasticd/elastic/internal/agent/runtime"
	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/internal/local"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/etcd"
)

// Known is the one table from errors of other packages to what the user is told.
func Known(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if p, ok := errors.AsType[*local.Problem](err); ok {
		return fromLocal(p)
	}
	if e, ok := errors.AsType[*launch.NotFoundError](err); ok {
		f := fail(NoProgram, "%v", e).of(err)
		if len(e.Near) == 0 {
			f.cure("a program in PATH, or a path with a /")
		}
		return f
	}
	if e, ok := errors.AsType[*launch.NotExecutableError](err); ok {
		return fail(ProgramMode, "%v", e).of(err).cure("chmod +x %s, or name the interpreter: python %[1]s", e.Path)
	}
	if e, ok := errors.AsType[*runtime.Differs](err); ok {
		return fromDiffers(e)
	}
	if e, ok := errors.AsType[*runtime.NameTaken](err); ok {
		return fail(NodeName, "node name %s is taken", e.Node).of(err).because("%s", e.Where).
			cure("another --node, or none: a free name is found").detail("node", e.Node)
	}
	if e, ok := errors.AsType[*runtime.NotWithin](err); ok {
		return fail(Timeout, "this node did not get into the job within %s", e.Limit).of(err).because("%v", e.Err).
			cure("run it again when that has passed, or with a longer --connect-timeout")
	}
	for _, row := range []struct {
		is   error
		make func() *Error
	}{
		{runtime.ErrNoStore, func() *Error {
			e := fail(Server, "the server does not answer").because("%v", err).cure("is it up, and --server right?")
			e.Status = Timeout.status()
			return e
		}},
		{runtime.ErrRemoved, func() *Error {
			return fail(JobNone, "the job of this node was removed").because("elastic rm, while it was out of it")
		}},
		{syscall.EADDRINUSE, func() *Error { return fail(Ports, "%v", err).cure("another --port, or none: any free one") }},
		{launch.ErrPorts, func() *Error { return fail(Ports, "%v", err).cure("--worker-ports=LO-HI with more free ports") }},
		{launch.ErrAddress, func() *Error { return fail(Address, "%v", err).cure("--host=ADDRESS of this machine") }},
		{etcd.ErrCertName, func() *Error {
			return fail(ServerAuth, "the server's certificate is for another name").because("%v", err).
				cure("--server=https://NAME:2379 with a name of the certificate, or a certificate for the name dialled")
		}},
		{etcd.ErrCertTrust, func() *Error {
			return fail(ServerAuth, "the server's certificate is not trusted").because("%v", err).
				cure("--cacert=FILE with the certificate of the authority that signed it")
		}},
		{etcd.ErrCertTime, func() *Error {
			return fail(ServerAuth, "the server's certificate is not valid now").because("%v", err).
				cure("renew it (elastic certs), or set the clock of this machine")
		}},
		{etcd.ErrCertRefused, func() *Error {
			return fail(ServerAuth, "the server does not accept our certificate").because("%v", err).
				cure("--cert and --key of a certificate that an authority of the server signed")
		}},
		{etcd.ErrPlain, func() *Error {
			return fail(Usage, "%v", err).because("a password would cross the network readable, and a certificate prove nothing").
				cure("--server=https://HOST:2379, or the socket of a server on this machine: unix:///PATH")
		}},
		{etcd.ErrTLSFiles, func() *Error {
			return fail(Usage, "%v", err).because("--cacert, --cert and --key name PEM files; a certificate needs its key").
				cure("files as elastic certs makes them")
		}},
		{etcd.ErrAuth, func() *Error {
			return fail(ServerAuth, "the server refuses us").because("%v", err).
				cure("--user=NAME with ELASTIC_PASSWORD, or --cacert, --cert and --key")
		}},
		{etcd.ErrWantsTLS, func() *Error {
			return fail(ServerWrong, "the server speaks TLS, and was asked without").because("%v", err).
				cure("--server=https://HOST:2379, and --cacert=FILE where no public authority signed its certificate")
		}},
		{etcd.ErrNotEtcd, func() *Error {
			return fail(ServerWrong, "what answers is no etcd v3").because("%v", err).
				cure("--server=HOST:2379, the address for clients of an etcd v3 or of elasticd; with TLS --server=https://HOST:2379 and --cacert")
		}},
		{etcd.ErrNoQuorum, func() *Error {
			return fail(ServerWrong, "the server answers, but its cluster has no majority").because("%v", err).
				cure("start the other members")
		}},
		{etcd.ErrUnreachable, func() *Error {
			return fail(Server, "the server does not answer").because("%v", err).cure("is it up, and --server right?")
		}},
		{schema.ErrNewerFormat, func() *Error {
			return fail(JobBroken, "%v", err).because("a newer elastic wrote this job").
				cure("use that version, for this command and for every node of the job")
		}},
		{schema.ErrBadRecord, func() *Error {
			return fail(JobBroken, "%v", err).because("a record in the store is damaged, or not written by elastic").
				cure("put the key right if you wrote it; else end the agents of the job, elastic rm JOB, and run it again")
		}},
		{scaling.ErrPlan, func() *Error { return fail(NoPlan, "%v", err).cure("another --batch-size, or another size") }},
	} {
		if errors.Is(err, row.is) {
			return row.make().of(err)
		}
	}
	if store.Refused(err) {
		return fail(ServerAuth, "the server does not allow it").because("%v", err).of(err).
			cure("a user who may read and write %s", schema.Root)
	}
	return fail(Failed, "%v", err).of(err)
}

func fromLocal(p *local.Problem) *Error {
	code := map[error]Code{local.ErrOwner: LocalOwner, local.ErrState: StateDir, local.ErrStart: LocalStart}[p.Kind]
	if code == "" {
		code = Failed
	}
	e := fail(code, "%s", p.Text).of(p)
	e.Why, e.Fix = p.Why, p.Fix
	if len(p.Log) > 0 {
		e.detail("log", p.Log)
		e.Why = strings.TrimPrefix(e.Why+"; it ends: "+p.Log[len(p.Log)-1], "; ")
	}
	return e
}

// fromDiffers names every setting that is not the job's; the first is the one in the details.
func fromDiffers(d *runtime.Differs) *Error {
	first := d.Settings[0]
	e := fail(JobDiffers, "--%s=%s: the job has %s", first.Flag, first.Yours, first.Job).of(d).
		because("what the job is was settled by its first node").cure("leave the flag out, or --%s=%s", first.Flag, first.Job)
	if first.Job == "0" && (first.Flag == "lr" || first.Flag == "batch-size") { // it was made without, and 0 is no value of either
		e.cure("leave the flag out")
	}
	if len(d.Settings) > 1 {
		e.because("what the job is was settled by its first node; %v", d)
	}
	return e.detail("flag", first.Flag).detail("job", first.Job).detail("yours", first.Yours)
}
