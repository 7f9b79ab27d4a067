package node

import (
	"slices"
	"testing"
)

func TestFaulthandlerOfTheUserStays(t *testing.T) {
	t.Parallel()
	env := [][]string{{"A=1"}, {"PYTHONFAULTHANDLER=", "A=1"}}
	withFaulthandler(env)
	if !slices.Equal(env[0], []string{"A=1", "PYTHONFAULTHANDLER=1"}) || !slices.Equal(env[1], []string{"PYTHONFAULTHANDLER=", "A=1"}) {
		t.Errorf("%q", env)
	}
}
