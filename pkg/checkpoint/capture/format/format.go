// Package format reads files of known formats, and says whether they are complete.
package format

import (
	"archive/zip"
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// Completeness is what a file says about itself, by its own format.
type Completeness int

const (
	Opaque Completeness = iota // no known format
	Whole
	Torn
)

// Check reads a file as its own format would: a zip (torch.save, numpy) every
// record of which has its checksum and which ends in its directory, a pickle
// (paddle.save) up to its STOP, a safetensors file of the length that it announces.
func Check(t dirfs.Reader, f dirfs.Found) (Completeness, error) {
	in, err := t.Open(f.Path)
	if err != nil {
		return Torn, err
	}
	defer in.Close()
	var head [8]byte
	n, err := io.ReadFull(in, head[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return Torn, err
	}
	switch {
	case path.Ext(f.Path) == ".distcp":
		// one archive behind another, each with its own offsets; .metadata comes when all are
		// written
		return Opaque, nil
	case path.Ext(f.Path) == ".safetensors":
		return checkSafetensors(in, head[:n], f.State.Size)
	case n >= 4 && string(head[:4]) == "PK\x03\x04":
		return checkZip(in, f.State.Size)
	case n >= 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5:
		if _, err := in.Seek(0, io.SeekStart); err != nil {
			return Torn, err
		}
		return checkPickle(in, path.Ext(f.Path))
	}
	return Opaque, nil
}

func checkZip(in io.ReaderAt, size int64) (Completeness, error) {
	in = io.NewSectionReader(in, 0, size) // an offset outside of it is damage, not an error of the disk
	z, err := zip.NewReader(in, size)
	if err != nil {
		return verdict(err)
	}
	for _, f := range z.File {
		r, err := f.Open()
		if errors.Is(err, zip.ErrAlgorithm) {
			continue // written whole, in a way that only others can read
		}
		if err != nil {
			return verdict(err)
		}
		_, err = io.Copy(io.Discard, r)
		if err = errors.Join(err, r.Close()); err != nil {
			return verdict(err)
		}
	}
	if !slices.ContainsFunc(z.File, hasContent) {
		return Torn, nil
	}
	return Whole, nil
}

// hasContent reports whether an entry of an archive is one that its writer was given. torch.save adds
// the other ones when it closes the file, also after an object that it could not pickle.
func hasContent(f *zip.File) bool {
	switch path.Base(f.Name) {
	case "version", "byteorder", "serialization_id", ".format_version", ".storage_alignment":
		return false
	}
	return true
}

// verdict tells damage from a disk that cannot be read.
func verdict(err error) (Completeness, error) {
	var damage interface{ Timeout() bool } // *os.PathError, syscall.Errno
	if errors.As(err, &damage) {
		return Torn, err
	}
	return Torn, nil
}

func checkSafetensors(in io.ReaderAt, head []byte, size int64) (Completeness, error) {
	const most = 100 << 20 // the format's own limit of its header
	if len(head) < 8 {
		return Torn, nil
	}
	n := binary.LittleEndian.Uint64(head)
	if n > most || int64(n) > size-8 {
		return Torn, nil
	}
	raw := make([]byte, n)
	if _, err := in.ReadAt(raw, 8); err != nil {
		return verdict(err)
	}
	var tensors map[string]json.RawMessage
	if json.Unmarshal(raw, &tensors) != nil {
		return Torn, nil
	}
	var end int64
	for name, raw := range tensors {
		var t struct {
			Offsets [2]int64 `json:"data_offsets"`
		}
		if name == "__metadata__" {
			continue
		}
		if json.Unmarshal(raw, &t) != nil {
			return Torn, nil
		}
		end = max(end, t.Offsets[1])
	}
	if size != 8+int64(n)+end {
		return Torn, nil
	}
	return Whole, nil
}

// pickles end the names of files that are pickles when they begin like one.
var pickles = []string{".pdparams", ".pdopt", ".pkl", ".pickle", ".pt", ".pth", ".bin", ".ckpt"}

// errOpcode is what is no pickle, or one newer than this code.
var errOpcode = errors.New("no opcode of a pickle")

// checkPickle walks over the opcodes, without obeying any, up to STOP. Several
// pickles may follow each other (Paddle); what follows otherwise (the raw
// storages of old torch files) says nothing about its own end.
func checkPickle(in io.Reader, ext string) (Completeness, error) {
	r := bufio.NewReaderSize(in, 1<<16)
	for {
		switch err := skipPickle(r); {
		case errors.Is(err, errOpcode) && !slices.Contains(pickles, ext):
			return Opaque, nil // of another format, by its name and its bytes
		case errors.Is(err, errOpcode):
			return Torn, nil
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return Torn, nil
		case err != nil:
			return Torn, err
		}
		next, err := r.Peek(2)
		switch {
		case len(next) == 0 && errors.Is(err, io.EOF):
			return Whole, nil
		case len(next) == 2 && next[0] == 0x80 && next[1] >= 2 && next[1] <= 5:
		default:
			return Opaque, nil
		}
	}
}

func skipPickle(r *bufio.Reader) error {
	for {
		op, err := r.ReadByte()
		if err != nil {
			return err
		}
		if op == '.' {
			return nil
		}
		arg := pickleArgs[op]
		switch {
		case arg == 0:
			return fmt.Errorf("%#x: %w", op, errOpcode)
		case arg == noArg:
		case arg > 0:
			err = skip(r, int64(arg))
		case arg == lines1:
			err = skipLines(r, 1)
		case arg == lines2:
			err = skipLines(r, 2)
		default: // a length of -arg bytes, and as many bytes
			var n [8]byte
			if _, err = io.ReadFull(r, n[:-arg]); err != nil {
				return err
			}
			size := binary.LittleEndian.Uint64(n[:])
			if size > manifest.MaxBytes {
				return io.ErrUnexpectedEOF
			}
			err = skip(r, int64(size))
		}
		if err != nil {
			return err
		}
	}
}

// What follows an opcode: that many bytes if positive, a length of that many
// bytes and as many bytes if negative, or one of these.
const (
	noArg  = 100
	lines1 = -101
	lines2 = -102
)

// pickleArgs is Python's pickletools.opcodes, protocols 0 to 5.
var pickleArgs = [256]int{
	'(': noArg, '0': noArg, '1': noArg, '2': noArg, ')': noArg, 'N': noArg, 'Q': noArg, 'R': noArg,
	'a': noArg,
	'b': noArg, 'd': noArg, 'e': noArg, 'l': noArg, 'o': noArg, 's': noArg, 't': noArg, 'u': noArg,
	'}':  noArg,
	']':  noArg,
	0x81: noArg, 0x85: noArg, 0x86: noArg, 0x87: noArg, 0x88: noArg, 0x89: noArg, 0x8f: noArg,
	0x90: noArg, 0x91: noArg,
	0x92: noArg, 0x93: noArg, 0x94: noArg, 0x97: noArg, 0x98: noArg,
	'F': lines1, 'I': lines1, 'L': lines1, 'S': lines1, 'V': lines1, 'P': lines1, 'g': lines1, 'p': lines1,
	'c': lines2, 'i': lines2,
	'J': 4, 'K': 1, 'M': 2, 'G': 8, 'h': 1, 'j': 4, 'q': 1, 'r': 4, 0x80: 1, 0x82: 1, 0x83: 2, 0x84: 4,
	0x95: 8,
	'B':  -4, 'C': -1, 'T': -4, 'U': -1, 'X': -4, 0x8a: -1, 0x8b: -4, 0x8c: -1, 0x8d: -8, 0x8e: -8, 0x96: -8,
}

func skip(r *bufio.Reader, n int64) error {
	for n > 0 {
		d, err := r.Discard(int(min(n, 1<<30)))
		if n -= int64(d); err != nil {
			return err
		}
	}
	return nil
}

func skipLines(r *bufio.Reader, n int) error {
	for ; n > 0; n-- {
		for {
			_, err := r.ReadSlice('\n')
			if err == nil {
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return err
			}
		}
	}
	return nil
}
