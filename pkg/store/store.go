// Package store is the interface to the parts of etcd that Elastic uses. Send makes the result of a
// request known.
package store

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Store is the part of etcd that Elastic uses: reads at one revision, transactions, watches and
// leases. pkg/store/etcd is for a real etcd, pkg/store/memory is for simulations. Both pass the
// conformance suite pkg/store/storetest.
//
// After an error of Txn, Grant or Revoke the result is unknown: the request may be applied now, in
// a minute, or never. Send resolves that.
type Store interface {
	// Get reads [key, end) at one revision, linearizably; end "" means the one key.
	// Entries come in the order of their keys.
	Get(ctx context.Context, key, end string) (Read, error)
	// GetRanges reads several ranges at one revision, linearizably. Entries come in the order of
	// the ranges, and within each in the order of their keys.
	GetRanges(ctx context.Context, ranges ...Range) (Read, error)
	// Txn applies Then if every guard holds, else it reads Else.
	Txn(ctx context.Context, t Txn) (TxnResult, error)
	// Watch delivers the changes in [key, end) from revision from on, in order. It closes the
	// channel after a Change with an error (ErrCompacted: list again), or when ctx ends. A watch
	// may go silent without an error, so a caller that depends on it must list again now and then.
	Watch(ctx context.Context, key, end string, from int64) <-chan Change
	// Grant makes a lease; the store may grant a longer one.
	Grant(ctx context.Context, ttl time.Duration) (Lease, time.Duration, error)
	// Renew renews a lease once. It returns ErrLeaseLost if the store no longer has the lease. Any
	// other error says nothing about the lease.
	Renew(ctx context.Context, l Lease) error
	// TimeToLive reads how long a lease lives unless it is renewed, rounded down to seconds, and
	// how long it lives after a renewal; linearizably. It returns ErrLeaseLost if the store no
	// longer has the lease.
	TimeToLive(ctx context.Context, l Lease) (left, granted time.Duration, err error)
	Revoke(ctx context.Context, l Lease) error
}

var (
	// ErrLeaseLost: the store says that the lease is gone. A missing answer never means that.
	ErrLeaseLost = errors.New("lease lost")
	// ErrCompacted: a watch asked for revisions that the store no longer has, or does not have
	// since it was set back.
	ErrCompacted = errors.New("revision compacted")
	// ErrMoved: a guard did not hold, so the request was not applied.
	ErrMoved = errors.New("guard moved on")
)

// Again is the longest pause between two attempts to reach a store that does not answer. Nodes that
// lost their store find a new one within it, and have the rest of schema.SettleTime for their
// requests.
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
	Memo  *Memo // nil: each read decodes it
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

// Read is the entries found at revision Rev of the cluster Cluster. Revisions of different clusters
// cannot be compared.
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

// Change is everything that changed at revision Rev. A Change without Events is a sign of life.
type Change struct {
	Rev    int64
	Events []Event
	Err    error
}

// Event is a key that was put or deleted. A deleted entry has only Key and Rev.
type Event struct {
	Entry
	Deleted bool
}

// Guard is one comparison of a transaction.
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

// Unchanged holds while key has the revision rev; 0 means absent.
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

// TxnResult is whether the guards held, and at which revision.
type TxnResult struct {
	OK   bool
	Rev  int64
	Else *Entry
}
