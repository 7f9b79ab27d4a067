package manifest

import (
	"errors"
	"strings"
	"testing"
)

// A path that no checkpoint can have is refused with the reason.
func TestPathsThatAreRefused(t *testing.T) {
	deep := strings.Repeat("d/", MaxDepth)
	for path, why := range map[string]string{
		"model.pt":                        "",
		deep[2:] + "model.pt":             "",
		deep + "model.pt":                 "lies deeper than 32 directories",
		"step-1/bad\xff.bin":              "is not UTF-8",
		strings.Repeat("a", 256):          "has a name of 256 bytes, and 255 at most",
		strings.Repeat("a/", 511) + "abc": "has 1025 bytes, and 1024 at most",
		ReservedPrefix + "x":              "begins like the agent's own names",
		"../model.pt":                     "is no relative path",
		"/model.pt":                       "is no relative path",
		".":                               "is no relative path",
		"":                                "is no relative path",
		"a\x00b":                          "is no relative path",
	} {
		switch err := CheckPath(path); {
		case why == "" && err != nil, why != "" && (err == nil || !strings.Contains(err.Error(), why)):
			t.Errorf("%.40q: %v, want %q", path, err, why)
		}
	}
	if !errors.Is(CheckPath(deep+"model.pt"), ErrBadPath) {
		t.Error("a path that is too deep is no bad path")
	}
}
