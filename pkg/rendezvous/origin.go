package rendezvous

import "slices"

// Origin says who made a job, on which host, and with which command.
type Origin struct {
	Owner   string   `json:"owner"`
	Host    string   `json:"host"`
	Command []string `json:"command"` // program and arguments, as typed
}

// maxCommand bounds the bytes of a command in the job record, which every read of the job carries.
const maxCommand = 4096

// NewOrigin cuts a command that is too long for the job record. Equal commands are cut alike, so
// that two origins compare as their commands do, up to the cut.
func NewOrigin(owner, host string, command []string) Origin {
	room := maxCommand
	for i, word := range command {
		if len(word) > room {
			return Origin{owner, host, append(slices.Clone(command[:i]), word[:room]+"…")}
		}
		room -= len(word)
	}
	return Origin{owner, host, slices.Clone(command)}
}

// SameCommand reports whether both run the same command. An origin without one is not known, and
// differs from nothing.
func (o Origin) SameCommand(other Origin) bool {
	return len(o.Command) == 0 || len(other.Command) == 0 || slices.Equal(o.Command, other.Command)
}
