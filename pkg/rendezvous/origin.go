package rendezvous

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/elasticd/elastic/pkg/membership"
)

// Origin is the user that made a job, the host, and the command.
type Origin struct {
	Owner   string   `json:"owner"`
	Host    string   `json:"host"`
	Command []string `json:"command"` // program and arguments, as typed
}

// maxCommand bounds the bytes of a command in the job record, which every read of the job carries.
const maxCommand = 4096

// NewOrigin returns an origin whose command is cut to fit the job record. Commands that are equal
// up to the cut compare as equal.
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

// Digest is a short hash of the command; "" if the command is not known.
func (o Origin) Digest() string {
	if len(o.Command) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(o.Command, "\x00")))
	return hex.EncodeToString(sum[:6])
}

// Differs reports whether digest is that of another command than o has. If one of them is not
// known, they do not differ.
func (o Origin) Differs(digest string) bool {
	own := o.Digest()
	return own != "" && digest != "" && own != digest
}

// OtherProgram reports whether n runs another program than the job was made with, while some
// registered node runs that program. If no registered node does, all nodes were started again with
// a corrected program, and n does not differ.
func (s *Snapshot) OtherProgram(n *membership.Node) bool {
	own := s.Job.Origin.Digest()
	return s.Job.Origin.Differs(n.Program) &&
		slices.ContainsFunc(s.Nodes, func(x membership.Node) bool { return x.Program == own })
}

// SameCommand reports whether both run the same command. An origin without a command is not known,
// and counts as the same.
func (o Origin) SameCommand(other Origin) bool {
	return len(o.Command) == 0 || len(other.Command) == 0 || slices.Equal(o.Command, other.Command)
}
