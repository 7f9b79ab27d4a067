// Package worker starts, stops and reports one group of worker processes: all
// local workers of one generation on this node. It also keeps their logs.
//
// # Nothing survives
//
// The agent does not start workers itself. It starts a guardian, the same
// binary with a hidden argument, in a session of its own, and the guardian
// starts the workers:
//
//   - it is started ahead, and waits for its order (Prepare): its own start would be
//     the longest part of a start;
//   - the guardian is a child subreaper, so whatever a worker forks, daemons
//     included, stays below it. "No child left" (ECHILD) is the proof that the
//     group is empty, and the only thing that makes Stop return nil;
//   - it holds one end of a socket to the agent. End of file means that the
//     agent is gone, however it went: everything is killed at once;
//   - workers die with the guardian (PR_SET_PDEATHSIG), which starts them from
//     one locked thread that never ends. The rest of the group is then found
//     by the agent: by the guardian's session, whose number cannot be reused
//     while the guardian is unreaped, and by a mark in the environment;
//   - where a cgroup v2 is writable the group has one, and cgroup.kill takes it
//     in one step. It is never needed.
//
// An agent that starts calls proc.Sweep first. It ends processes of an earlier agent of the same
// state directory, in case both that agent and its guardian were killed. Until then, a process that
// a worker forked can outlive the worker, because no process is left to end it: a death signal
// reaches only the guardian's own children, and only a process can kill a cgroup. A PID namespace
// would end with its first process, but most users have no right to create one.
//
// A signal never reaches a reused pid. The guardian signals its own children, which only it reaps,
// in the same goroutine. Other processes open a pidfd and compare the start time.
//
// # Output
//
// A worker writes into a pipe, not into its log file. Handing it the file
// would turn a full disk into an error inside the training script, and would
// make rotation impossible while the worker lives. The pipe has two readers:
// the agent moves its content with splice(2) into a second pipe, the stage, and
// from there into the log. Splice consumes a byte only once it is in the other
// pipe or the file, so that an agent that is killed in between loses nothing.
// The guardian, which holds both pipes open (no SIGPIPE, no stall), writes what
// is left in them into the log after the agent's end. The kernel locks a pipe
// while it writes from it to a file: that is the stage's, and a worker waits
// for the disk only once its own pipe is full. The agent does not look for line ends on the way, so
// a line may have any length. If the file takes nothing more, the agent goes on emptying the pipe
// and counts.
//
// Both streams of a worker share one pipe and keep their exact order, unless
// the user wants them apart on the console (--tee 1, -r 0:2).
package worker
