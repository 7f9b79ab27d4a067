package manifest

import (
	"encoding/json"
	"strings"
	"testing"
)

// A hash of any other length, as a damaged record or a stranger may send it, is refused.
func TestHashOfAnotherLength(t *testing.T) {
	for n := range 200 {
		text := strings.Repeat("0", n)
		var h Hash
		if err := json.Unmarshal([]byte(`"`+text+`"`), &h); (err == nil) != (n == 64) {
			t.Errorf("%d digits: %v", n, err)
		}
	}
	if new(Hash).UnmarshalText([]byte(strings.Repeat("g", 64))) == nil {
		t.Error("a hash that is not hexadecimal is read")
	}
}
