package checkpointtest

import (
	"bytes"
	"encoding/binary"
)

// pickled begins the pickle by CPython 3.11 of
// {"epoch": 3, "w": b"\0"*300, "s": "x"*300, "big": 2**100, "f": 1.5}.
const pickled = "\x80\x04\x95\xa6\x02\x00\x00\x00\x00\x00\x00}\x94(" +
	"\x8c\x05epoch\x94K\x03\x8c\x01w\x94B,\x01\x00\x00"

// Pickle returns a file like those of paddle.save.
func Pickle() []byte {
	var b bytes.Buffer
	b.WriteString(pickled)
	b.Write(make([]byte, 300))
	b.WriteString("\x94\x8c\x01s\x94X,\x01\x00\x00")
	b.Write(bytes.Repeat([]byte("x"), 300))
	b.WriteString("\x94\x8c\x03big\x94\x8a\x0d\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x00\x10\x8c\x01f\x94G?\xf8\x00\x00\x00\x00\x00\x00u.")
	return b.Bytes()
}

// Safetensors returns a file of that format with two tensors.
func Safetensors() []byte {
	header := `{"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},` +
		`"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}`
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, 12)...)
}
