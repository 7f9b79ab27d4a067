package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/elasticd/elastic/pkg/store"
)

// ErrNewerFormat means that a newer Elastic wrote a record. A process that meets it writes nothing.
var ErrNewerFormat = errors.New("written by a newer version of elastic")

// format is the format that this version writes and the newest that it reads.
const format = 1

type envelope[T any] struct {
	Format int `json:"format"`
	Record T   `json:"record"`
}

// Encode writes a record with its format number.
func Encode[T any](v T) []byte {
	rec, err := json.Marshal(envelope[T]{format, v})
	if err != nil {
		panic(fmt.Sprintf("record %T cannot be written: %v", v, err)) // records are plain data: a bug, not an input
	}
	return rec
}

// Decode reads a record. ErrNewerFormat if a newer version wrote it.
func Decode[T any](e *store.Entry) (T, error) {
	if e.Memo == nil {
		return decode[T](e)
	}
	if v, ok := e.Memo.Value().(T); ok {
		return v, nil
	}
	v, err := decode[T](e)
	if err == nil {
		e.Memo.Keep(v)
	}
	return v, err
}

func decode[T any](e *store.Entry) (T, error) {
	var env envelope[T]
	err := json.Unmarshal(e.Value, &env)
	if env.Format > format { // whatever else is the matter with it
		return env.Record, fmt.Errorf("%s: format %d: %w", e.Key, env.Format, ErrNewerFormat)
	}
	if err == nil && (env.Format < 1 || !bytes.Contains(e.Value, []byte(`"record"`))) {
		err = errors.New("it has no format, or nothing else")
	}
	if err != nil {
		return env.Record, fmt.Errorf("%s: not a record of elastic: %w", e.Key, err)
	}
	return env.Record, nil
}
