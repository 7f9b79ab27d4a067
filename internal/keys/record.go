package keys

import (
	"encoding/json"
	"fmt"
)

// format is the format that this version writes and the newest that it reads.
const format = 1

type envelope struct {
	Format int             `json:"format"`
	Record json.RawMessage `json:"record"`
}

// Encode writes a record with its format number.
func Encode[T any](v T) []byte {
	rec, err := json.Marshal(v)
	if err == nil {
		rec, err = json.Marshal(envelope{format, rec})
	}
	if err != nil {
		panic(fmt.Sprintf("record %T cannot be written: %v", v, err)) // records are plain data: a bug, not an input
	}
	return rec
}

// Decode reads a record. ErrNewerFormat if a newer version wrote it.
func Decode[T any](e *Entry) (T, error) {
	if e.Memo == nil {
		return decode[T](e)
	}
	if v, ok := e.Memo.value.(T); ok {
		return v, nil
	}
	v, err := decode[T](e)
	if err == nil {
		e.Memo.value = v
	}
	return v, err
}

func decode[T any](e *Entry) (T, error) {
	var v T
	var env envelope
	if err := json.Unmarshal(e.Value, &env); err != nil {
		return v, fmt.Errorf("%s: not a record of elastic: %w", e.Key, err)
	}
	if env.Format > format {
		return v, fmt.Errorf("%s: format %d: %w", e.Key, env.Format, ErrNewerFormat)
	}
	if err := json.Unmarshal(env.Record, &v); err != nil {
		return v, fmt.Errorf("%s: %w", e.Key, err)
	}
	return v, nil
}
