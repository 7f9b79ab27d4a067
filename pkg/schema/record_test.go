package schema_test

import (
	"errors"
	"testing"

	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// A memo is for one entry and one type of record. A failed decoding is not kept.
func TestMemo(t *testing.T) {
	e := store.Entry{Key: "k", Value: []byte("no record"), Memo: new(store.Memo)}
	if _, err := schema.Decode[int](&e); err == nil {
		t.Fatal("no record was read as one")
	}
	e.Value = schema.Encode(7)
	if n, err := schema.Decode[int](&e); n != 7 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	e.Value = schema.Encode("seven")
	if n, err := schema.Decode[int](&e); n != 7 || err != nil {
		t.Errorf("it was decoded once more: %d, %v", n, err)
	}
	if s, err := schema.Decode[string](&e); s != "seven" || err != nil {
		t.Errorf("a record of another kind: %q, %v", s, err)
	}
	e = store.Entry{Key: "k", Value: schema.Encode(8)}
	if n, err := schema.Decode[int](&e); n != 8 || err != nil {
		t.Errorf("without a memo: %d, %v", n, err)
	}
}

// A record with a newer format is recognised as that, whatever is in it. Values of no format are
// distinguished from it.
func TestDecode(t *testing.T) {
	for value, want := range map[string]error{
		`{"format":1,"record":7}`:           nil, // of the version before
		`{"format":2,"record":7}`:           nil,
		`{"format":3,"record":7}`:           schema.ErrNewerFormat,
		`{"format":3,"record":{"seven":7}}`: schema.ErrNewerFormat,
		`{"format":3,"value":7}`:            schema.ErrNewerFormat,
	} {
		if n, err := schema.Decode[int](&store.Entry{Value: []byte(value)}); !errors.Is(err, want) ||
			err == nil && n != 7 {
			t.Errorf("%s: %d, %v", value, n, err)
		}
	}
	for _, value := range []string{"", "{}", "7", `{"record":7}`, `{"format":1,"record":"seven"}`,
		`{"format":1,"record":7`} {
		if n, err := schema.Decode[int](&store.Entry{Key: "k", Value: []byte(value)}); err == nil ||
			errors.Is(err, schema.ErrNewerFormat) {
			t.Errorf("%s: %d, %v", value, n, err)
		}
	}
}
