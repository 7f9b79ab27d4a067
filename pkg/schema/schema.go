// Package schema is the etcd schema of a job: the names of keys, the envelope of records, and the
// guards that requests compare.
//
// It has no logic and no client. The writer of a key (docs/PROTOCOL.md, section 1, "written by")
// builds its requests from these parts.
package schema

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/store"
)

// Root is the prefix of everything that Elastic writes. Prefixes always end
// in "/", so that job "a" never sees the keys of job "ab".
const Root = "/elastic/v1/"

// Elasticd is a key that an elasticd has and a plain etcd does not. Its value is the version.
const Elasticd = "/elastic/elasticd"

// ValidName reports whether s may name a job or a node: ^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$. Such a
// name needs no escaping in keys and paths.
func ValidName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return 1 <= len(s) && len(s) <= 64
}

// Job is the name of a job, and the root of its keys.
type Job string

// UID distinguishes a job from other jobs of the same name.
type UID string

// Generation is the number of a World of a job. It only rises. The fence is a generation.
type Generation uint64

// MaxGeneration is the largest generation for which keys sort as numbers do. No job gets there.
const MaxGeneration Generation = 999_999_999_999

func (j Job) Prefix() string { return Root + string(j) + "/" }
func (j Job) Job() string    { return j.Prefix() + "job" }
func (j Job) Fence() string  { return j.Prefix() + "fence" }
func (j Job) World() string  { return j.Prefix() + "world" }
func (j Job) Wish() string   { return j.Prefix() + "wish" }

// Secret is the key of the secret with which nodes prove that they belong to the job. It is not
// below the job's prefix, so that a user who may read the job cannot pose as one of its nodes.
func (j Job) Secret(u UID) string { return j.Secrets() + string(u) }
func (j Job) Secrets() string     { return "/elastic/secrets/" + string(j) + "/" }

// Removed is the key of the tombstone of a removed job. It is not below the job's prefix, which is
// deleted with the job. It tells a node that still has data of the job that the job was removed and
// not lost.
func (j Job) Removed(u UID) string { return "/elastic/removed/" + string(j) + "/" + string(u) }

// Machines is the prefix of what is known of machines, beyond the jobs that ran there. Incident is
// one thing that happened on a machine: its keys sort by time. DrainedMachine is the mark that no job
// may use it.
const (
	Machines    = "/elastic/machines/"
	DrainedName = "drained"
)

func Machine(id string) string        { return Machines + id + "/" }
func DrainedMachine(id string) string { return Machine(id) + DrainedName }
func Incident(id string, at time.Time, name string) string {
	return Machine(id) + fmt.Sprintf("%015d-%s", max(0, at.UnixMilli()), name)
}

// Resume is the key with which an operator allows that nodes of earlier jobs of this name come, and
// that the first World begins from the newest checkpoint that they bring. It is not below the job's
// prefix, because it is written before the job is made.
func (j Job) Resume() string { return "/elastic/resume/" + string(j) }

// Plans is the prefix of the chunks of one proposal, and Plan is one chunk.
func (j Job) Plans(proposal string) string { return j.AllPlans() + proposal + "/" }
func (j Job) AllPlans() string             { return j.Prefix() + "plan/" }
func (j Job) Plan(proposal string, k int) string {
	return j.Plans(proposal) + fmt.Sprintf("%04d", k)
}
func (j Job) Endpoints(proposal string) string { return j.Plans(proposal) + "endpoints" }

func (j Job) Nodes() string               { return j.Prefix() + "nodes/" }
func (j Job) Node(node string) string     { return j.Nodes() + node }
func (j Job) AllWarming() string          { return j.Prefix() + "warming/" }
func (j Job) Warming(node string) string  { return j.AllWarming() + node }
func (j Job) AllHeld() string             { return j.Prefix() + "held/" }
func (j Job) Held(node string) string     { return j.AllHeld() + node }
func (j Job) AllLeft() string             { return j.Prefix() + "left/" }
func (j Job) Left(node string) string     { return j.AllLeft() + node }
func (j Job) AllDoing() string            { return j.Prefix() + "doing/" }
func (j Job) Doing(node string) string    { return j.AllDoing() + node }
func (j Job) Progress() string            { return j.Prefix() + "progress" }
func (j Job) Curve() string               { return j.Prefix() + "curve" }
func (j Job) AllBrought() string          { return j.Prefix() + "brought/" }
func (j Job) Brought(node string) string  { return j.AllBrought() + node }
func (j Job) Events() string              { return j.Prefix() + "events/" }
func (j Job) Event(id string) string      { return j.Events() + id }
func (j Job) AllSuspects() string         { return j.Prefix() + "suspects/" }
func (j Job) Suspects(n string) string    { return j.AllSuspects() + n + "/" }
func (j Job) Suspect(n, by string) string { return j.Suspects(n) + by }

