package screen

import (
	"errors"
	"slices"
	"strings"
	"syscall"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/etcd"
)

// KnownProblem converts an error of another package to an error for the user.
func KnownProblem(err error) *problem.Error {
	if e, ok := errors.AsType[*problem.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*launch.NotFoundError](err); ok {
		return fromNotFound(e)
	}
	if e, ok := errors.AsType[*launch.NotExecutableError](err); ok {
		p := problem.New(problem.ProgramMode, "%v", e).Of(err).
			Cure("chmod +x %s, or name the interpreter: python %[1]s", e.Path)
		if errors.Is(err, launch.ErrNoFormat) {
			p.Cure("name the program that runs it: python %s, or sh %[1]s; or begin it with a line #!", e.Path)
		}
		return p
	}
	if e, ok := errors.AsType[*launch.HookFailed](err); ok {
		return fromHook(e)
	}
	if e, ok := errors.AsType[*message.DiffersError](err); ok {
		return fromDiffers(e)
	}
	if e := fromRows(err); e != nil {
		return e
	}
	if store.Refused(err) {
		return problem.New(problem.ServerAuth, "the server does not allow it").Because("%v", err).Of(err).
			Cure("a user with the grants of one job (docs/SECURITY.md, roles of one job), not of all of %s",
				schema.Root)
	}
	return problem.New(problem.Failed, "%v", err).Of(err)
}

// fromDiffers names each setting that differs from the job's. Details has the first one.
func fromDiffers(d *message.DiffersError) *problem.Error {
	first := d.Settings[0]
	e := problem.New(problem.JobDiffers, "--%s=%s: the job has %s", first.Flag, first.Yours, first.Job).Of(d).
		Because("the first node of a job sets its settings").
		Cure("leave the flag out, or --%s=%s", first.Flag, first.Job)
	if first.Job == "0" && (first.Flag == "lr" || first.Flag == "batch-size") { // 0: it has none
		e.Message = "--" + first.Flag + "=" + first.Yours + ": the job was made without"
		e.Cure("leave the flag out")
	}
	if first.Job == "" {
		e.Message = "--" + first.Flag + "=" + first.Yours + ": the job was made without"
		e.Cure("end the job's nodes (elastic stop), and start them again with the flag; or leave the flag out")
	}
	if len(d.Settings) > 1 {
		e.Because("the first node of a job sets its settings; %v", d)
	}
	return e.Detail("flag", first.Flag).Detail("job", first.Job).Detail("yours", first.Yours)
}

func fromHook(e *launch.HookFailed) *problem.Error {
	f := problem.New(problem.PreHook, "the pre-hook failed: %s", e.How).
		Of(e).Cure("see %s; the node can run when the command ends with 0", e.Log)
	if e.Said != "" {
		f.Because("its last line: %s", e.Said)
	}
	return f
}

func fromNotFound(e *launch.NotFoundError) *problem.Error {
	f := problem.New(problem.NoProgram, "%v", e).Of(e)
	switch {
	case len(e.Near) > 0:
	case strings.HasSuffix(e.Name, ".py") && !strings.Contains(e.Name, "/"):
		f.Because("there is no file of that name here").Cure("the path of the script")
	case strings.Contains(e.Name, "/"):
		f.Because("there is no file at that path").Cure("the path of a program, or the name of one in PATH")
	default:
		f.Because("PATH has no program of that name").Cure("a program in PATH, or a path with a /")
	}
	return f
}

// row maps errors of another package to an error for the user. In its texts, %v is the error's own text.
type row struct {
	is                error
	code              problem.Code
	message, why, fix string
}

// fromRows returns the error of the first row that err is, or nil.
func fromRows(err error) *problem.Error {
	text := func(s string) string { return strings.ReplaceAll(s, "%v", err.Error()) }
	for _, r := range slices.Concat(nodeErrors(), tlsErrors(), serverErrors(), recordErrors()) {
		if errors.Is(err, r.is) {
			e := problem.New(r.code, "%s", text(r.message)).Of(err)
			e.Why, e.Fix = text(r.why), r.fix
			return e
		}
	}
	return nil
}

