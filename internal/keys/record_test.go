package keys_test

import (
	"errors"
	"testing"

	"github.com/elasticd/elastic/internal/keys"
)

// A memo is of one entry, and of one kind of record; what could not be read is not remembered.
func TestMemo(t *testing.T) {
	e := keys.Entry{Key: "k", Value: []byte("no record"), Memo: new(keys.Memo)}
	if _, err := keys.Decode[int](&e); err == nil {
		t.Fatal("no record was read as one")
	}
	e.Value = keys.Encode(7)
	if n, err := keys.Decode[int](&e); n != 7 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	e.Value = keys.Encode("seven")
	if n, err := keys.Decode[int](&e); n != 7 || err != nil {
		t.Errorf("it was decoded once more: %d, %v", n, err)
	}
	if s, err := keys.Decode[string](&e); s != "seven" || err != nil {
		t.Errorf("a record of another kind: %q, %v", s, err)
	}
	e = keys.Entry{Key: "k", Value: keys.Encode(8)}
	if n, err := keys.Decode[int](&e); n != 8 || err != nil {
		t.Errorf("without a memo: %d, %v", n, err)
	}
}

// A record of a newer version is one, whatever it says; what is none of any version is told apart.
func TestDecode(t *testing.T) {
	for value, want := range map[string]error{
		`{"format":1,"record":7}`:           nil,
		`{"format":2,"record":7}`:           keys.ErrNewerFormat,
		`{"format":2,"record":{"seven":7}}`: keys.ErrNewerFormat,
		`{"format":2,"value":7}`:            keys.ErrNewerFormat,
	} {
		if n, err := keys.Decode[int](&keys.Entry{Value: []byte(value)}); !errors.Is(err, want) || err == nil && n != 7 {
			t.Errorf("%s: %d, %v", value, n, err)
		}
	}
	for _, value := range []string{"", "{}", "7", `{"record":7}`, `{"format":1,"record":"seven"}`, `{"format":1,"record":7`} {
		if n, err := keys.Decode[int](&keys.Entry{Key: "k", Value: []byte(value)}); err == nil || errors.Is(err, keys.ErrNewerFormat) {
			t.Errorf("%s: %d, %v", value, n, err)
		}
	}
}
