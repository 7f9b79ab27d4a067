// Package schema is the etcd schema of a job: the name of every key, the
// envelope of every record, and the guards that requests compare.
//
// It holds no logic and no client. The owner of a key (docs/PROTOCOL.md, section 1,
// "written by") builds the requests on it out of these pieces.
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

// Elasticd tells an elasticd from a plain etcd; its value is the version.
const Elasticd = "/elastic/elasticd"

// Settled is written by an elasticd when a new store has been served for SettleTime: nodes of a job
// that an earlier store lost have found the server by then, and claimed that job.
const Settled = "/elastic/settled"

// SettleTime is enough for an agent that lost its server to claim its job on the new one: it tries
// to connect every store.Again, needs four requests, and may stand still for half a second.
const SettleTime = time.Second

// ValidName reports whether s may name a job or a node: ^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$. Keys and
// paths are built from names that match it only, which is why none needs escaping.
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

// UID tells a job from another of the same name, made before or after it.
type UID string

// Generation numbers the Worlds of a job. It only rises; it is the fence.
type Generation uint64

// MaxGeneration is the largest number whose key is in the order of the numbers. No job gets there.
const MaxGeneration Generation = 999_999_999_999

func (j Job) Prefix() string { return Root + string(j) + "/" }
func (j Job) Job() string    { return j.Prefix() + "job" }
func (j Job) Fence() string  { return j.Prefix() + "fence" }
func (j Job) World() string  { return j.Prefix() + "world" }
func (j Job) Wish() string   { return j.Prefix() + "wish" }

// Secret is the key of the secret with which nodes of that job prove that they belong to it. It
// lies beside all jobs, so that a user who may read a job cannot pose as one of its nodes.
func (j Job) Secret(u UID) string { return j.Secrets() + string(u) }
func (j Job) Secrets() string     { return "/elastic/secrets/" + string(j) + "/" }

// Removed says that the job of that uid was removed. It lies beside all jobs, because with the job
// everything below its prefix goes: a node that still has data of it must not take that for a lost
// store.
func (j Job) Removed(u UID) string { return "/elastic/removed/" + string(j) + "/" + string(u) }

// Plans is the prefix of the chunks of one proposal, Plan one chunk of it.
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
func (j Job) AllWarm() string             { return j.Prefix() + "warm/" }
func (j Job) Warm(node string) string     { return j.AllWarm() + node }
func (j Job) Progress() string            { return j.Prefix() + "progress" }
func (j Job) AllClaims() string           { return j.Prefix() + "claims/" }
func (j Job) Claim(node string) string    { return j.AllClaims() + node }
func (j Job) Events() string              { return j.Prefix() + "events/" }
func (j Job) Event(id string) string      { return j.Events() + id }
func (j Job) AllSuspects() string         { return j.Prefix() + "suspects/" }
func (j Job) Suspects(n string) string    { return j.AllSuspects() + n + "/" }
func (j Job) Suspect(n, by string) string { return j.Suspects(n) + by }

// AllParts is the prefix of what nodes report of their parts of saves; Parts that of one
// generation.
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
func (j Job) Checkpoints() string             { return j.Prefix() + "ckpt/n/" }
func (j Job) Checkpoint(number uint64) string { return j.Checkpoints() + fmt.Sprintf("%012d", number) }
func (j Job) Head() string                    { return j.Prefix() + "ckpt/head" }

// Before is the end of the range of keys below prefix that belong to
// generations older than g: [prefix, Before(prefix, g)).
func Before(prefix string, g Generation) string { return prefix + g.key() }

// FenceIs holds while g is the newest proposed generation of the job u. It is not the newest
// running one: a commit of g must not land between the plan and the start of g+1.
func FenceIs(j Job, u UID, g Generation) store.Guard {
	return store.Guard{Key: j.Fence(), What: store.ValueIs, Value: FenceValue(u, g)}
}

// FenceValue is the whole value of the fence: etcd compares values, never
// fields of them. The uid is in it because a job that was removed and made
// again counts from generation 1.
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

// Rest splits a key below prefix into its parts: the node of "nodes/<node>",
// the generation and node of "ready/<g>/<node>".
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