// nodeErrors are the errors of a node that takes part in a job.
func nodeErrors() []row {
	return []row{
		{syscall.EADDRINUSE, problem.Ports, "%v", "", "another --port, or none: any free one"},
		{launch.ErrPorts, problem.Ports, "%v", "", "--worker-ports=LO-HI with more free ports"},
		{launch.ErrAddress, problem.Address, "%v", "", "--host=ADDRESS of this machine"},
	}
}

// tlsErrors are the errors of certificates, tokens and users.
func tlsErrors() []row {
	const renew = "renew it (elastic certs), or set the clock of this machine"
	return []row{
		{etcd.ErrCertName, problem.ServerAuth, "the server's certificate is for another name", "%v",
			"--server=https://NAME:2379 with a name of the certificate, or a certificate for the name dialled"},
		{etcd.ErrCertTrust, problem.ServerAuth, "the server's certificate is not trusted", "%v",
			"--cacert=FILE with the certificate of the authority that signed it"},
		{etcd.ErrCertTime, problem.ServerAuth, "the server's certificate is not valid now", "%v", renew},
		{etcd.ErrCertExpired, problem.ServerAuth, "our certificate is not valid now", "%v", renew},
		{etcd.ErrCertRefused, problem.ServerAuth, "the server does not accept our certificate", "%v",
			"--cert and --key of a certificate that an authority of the server signed"},
		{etcd.ErrPlain, problem.Usage, "%v",
			"a password would cross the network readable, and a certificate prove nothing",
			"--server=https://HOST:2379, or the socket of a server on this machine: unix:///PATH"},
		{etcd.ErrTLSFiles, problem.Usage, "%v",
			"--cacert, --cert and --key name PEM files; a certificate needs its key",
			"files as elastic certs makes them"},
		{etcd.ErrOtherKey, problem.ServerAuth, "the server has another token, or is another one", "%v",
			"on every machine the token that the first node names: --token-file=FILE or ELASTIC_TOKEN"},
		{etcd.ErrOtherUser, problem.ServerAuth, "another user serves this socket", "%v",
			"remove the socket, or set XDG_RUNTIME_DIR to a directory of yours with mode 0700"},
		{etcd.ErrNoTLS, problem.ServerWrong, "the server speaks no TLS, and only a server with our token is used", "%v",
			"--server=http://HOST:PORT if that is the etcd or elasticd to use; --insecure if run started it so; " +
				"else another port"},
		{etcd.ErrAuth, problem.ServerAuth, "the server refuses this client", "%v",
			"--user=NAME with ELASTIC_PASSWORD, or --cacert, --cert and --key"},
	}
}

// serverErrors are the errors of a server that is none, or cannot serve.
func serverErrors() []row {
	return []row{
		{etcd.ErrWantsTLS, problem.ServerWrong, "the server speaks TLS, and the request did not", "%v",
			"--server=https://HOST:2379, and --cacert=FILE where no public authority signed its certificate"},
		{etcd.ErrNotEtcd, problem.ServerWrong, "the service at this address is no etcd v3", "%v",
			"--server=HOST:2379, the address for clients of an etcd v3 or of elasticd; with TLS " +
				"--server=https://HOST:2379 and --cacert"},
		{etcd.ErrTwoClusters, problem.ServerWrong, "the servers do not belong together", "%v",
			"name the members of one cluster, the same on every node"},
		{etcd.ErrNoQuorum, problem.ServerWrong, "the server answers, but its cluster has no majority", "%v",
			"start the other members"},
		{etcd.ErrUnreachable, problem.Server, "the server does not answer", "%v",
			"check that it runs, and that --server is right; one that run started: --rdzv-endpoint=HOST:PORT"},
	}
}

// recordErrors are the errors of records in the store and of requests to change them.
func recordErrors() []row {
	return []row{
		{schema.ErrNewerFormat, problem.JobBroken, "%v", "a newer elastic wrote this job",
			"use that version, for this command and for every node of the job"},
		{schema.ErrBadRecord, problem.JobBroken, "%v", "a record in the store is damaged, or not written by elastic",
			"repair the key if you wrote it; else end the agents of the job, elastic rm JOB, and run it again; " +
				"rm --keep-checkpoints keeps the checkpoints of this machine"},
		{scaling.ErrPlan, problem.NoPlan, "%v", "", "another --batch-size, or another size"},
	}
}
