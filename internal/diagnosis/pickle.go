package diagnosis

import (
	"encoding/binary"
	"errors"
	"math"
)

var errPickle = errors.New("not a pickle of plain values")

// mark is the value that the opcode MARK pushes.
type mark struct{}

// unpickler reads a pickle of plain values, as torch's flight recorder writes it. It creates no
// objects. Its memory is proportional to its input, because a value that is used twice is kept
// once.
type unpickler struct {
	in    []byte
	stack []any
	memo  map[uint32]any
}

// list is a list under construction, which the memo and the stack share.
type list struct{ values []any }

func unpickle(in []byte) (any, error) {
	u := &unpickler{in: in, memo: map[uint32]any{}}
	for {
		op, ok := u.take(1)
		if !ok {
			return nil, errPickle
		}
		if op[0] == '.' {
			if len(u.stack) != 1 {
				return nil, errPickle
			}
			return u.stack[0], nil
		}
		if !u.step(op[0]) {
			return nil, errPickle
		}
	}
}

// take returns the next n bytes.
func (u *unpickler) take(n int) ([]byte, bool) {
	if n < 0 || n > len(u.in) {
		return nil, false
	}
	b := u.in[:n]
	u.in = u.in[n:]
	return b, true
}

func (u *unpickler) push(v any) bool {
	u.stack = append(u.stack, v)
	return true
}

// step carries out one opcode. It supports only those of plain values.
func (u *unpickler) step(op byte) bool {
	switch op {
	case 0x80: // PROTO
		_, ok := u.take(1)
		return ok
	case 0x95: // FRAME
		_, ok := u.take(8)
		return ok
	case '}':
		return u.push(map[string]any{})
	case ']':
		return u.push(&list{})
	case ')':
		return u.push([]any{})
	case '(':
		return u.push(mark{})
	case 'N':
		return u.push(nil)
	case 0x88, 0x89:
		return u.push(op == 0x88)
	case 'a', 'e', 's', 'u', 't', 0x85, 0x86, 0x87:
		return u.gather(op)
	case 'q', 'r', 'h', 'j':
		return u.remember(op)
	}
	return u.scalar(op)
}

// scalar reads a number or a text.
func (u *unpickler) scalar(op byte) bool {
	size, ok := map[byte]int{'K': 1, 'M': 2, 'J': 4, 'G': 8, 'X': 4, 0x8c: 1, 0x8a: 1}[op]
	if !ok {
		return false
	}
	b, ok := u.take(size)
	if !ok {
		return false
	}
	switch op {
	case 'K':
		return u.push(int64(b[0]))
	case 'M':
		return u.push(int64(binary.LittleEndian.Uint16(b)))
	case 'J':
		return u.push(int64(int32(binary.LittleEndian.Uint32(b))))
	case 'G':
		return u.push(math.Float64frombits(binary.BigEndian.Uint64(b)))
	case 'X':
		text, ok := u.take(int(binary.LittleEndian.Uint32(b)))
		return ok && u.push(string(text))
	case 0x8c:
		text, ok := u.take(int(b[0]))
		return ok && u.push(string(text))
	}
	digits, ok := u.take(int(b[0])) // LONG1
	if !ok || len(digits) > 8 {
		return false
	}
	var n int64
	for i, d := range digits {
		n |= int64(d) << (8 * i)
	}
	if len(digits) > 0 && len(digits) < 8 && digits[len(digits)-1]&0x80 != 0 {
		n -= 1 << (8 * len(digits))
	}
	return u.push(n)
}

// remember stores a value in the memo, or gets one from it.
func (u *unpickler) remember(op byte) bool {
	size := map[byte]int{'q': 1, 'h': 1, 'r': 4, 'j': 4}[op]
	b, ok := u.take(size)
	if !ok {
		return false
	}
	key := uint32(b[0])
	if size == 4 {
		key = binary.LittleEndian.Uint32(b)
	}
	if op == 'h' || op == 'j' {
		v, ok := u.memo[key]
		return ok && u.push(v)
	}
	if len(u.stack) == 0 {
		return false
	}
	u.memo[key] = u.stack[len(u.stack)-1]
	return true
}

// gather combines the values on top of the stack into one value.
func (u *unpickler) gather(op byte) bool {
	var values []any
	switch op {
	case 'a':
		values = u.pop(1)
	case 's':
		values = u.pop(2)
	case 0x85, 0x86, 0x87:
		values = u.pop(int(op) - 0x84)
		return values != nil && u.push(values)
	default:
		at := len(u.stack) - 1
		for at >= 0 && u.stack[at] != any(mark{}) {
			at--
		}
		if at < 0 {
			return false
		}
		values = append([]any{}, u.stack[at+1:]...)
		u.stack = u.stack[:at]
	}
	if values == nil {
		return false
	}
	if op == 't' {
		return u.push(values)
	}
	if len(u.stack) == 0 {
		return false
	}
	switch into := u.stack[len(u.stack)-1].(type) {
	case *list:
		into.values = append(into.values, values...)
		return op == 'a' || op == 'e'
	case map[string]any:
		for i := 0; i+1 < len(values); i += 2 {
			if name, ok := values[i].(string); ok {
				into[name] = values[i+1]
			}
		}
		return op == 's' || op == 'u'
	}
	return false
}

// pop takes n values from the stack. It returns nil if there are fewer.
func (u *unpickler) pop(n int) []any {
	if len(u.stack) < n {
		return nil
	}
	values := append([]any{}, u.stack[len(u.stack)-n:]...)
	u.stack = u.stack[:len(u.stack)-n]
	return values
}
