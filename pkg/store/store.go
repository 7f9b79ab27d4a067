// Package store is all of etcd that Elastic uses, as one small interface, and how a request is sent
// so that its result is known.
package store

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Store is all of etcd that Elastic uses: one read at one revision,
// transactions, watches and leases. pkg/store/etcd speaks to a real one,
// pkg/store/memory is one in memory for simulations; both pass the same
// conformance suite (pkg/store/storetest).
//
// Every error of Txn, Grant and Revoke means *unknown*: the request may be
// applied now, in a minute, or never. Send (request.go) resolves that.
type Store interface {
	// Get reads [key, end) at one revision, linearizably; end "" means the one key.
	// Entries come in the order of their keys.
	Get(ctx context.Context, key, end string) (Read, error)
	// GetRanges reads several ranges at one revision, linearizably. Entries come in the order of
	// the ranges, and within each in the order of their keys.
	GetRanges(ctx context.Context, ranges ...Range) (Read, error)
	// Txn applies Then if every guard holds, else it reads Else.
	Txn(ctx context.Context, t Txn) (TxnResult, error)
	// Watch tells of changes in [key, end) from revision from on, in order. The channel is
	// closed after a response with an error (ErrCompacted: list again), or with ctx.
	// A watch may go deaf without any error: callers that depend on it list again now and then.
	Watch(ctx context.Context, key, end string, from int64) <-chan Change
	// Grant makes a lease; the store may grant more than was asked.
	Grant(ctx context.Context, ttl time.Duration) (Lease, time.Duration, error)
	// Renew renews once. ErrLeaseLost says that the store no longer has the lease; any
	// other error says nothing about it.
	Renew(ctx context.Context, l Lease) error
	// TimeToLive reads how long a lease lives unless it is renewed, in whole seconds that are over,
	// and how long a renewal lets it live; linearizably. ErrLeaseLost: the store no longer has it.
	TimeToLive(ctx context.Context, l Lease) (left, granted time.Duration, err error)
	Revoke(ctx context.Context, l Lease) error
}

var (
	// ErrLeaseLost is the store's word that a lease is gone; silence never means it.
	ErrLeaseLost = errors.New("lease lost")
	// ErrCompacted says that a watch asked for revisions that are no longer there, or that the
	// store, set back to an older copy, does not have them any more.
	ErrCompacted = errors.New("revision compacted")
	// ErrMoved says that a guard of a request did not hold, and that the request was not applied.
	ErrMoved = errors.New("guard moved on")
)

// Again is the longest pause between two tries to reach a store that does not answer. Nodes that
// lost their store have so long to find a new one before schema.SettleTime ends, with the rest of
// that time for their requests.
const Again = 200 * time.Millisecond

// Lease is the id of a lease; 0 is none.
type Lease int64

// Entry is one key as read.
type Entry struct {
	Key   string
	Value []byte
	Rev   int64 // ModRevision
	Made  int64 // CreateRevision
	Lease Lease
	Memo  *Memo // nil: it is decoded anew each time
}

// Memo caches the decoded value of an entry for readers that see the same entry many times. They
// must not change the shared value.
type Memo struct{ value atomic.Pointer[any] }

// Value returns the cached value, or nil.
func (m *Memo) Value() any {
	if v := m.value.Load(); v != nil {
		return *v
	}
	return nil
}

// Keep caches v.
func (m *Memo) Keep(v any) { m.value.Store(&v) }

// Read is what was found at revision Rev of the cluster Cluster. A revision
// says nothing about one of another cluster.
type Read struct {
	Entries []Entry
	Rev     int64
	Cluster uint64
}

// One returns the only entry, or nil.
func (r Read) One() *Entry {
	if len(r.Entries) == 0 {
		return nil
	}
	return &r.Entries[0]
}

// Change is what happened at revision Rev, complete. A Change without Events is a sign of life.
type Change struct {
	Rev    int64
	Events []Event
	Err    error
}

// Event is a key put or deleted. Deleted entries carry Key and Rev only.
type Event struct {
	Entry
	Deleted bool
}

// Guard is one comparison of a transaction: what etcd can compare, no more.
type Guard struct {
	Key, End string // End "" means the one key; else every key of [Key, End) must satisfy it
	What     Compared
	Rev      int64  // for RevIs, RevBelow
	Value    string // for ValueIs
}

// Compared says what a Guard compares.
type Compared int

const (
	RevIs    Compared = iota // ModRevision = Rev; 0 means the key is absent
	RevBelow                 // ModRevision < Rev
	ValueIs                  // Value = Value, and present
)

// Unchanged holds while key was not written since it was seen at rev; 0 means absent.
func Unchanged(key string, rev int64) Guard { return Guard{Key: key, What: RevIs, Rev: rev} }

// Absent holds while key does not exist.
func Absent(key string) Guard { return Unchanged(key, 0) }

// NoneNewer holds while no key below prefix was written after revision rev.
func NoneNewer(prefix string, rev int64) Guard {
	return Guard{Key: prefix, End: End(prefix), What: RevBelow, Rev: rev + 1}
}

// NoneBelow holds while there is no key below prefix.
func NoneBelow(prefix string) Guard { return Guard{Key: prefix, End: End(prefix), What: RevIs, Rev: 0} }

// Write is a put, or a delete of [Key, End).
type Write struct {
	Key, End string
	Value    []byte // nil: delete
	Lease    Lease
}

func Put(key string, value []byte) Write { return Write{Key: key, Value: value} }
func PutLeased(key string, value []byte, l Lease) Write {
	return Write{Key: key, Value: value, Lease: l}
}
func Delete(key string) Write           { return Write{Key: key} }
func DeleteRange(key, end string) Write { return Write{Key: key, End: end} }

// MaxOps is etcd's limit of guards, and of writes, in one transaction.
const MaxOps = 128

// Txn is a transaction. Else, if given, is a key to read when a guard fails.
type Txn struct {
	If   []Guard
	Then []Write
	Else string
}

// TxnResult says whether the guards held, and at which revision that was.
type TxnResult struct {
	OK   bool
	Rev  int64
	Else *Entry
}
