package message

import (
	"fmt"

	"github.com/elasticd/elastic/pkg/schema"
)

// OtherServerError: this machine has a job of that name that the server never had, or no longer has.
type OtherServerError struct {
	Job string
	Has string // its newest checkpoint, date and server
}

func (e *OtherServerError) Error() string {
	return fmt.Sprintf("this machine has %s of a job %s from another server", e.Has, e.Job)
}

// StoreBehindError: this machine knows more of the job than the server shows.
type StoreBehindError struct {
	Job         string
	Shown, Seen schema.Generation // the newest generation of the server, and of this node
	Has         string            // its newest checkpoint, date and server
}

func (e *StoreBehindError) Error() string {
	return fmt.Sprintf("the server shows generation %d of job %s, this node remembers %d", e.Shown, e.Job,
		e.Seen)
}
