// Package version has the version of this build.
package version

import (
	"runtime/debug"
	"strings"
)

// Number is the version of the programs, the packages and the chart. A pre-release is 1.2.3-rc.1.
const Number = "0.1.0"

// String returns v and Number, with the commit behind it if Go recorded one.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "v" + Number
	}
	return of(info.Settings)
}

func of(settings []debug.BuildSetting) string {
	s := "v" + Number
	for _, x := range settings {
		switch {
		case x.Key == "vcs.revision":
			s += "+" + x.Value[:min(len(x.Value), 12)]
		case x.Key == "vcs.modified" && x.Value == "true":
			s += ".changed"
		}
	}
	return s
}

// Python returns Number as pip writes it: 1.2.3rc1 for 1.2.3-rc.1.
func Python() string {
	return pythonic(Number)
}

func pythonic(number string) string {
	return strings.NewReplacer("-alpha.", "a", "-beta.", "b", "-rc.", "rc").Replace(number)
}
