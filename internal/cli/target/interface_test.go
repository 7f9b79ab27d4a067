package target

import (
	"errors"
	"testing"
)

// An address that stands for all of this machine can be listened on, and other machines cannot dial
// it: it is refused in every spelling.
func TestOursIsNotEvery(t *testing.T) {
	for _, host := range []string{"0.0.0.0", "::", "0:0:0:0:0:0:0:0", "::ffff:0.0.0.0", "::0"} {
		if ip, err := Ours(host); !errors.Is(err, errEvery) {
			t.Errorf("%s is announced as %q: %v", host, ip, err)
		}
	}
	if ip, err := Ours("127.0.0.1"); ip != "127.0.0.1" || err != nil {
		t.Errorf("127.0.0.1 is %q, %v", ip, err)
	}
}
