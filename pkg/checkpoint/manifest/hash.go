// Package manifest describes a checkpoint: its files, their chunks and hashes, the generation that
// wrote it, and the record of its commit. It checks every path and size before they are used. It
// does no I/O.
package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Hash is a SHA-256.
type Hash [32]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText writes a hash as hex.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads the output of MarshalText. It checks the length first, because hex.Decode
// panics if its destination is too short.
func (h *Hash) UnmarshalText(b []byte) error {
	if len(b) != hex.EncodedLen(len(h)) {
		return fmt.Errorf("a hash has %d hexadecimal digits, and not %d", hex.EncodedLen(len(h)), len(b))
	}
	if _, err := hex.Decode(h[:], b); err != nil {
		return fmt.Errorf("hash %q is not hexadecimal", b)
	}
	return nil
}

// Sum returns the hash of b.
func Sum(b []byte) Hash { return sha256.Sum256(b) }

// Chunks has the hashes of a file's chunks, in order.
type Chunks []Hash

// MarshalText writes the hashes as one string of hex.
func (c Chunks) MarshalText() ([]byte, error) {
	b := make([]byte, 0, len(c)*2*sha256.Size)
	for _, h := range c {
		b = hex.AppendEncode(b, h[:])
	}
	return b, nil
}

// UnmarshalText reads the output of MarshalText.
func (c *Chunks) UnmarshalText(b []byte) error {
	const width = 2 * sha256.Size
	if len(b)%width != 0 {
		return fmt.Errorf("%d hexadecimal digits are no hashes", len(b))
	}
	*c = make(Chunks, 0, len(b)/width)
	for ; len(b) > 0; b = b[width:] {
		var h Hash
		if err := h.UnmarshalText(b[:width]); err != nil {
			return err
		}
		*c = append(*c, h)
	}
	return nil
}
