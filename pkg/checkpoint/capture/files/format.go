package files

// This file checks whether files of known formats are complete.

import (
	"archive/zip"
	"bufio"
	"bytes"
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

// Completeness says whether a file is complete by its own format.
type Completeness int

const (
	Opaque Completeness = iota // the format is unknown, or does not show it
	Whole
	Torn
)

// Check checks a file by its format. A zip (torch.save, numpy) must end in its directory, and each
// record must match its checksum. A pickle (paddle.save) must reach its STOP opcode. A safetensors
// file must have the length that its header announces.
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
		// The file is a sequence of archives, each with offsets of its own. The framework writes
		// .metadata when all are complete.
		return Opaque, nil
	case path.Base(f.Path) == "trainer_state.json":
		return checkBrace(in, f.State.Size)
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

// checkBrace checks that a JSON object ends. Python writes NaN, so it may be no valid JSON.
func checkBrace(in io.ReaderAt, size int64) (Completeness, error) {
	end := make([]byte, min(64, size))
	if _, err := in.ReadAt(end, size-int64(len(end))); err != nil && !errors.Is(err, io.EOF) {
		return verdict(err)
	}
	if !bytes.HasSuffix(bytes.TrimSpace(end), []byte("}")) {
		return Torn, nil
	}
	return Whole, nil
}

func checkZip(in io.ReaderAt, size int64) (Completeness, error) {
	in = io.NewSectionReader(in, 0, size) // makes a wrong offset damage, and not a disk error
	z, err := zip.NewReader(in, size)
	if err != nil {
		return verdict(err)
	}
	for _, f := range z.File {
		r, err := f.Open()
		if errors.Is(err, zip.ErrAlgorithm) {
			continue // the directory is complete; this compression cannot be checked
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

// hasContent reports whether an archive's entry has data of the script. torch.save adds the other
// entries when it closes the file, even if it could not pickle the object.
func hasContent(f *zip.File) bool {
	switch path.Base(f.Name) {
	case "version", "byteorder", "serialization_id", ".format_version", ".storage_alignment":
		return false
	}
	return true
}

// verdict returns Torn for damage. It returns the error too if the disk could not be read.
func verdict(err error) (Completeness, error) {
	var damage interface{ Timeout() bool } // *os.PathError, syscall.Errno
	if errors.As(err, &damage) {
		return Torn, err
	}
	return Torn, nil
}

func checkSafetensors(in io.ReaderAt, head []byte, size int64) (Completeness, error) {
	const most = 100 << 20 // the format's limit of its header
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

// pickles are extensions of files that must be pickles if they begin like one.
var pickles = []string{".pdparams", ".pdopt", ".pkl", ".pickle", ".pt", ".pth", ".bin", ".ckpt"}

// errOpcode means that the file is not a pickle, or has a newer protocol.
var errOpcode = errors.New("no opcode of a pickle")

// checkPickle skips over the opcodes up to STOP, without executing any. Several pickles may follow
// each other (Paddle). If other data follows (the raw storages of old torch files), the file is
// Opaque, because such data does not show where it ends.
func checkPickle(in io.Reader, ext string) (Completeness, error) {
	r := bufio.NewReaderSize(in, 1<<16)
	for {
		switch err := skipPickle(r); {
		case errors.Is(err, errOpcode) && !slices.Contains(pickles, ext):
			return Opaque, nil // the file has another format
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
		default: // a length of -arg bytes, then that many bytes
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

// The arguments of an opcode: n > 0 stands for n bytes; n < 0 for a length of -n bytes, then that
// many bytes; or one of these.
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
