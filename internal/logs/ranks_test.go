package logs

import "testing"

func TestRanks(t *testing.T) {
	for text, want := range map[string]string{"0": "0", "0,4-7": "0,4-7", "1-2,3": "1-3", "5,7": "5,7",
		"": "-", "a": "-", "3-1": "-", "-1": "-", "1-": "-", "0-9999999": "-"} {
		got := "-"
		if ranks, ok := ParseRanks(text); ok {
			got = Spans(ranks)
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
