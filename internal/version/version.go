// Package version tells which build this is.
package version

import "runtime/debug"

// release is set by the linker: make build and make release.
var release string

// String is the version of a release, else that of the module or of the commit, else "dev".
func String() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}
