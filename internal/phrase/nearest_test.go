package phrase

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"status", "scale", "stop", "events", "np", "nproc-per-node", "y"}
	for word, want := range map[string]string{"statsu": "status", "scael": "scale", "sotp": "stop",
		"event": "events", "nproc-per-nod": "nproc-per-node", "frobnicate": "", "": "", "x": ""} {
		if got := Nearest(word, names); got != want {
			t.Errorf("nearest to %q is %q, want %q", word, got, want)
		}
	}
	if d := distance("kitten", "sitting"); d != 3 {
		t.Errorf("from kitten to sitting are 3 steps, not %d", d)
	}
}
