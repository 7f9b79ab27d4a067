package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/elasticd/elastic/pkg/store"
)

var (
	// ErrNewerFormat: a newer Elastic wrote the record. A process that reads it must not write.
	ErrNewerFormat = errors.New("written by a newer version of elastic")
	// ErrBadRecord: the record is damaged, or another program wrote it.
	ErrBadRecord = errors.New("not a record of elastic")
)

// Unreadable reports whether err says that a record cannot be read.
func Unreadable(err error) bool {
	return errors.Is(err, ErrNewerFormat) || errors.Is(err, ErrBadRecord)
}

// maxRecord is the size of the largest record that is read. It is above etcd's default limit.
const maxRecord = 4 << 20

// format is the format that this version writes and the newest that it reads. Format 1 had more fields,
// which nothing needs.
const format = 2

type envelope[T any] struct {
	Format int `json:"format"`
	Record T   `json:"record"`
}

// Encode writes a record with its format number.
func Encode[T any](v T) []byte {
	rec, err := json.Marshal(envelope[T]{format, v})
	if err != nil {
		// records are plain data, so this is a bug
		panic(fmt.Sprintf("record %T cannot be written: %v", v, err))
	}
	return rec
}

// Decode reads a record. It returns ErrNewerFormat if a newer version wrote it.
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

// If the type of a record has a method Validate, the record is read only if that finds no fault. So
// its fields are safe to use as a size, a number, a name or an index.
func decode[T any](e *store.Entry) (T, error) {
	var env envelope[T]
	if len(e.Value) > maxRecord {
		return env.Record, fmt.Errorf("%s: %w: %d bytes", e.Key, ErrBadRecord, len(e.Value))
	}
	err := json.Unmarshal(e.Value, &env)
	if env.Format > format { // other errors do not matter in a newer format
		return env.Record, fmt.Errorf("%s: format %d: %w", e.Key, env.Format, ErrNewerFormat)
	}
	if err == nil && (env.Format < 1 || !bytes.Contains(e.Value, []byte(`"record"`))) {
		err = errors.New("it has no format, or nothing else")
	}
	if v, ok := any(&env.Record).(interface{ Validate() error }); ok && err == nil {
		err = v.Validate()
	}
	if err != nil {
		var none T
		return none, fmt.Errorf("%s: %w: %w", e.Key, ErrBadRecord, err)
	}
	return env.Record, nil
}
