package coordinator

import "errors"

var (
	// ErrUsage says that the settings contradict each other.
	ErrUsage = errors.New("usage")
	// ErrDataDir says that the data directory cannot be used.
	ErrDataDir = errors.New("data directory cannot be used")
	// ErrInUse says that another process has the data directory.
	ErrInUse = errors.New("data directory in use")
	// ErrOtherMember says that the data directory belongs to another member or cluster.
	ErrOtherMember = errors.New("data directory of another member")
	// ErrListen says that an address cannot be listened on, or should not.
	ErrListen = errors.New("cannot listen")
	// ErrBackup says that a backup cannot be written, read or restored.
	ErrBackup = errors.New("backup")
	// ErrStopped says that etcd ended without being asked to.
	ErrStopped = errors.New("etcd stopped")
)

// Problem is an error for the operator of a server: what happened, why, and how to fix it.
type Problem struct {
	Kind           error // one of the errors above
	Text, Why, Fix string
}

func (p *Problem) Error() string { return p.Text }
func (p *Problem) Unwrap() error { return p.Kind }

func usage(text, fix string) error { return &Problem{Kind: ErrUsage, Text: text, Fix: fix} }