// AllParts is the prefix of the reports on parts of saves, and Parts that of one generation.
func (j Job) AllParts() string                         { return j.Prefix() + "parts/" }
func (j Job) Parts(g Generation) string                { return j.AllParts() + g.key() + "/" }
func (j Job) PartsOf(g Generation, node string) string { return j.Parts(g) + node }

// key writes a generation with leading zeros, so that a range of keys is a range of generations.
func (g Generation) key() string { return fmt.Sprintf("%012d", uint64(g)) }

func (j Job) AllReady() string            { return j.Prefix() + "ready/" }
func (j Job) Readies(g Generation) string { return j.AllReady() + g.key() + "/" }
func (j Job) Ready(g Generation, node string) string {
	return j.Readies(g) + node
}
func (j Job) AllExits() string          { return j.Prefix() + "exit/" }
func (j Job) Exits(g Generation) string { return j.AllExits() + g.key() + "/" }
func (j Job) Exit(g Generation, node string) string {
	return j.Exits(g) + node
}
func (j Job) AllFailures() string             { return j.Prefix() + "failure/" }
func (j Job) Failure(g Generation) string     { return j.AllFailures() + g.key() }
func (j Job) AllNaNs() string                 { return j.Prefix() + "nan/" }
func (j Job) NaN(g Generation) string         { return j.AllNaNs() + g.key() }
func (j Job) AllOutputs() string              { return j.Prefix() + "output/" }
func (j Job) Output(g Generation) string      { return j.AllOutputs() + g.key() }
func (j Job) Checkpoints() string             { return j.Prefix() + "ckpt/n/" }
func (j Job) Checkpoint(number uint64) string { return j.Checkpoints() + fmt.Sprintf("%012d", number) }
func (j Job) Head() string                    { return j.Prefix() + "ckpt/head" }

// Before is the end of the range of keys below prefix that belong to
// generations older than g: [prefix, Before(prefix, g)).
func Before(prefix string, g Generation) string { return prefix + g.key() }

// FenceIs holds while g is the newest proposed generation of the job u. The newest running one
// would be wrong: a commit of g must not succeed between the plan and the start of g+1.
func FenceIs(j Job, u UID, g Generation) store.Guard {
	return store.Guard{Key: j.Fence(), What: store.ValueIs, Value: FenceValue(u, g)}
}

// FenceValue is the whole value of the fence, because etcd can compare only whole values. It has
// the uid because a job that was removed and made again starts again from generation 1.
func FenceValue(u UID, g Generation) string {
	return string(u) + "/" + strconv.FormatUint(uint64(g), 10)
}

// ParseFence reads what FenceValue wrote.
func ParseFence(v []byte) (UID, Generation, error) {
	u, n, ok := strings.Cut(string(v), "/")
	g, err := strconv.ParseUint(n, 10, 64)
	if !ok || err != nil || !ValidName(u) || Generation(g) > MaxGeneration {
		return "", 0, fmt.Errorf("fence %.80q: %w: it is not uid/generation", v, ErrBadRecord)
	}
	return UID(u), Generation(g), nil
}

// Rest splits the part of key below prefix: into the node of "nodes/<node>", or the generation and
// node of "ready/<g>/<node>".
func Rest(prefix, key string) []string {
	rest, ok := strings.CutPrefix(key, prefix)
	if !ok || rest == "" {
		return nil
	}
	return strings.Split(rest, "/")
}

// ParseGeneration reads the generation in a key.
func ParseGeneration(s string) (Generation, error) {
	g, err := strconv.ParseUint(s, 10, 64)
	if err == nil && Generation(g) > MaxGeneration {
		err = fmt.Errorf("generation %d is larger than any", g)
	}
	return Generation(g), err
}
