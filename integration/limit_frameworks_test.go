//go:build torch || frameworks

package integration

import "time"

// limit is what a wait may take: far beyond what it takes, on a machine that does other things too.
// There the import of a framework alone takes half a minute.
const limit = 4 * time.Minute
