package output

import (
	"fmt"
	"testing"
)

func ofAll(c Choice) string {
	var s string
	for rank := range 4 {
		s += fmt.Sprint(c.Of(rank))
	}
	return s
}

func TestParseStd(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"0": "0000", "1": "1111", "2": "2222", "3": "3333",
		"0:1,1:2": "1200", "3:3": "0003", "0:0,2:1": "0010", "10:3": "0000",
	} {
		if got, err := ParseStd(value); err != nil || ofAll(got) != want {
			t.Errorf("%s: %s %v, want %s", value, ofAll(got), err, want)
		}
	}
	for _, bad := range []string{"", "4", "-1", "33", "0:4", "0:", ":1", "0:1,", "a:1", "-1:1", "+1:1",
		"0:1;1:2", "0=1"} {
		if _, err := ParseStd(bad); err == nil {
			t.Errorf("%q is a choice", bad)
		}
	}
}

func TestParseConsole(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"all": "3333", "none": "0000", "0": "3000", "1,3": "0303",
	} {
		if got, err := ParseConsole(value); err != nil || ofAll(got) != want {
			t.Errorf("%s: %s %v, want %s", value, ofAll(got), err, want)
		}
	}
	for _, bad := range []string{"", "ALL", "0,", "-1", "0:1", "0 1"} {
		if _, err := ParseConsole(bad); err == nil {
			t.Errorf("%q is a choice", bad)
		}
	}
}

func TestShown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ console, tee, redirects, want string }{
		{"0", "0", "0", "3000"},
		{"0", "3", "0", "3333"},
		{"all", "0", "3", "0000"},
		{"all", "0", "0:1,1:2", "2133"},
		{"none", "1:2", "3", "0200"}, // --tee wins: to both
	} {
		console, err := ParseConsole(c.console)
		if err != nil {
			t.Fatal(err)
		}
		tee, _ := ParseStd(c.tee)
		redirects, _ := ParseStd(c.redirects)
		show := Shown(console, tee, redirects)
		var got string
		for rank := range 4 {
			got += fmt.Sprint(show(rank))
		}
		if got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// Ranks that are named bound what --tee shows, as torchrun's --local-ranks-filter does.
func TestWithin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ tee, filter, want string }{
		{"3", "1", "0300"},
		{"3", "0,2", "3030"},
		{"0:1,1:2", "1,3", "0200"},
		{"0:1,1:2", "all", "1200"},
		{"3", "none", "0000"},
	} {
		tee, err := ParseStd(c.tee)
		if err != nil {
			t.Fatal(err)
		}
		filter, err := ParseConsole(c.filter)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		for rank := range 4 {
			got += fmt.Sprint(tee.Within(filter).Of(rank))
		}
		if got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
