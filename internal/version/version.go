// Package version has the version of this build.
package version

import "runtime/debug"

// release is set by the linker in make build and make release.
var release string

// String returns the version of the release, else that of the module or the commit, else "dev".
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
